import json

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.findings import Finding
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.index.reach import Reach
from audit_pipeline.index.snapshot import SearchHits
from audit_pipeline.retrieval.ranking import Identities, rank_answers
from audit_pipeline.retrieval.search_findings import (
    distance_of,
    expected_results,
    labelled_cutoff_findings,
    search_findings,
)
from audit_pipeline_tests.retrieval.test_strata import D1, self_table
from audit_pipeline_tests.retrieval.worlds import chunk_table, on_circle, settings, snapshot

NO_ANSWER = {"distance": 0.5}


def probes(
    returned: list[int], causes: list[str | None], scores: list[float], expected: int = 10, notes: object = NO_ANSWER
) -> pa.Table:
    rows = self_table([("a", D1, "0-39", cause is None, True) for cause in causes]).to_pylist()
    for row, n, cause, score in zip(rows, returned, causes, scores, strict=True):
        row |= {"returned": n, "expected": expected, "cause": cause, "score": score}
        row["evidence"] = None if cause is None else json.dumps(notes)
    return pa.Table.from_pylist(rows, schema=self_table([]).schema)


def codes(table: pa.Table, **index: object) -> dict[str, Finding]:
    return {f.code: f for f in search_findings(table, settings(index=index))}


CLEAN = probes([10, 10], [None, None], [1.0, 1.0])


def test_a_full_answer_to_every_search_has_no_finding():
    assert codes(CLEAN) == {}
    assert codes(CLEAN.slice(0, 0)) == {}


def test_short_answers_are_a_warning():
    short = probes([10, 7], [None, None], [1.0, 1.0])
    found = codes(short)["short_results"]
    assert (found.severity, found.share, found.n_compared, found.examples) == ("warning", 0.5, 2, ["p1"])
    assert found.evidence == {"searches": 2, "short": 1, "expected": 10, "returned": 7}
    assert codes(probes([10, 7], [None, None], [1.0, 1.0], expected=7)) == {}


def test_below_cutoff_shows_the_distribution_of_what_was_dropped():
    table = probes([1, 1, 1, 1], [None, "below_cutoff", "below_cutoff", "below_cutoff"], [1.0, 0.2, 0.4, 0.6])
    found = codes(table, search={"min_score": 0.7})["below_cutoff"]
    assert (found.severity, found.share) == ("warning", 0.75)
    assert found.evidence["score"] == pytest.approx({"p5": 0.22, "p50": 0.4, "p95": 0.58})
    assert found.evidence["distance"] == {"p5": 0.5, "p50": 0.5, "p95": 0.5}
    unknown = probes([1], ["below_cutoff"], [0.2], notes={})
    assert "distance" not in codes(unknown, search={"min_score": 0.7})["below_cutoff"].evidence


def test_the_cut_off_is_shown_in_the_scale_it_is_set_in() -> None:
    dropped = probes([1], ["below_cutoff"], [-0.5])  # an exact squared distance of .5, as the search gives it
    scored = codes(dropped, metric="l2", search={"min_score": 0.9})["below_cutoff"]
    assert "min_score = 0.9 drops 1 of 1 probes" in scored.message
    assert "Their score is 0.75 at the median" in scored.message  # 1 - .5 / 2
    assert scored.remedy.startswith("Let a lower score pass")
    assert scored.evidence["score"]["p50"] == 0.75
    distant = codes(dropped, metric="l2", search={"max_distance": 0.2})["below_cutoff"]
    assert "max_distance = 0.2 drops 1 of 1 probes" in distant.message
    assert "Their _distance is 0.5 at the median" in distant.message
    assert (distant.evidence["max_distance"], "min_score" in distant.evidence) == (0.2, False)


@pytest.mark.parametrize(("dropped", "told"), [(0, False), (4, False), (12, True)])
def test_labelled_queries_tell_of_a_cut_off_that_surely_takes_more_than_the_gap(dropped: int, told: bool) -> None:
    # Of 40: the 95 % interval of 4 begins at 4.0 %, that of 12 at 18.1 %; the limit is 10 %.
    table = probes([1] * 40, ["below_cutoff"] * dropped + [None] * (40 - dropped), [0.5] * 40)
    table = table.rename_columns(["answer_id" if name == "chunk_id" else name for name in table.column_names])
    found = labelled_cutoff_findings(table, settings(index={"search": {"min_score": 0.9}}))
    assert [(one.code, one.severity, one.share) for one in found] == (
        [("below_cutoff", "warning", 0.3)] if told else []
    )
    assert all("12 of 40 labelled queries of which the search found a relevant chunk" in one.message for one in found)


# Five rows on a circle, all 20 degrees apart; one query at the first row. Distances 1 - cos of 0, 20, 40, 60, 80.
CIRCLE = snapshot(chunk_table([*"vwxyy"], ["t"] * 5), on_circle(0, 20, 40, 60, 80))
IDENTITIES = Identities(CIRCLE)


def expected(returned: int, beyond: int | None, reach: Reach, limit: int = 10, min_score: float | None = None) -> int:
    exact = ExactSearch(CIRCLE.vectors, CIRCLE.searchable, "cosine")
    query = on_circle(0)
    ranking = rank_answers(exact, IDENTITIES, query, np.array([0]), reach=reach)
    hits = SearchHits(
        np.zeros((1, limit), np.int64), np.array([returned]), None, None if beyond is None else np.array([beyond])
    )
    asked = settings(index={"search": {"limit": limit, "min_score": min_score}})
    (found,) = expected_results(CIRCLE, IDENTITIES, reach, ranking, hits, asked)
    return int(found)


EVERYTHING = Reach(np.zeros(1, np.int64), (None,))
SOME = Reach(np.zeros(1, np.int64), (np.array([0, 2, 3, 4]),))


def test_as_many_ids_are_expected_as_can_be_had_and_are_asked_for():
    assert expected(0, None, EVERYTHING) == 4  # the id y stands on two rows
    assert expected(0, None, EVERYTHING, limit=3) == 3
    assert expected(0, None, SOME) == 3
    assert expected(0, None, Reach(np.array([-1]), (None,))) == 0


def test_a_cut_off_may_shorten_an_answer_but_not_hide_a_search_that_was_short():
    # 1 - cos(40 degrees) is 0.234: within 0.3 lie v, w and x. What the search found and the cut-off took away is fine.
    assert expected(3, 1, EVERYTHING, min_score=0.7) == 3
    assert expected(1, 3, EVERYTHING, min_score=0.7) == 1
    # Two found of four: the search itself was short, and a third lies within the cut-off.
    assert expected(2, 0, EVERYTHING, min_score=0.7) == 3
    assert expected(2, 0, SOME, min_score=0.7) == 2
    assert expected(1, 0, EVERYTHING, min_score=0.99) == 1


def test_the_stores_distances_follow_from_the_exact_scores():
    for metric, score, distance in (("cosine", 0.8, 0.2), ("dot", 3.0, -2.0), ("l2", -0.5, 0.5)):
        assert distance_of(np.array([score]), metric) == pytest.approx([distance])
