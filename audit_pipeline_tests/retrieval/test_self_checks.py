from typing import Any

import numpy as np
import pytest

from audit_pipeline.errors import SelfCheckError
from audit_pipeline.index.exact import ExactRanks, ExactSearch
from audit_pipeline.index.snapshot import USABLE, ZERO
from audit_pipeline.retrieval.self_checks import retrieval_self_checks
from audit_pipeline_tests.retrieval.worlds import chunk_table, snapshot


def world(metric: str = "cosine", n: int = 40, **options: Any) -> Any:
    vectors = np.random.default_rng(5).normal(size=(n, 8)) * np.linspace(0.2, 5, n)[:, None]
    return snapshot(
        chunk_table([f"c{i}" for i in range(n)], [f"text {i}" for i in range(n)]), vectors, metric=metric, **options
    )


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_a_sound_search_passes_under_every_metric(metric: str):
    checks = retrieval_self_checks(world(metric))
    assert [check["name"] for check in checks] == [
        "exact_search_scores_every_row",
        "planted_duplicate_is_found",
        "ranks_agree_with_a_plain_count",
    ]
    assert all(check["passed"] is True for check in checks)
    assert checks[0]["detail"] == f"40 rows scored under {metric}"


def test_rows_without_a_usable_vector_are_not_missed():
    state = np.full(40, USABLE, np.uint8)
    state[3] = ZERO
    made = world(state=state)
    made.vectors[3] = 0
    assert retrieval_self_checks(made)[0]["detail"] == "39 rows scored under cosine"


def test_a_search_that_scans_half_of_the_rows_stops_the_run():
    made = world()
    half = ExactSearch(made.vectors, np.arange(40) < 20, "cosine")
    with pytest.raises(SelfCheckError, match="scored 20 rows where 40"):
        retrieval_self_checks(made, half)


@pytest.mark.parametrize(("metric", "other"), [("cosine", "l2"), ("cosine", "dot"), ("dot", "cosine"), ("l2", "dot")])
def test_a_search_under_another_metric_stops_the_run(metric: str, other: str):
    made = world(metric)
    with pytest.raises(SelfCheckError):
        retrieval_self_checks(made, ExactSearch(made.vectors, made.searchable, other))


def test_a_search_that_does_not_see_the_planted_copy_stops_the_run():
    class Blind(ExactSearch):
        def ranks(self, *args: Any, override: Any = None, **options: Any) -> ExactRanks:
            return super().ranks(*args, **options)

    made = world()
    with pytest.raises(SelfCheckError, match="planted_duplicate_is_found"):
        retrieval_self_checks(made, Blind(made.vectors, made.searchable, "cosine"))


@pytest.mark.parametrize("n", [0, 1])
def test_tables_too_small_to_plant_anything_say_so(n: int):
    checks = retrieval_self_checks(world(n=n))
    assert checks[1]["detail"] == f"not applicable to {n} searchable rows"
