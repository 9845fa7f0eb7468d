"""The reading, the figures that decide it, and what is told with it."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.proportions import NOT_MEASURED, Z_95, Proportion, wilson
from audit_pipeline.report.verdict_words import ANSWERS
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.strata import DIMENSIONS
from audit_pipeline.retrieval.verdict import (
    blind_spots,
    labelled_state,
    probes_to_decide,
    queries_to_decide,
    run_verdict,
    state_of,
)
from audit_pipeline.retrieval.verdict_findings import _hubs
from audit_pipeline_tests.retrieval.judged import (
    CEILING,
    D1,
    ERROR,
    LOST,
    PERFECT,
    TWINS,
    codes,
    other,
    reading,
    self_result,
    verdict,
)
from audit_pipeline_tests.retrieval.test_strata import population
from audit_pipeline_tests.retrieval.worlds import settings


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ("healthy", {"self_run": PERFECT, "held_out": wilson(900, 1000), "labelled": wilson(880, 1000)}),
        ("local_defect", {"self_run": PERFECT, "held_out": CEILING, "labelled": CEILING, "findings": [ERROR]}),
        ("local_defect", {"self_run": self_result(1000, LOST[:15])}),
        ("relationship", {"self_run": PERFECT, "held_out": wilson(900, 1000), "labelled": wilson(600, 1000)}),
        ("vectors_or_index", {"self_run": self_result(1000, LOST)}),
        ("twins", {"self_run": self_result(1000, TWINS)}),
        ("vectors_or_index", {"self_run": self_result(1000, TWINS[:10] + LOST)}),
        ("contradiction", {"self_run": self_result(1000, LOST), "held_out": CEILING, "labelled": wilson(900, 1000)}),
        ("content", {"self_run": PERFECT, "held_out": wilson(300, 1000)}),
        ("not_measured", {"self_run": PERFECT, "held_out": wilson(900, 1000)}),
        ("not_measured", {"self_run": PERFECT, "findings": [ERROR]}),
        ("not_measured", {"self_run": None}),
        ("not_measured", {"self_run": self_result(1000, [], limit=5)}),
        ("twins", {"self_run": self_result(1000, TWINS, limit=5)}),
        ("undecided", {"self_run": self_result(200, [], chunks=1000)}),
        ("undecided", {"self_run": PERFECT, "held_out": wilson(90, 100), "labelled": wilson(80, 100)}),
    ],
)  # fmt: skip
def test_every_reading_can_be_reached(expected: str, arguments: dict[str, Any]):
    assert reading(**arguments) == expected


def test_sentences_that_do_not_lead_back_are_not_laid_to_the_texts_alone():
    told = verdict(PERFECT, held_out=wilson(300, 1000)).summary["verdict"]["text"]
    assert "a model that hardly tells such texts apart" in told
    assert "the model cannot do it" in ANSWERS["content"]


def test_a_census_is_decided_however_small():
    assert reading(self_result(30, []), wilson(900, 1000), wilson(900, 1000), chunks=30) == "healthy"
    assert reading(self_result(30, LOST[:1]), chunks=30) == "vectors_or_index"  # 29 of 30 is .967


def test_a_perfect_self_at_10_needs_764_probes_of_a_large_corpus():
    assert probes_to_decide(1.0, 0.995, 380_000) == 763
    assert probes_to_decide(1.0, 0.995, 10**9) == 765  # n / (n + z^2) > .995 at n = 764.45
    assert reading(self_result(600, [], chunks=10**6), wilson(900, 1000), wilson(900, 1000)) == "undecided"
    assert reading(self_result(766, [], chunks=10**6), wilson(900, 1000), wilson(900, 1000)) == "healthy"


@pytest.mark.parametrize(("share", "limit"), [(0.995, 0.98), (0.97, 0.98), (0.95, 0.98), (1.0, 0.995)])
def test_the_n_that_decides_is_the_least_one(share: float, limit: float):
    # A score test: the limit is outside Wilson's interval when the share lies more than z standard errors from it.
    needed = probes_to_decide(share, limit, 10**9)
    z = [abs(share - limit) / math.sqrt(limit * (1 - limit) / n) for n in (needed - 1, needed)]
    assert z[0] < 1.96 < z[1] + 1e-4


def test_a_share_on_its_limit_needs_a_census():
    assert probes_to_decide(0.98, 0.98, 5_000) == 5_000
    # 3.8415 x .98 x .02 / .0001^2 = 7,529,287 of an endless population, 4,997 of 5,000
    assert probes_to_decide(0.9801, 0.98, 5_000) == 4_997


def test_undecided_names_the_figure_and_the_n_that_would_decide_it():
    result = verdict(self_result(200, [], chunks=1000))
    # 764.45 / (1 + 764.45 / 1000) = 433.2
    (finding,) = [f for f in result.findings if f.code == "undecided"]
    assert finding.severity == "info"
    assert finding.evidence["measure"] == "self@10"
    assert finding.evidence["n_that_decides"] == 434
    assert "434" in finding.remedy
    assert "It is one of local_defect, not_measured: self@10 straddles" in result.summary["verdict"]["text"]
    assert "about 434 probes" in result.summary["verdict"]["text"]


def test_self_at_1_is_not_listed_as_undecided_where_its_interval_clears_the_limit():
    result = verdict(self_result(200, [], chunks=1000))
    assert {f.evidence["measure"] for f in result.findings if f.code == "undecided"} == {"self@10"}


@pytest.mark.parametrize(
    ("hits", "n", "expected"),
    [
        (2, 2, "undecided"),
        (10, 10, "undecided"),
        (50, 50, "healthy"),
        (500, 500, "healthy"),
        (9, 10, "undecided"),
        (45, 50, "undecided"),
        (450, 500, "healthy"),
        (0, 2, "relationship"),  # two misses leave at most 65.8 %, more than ten points under a ceiling of 90 %
        (3, 10, "relationship"),
        (25, 50, "relationship"),
    ],
)
def test_a_handful_of_labelled_queries_is_no_health(hits: int, n: int, expected: str):
    assert reading(PERFECT, held_out=CEILING, labelled=wilson(hits, n)) == expected


def test_the_number_of_labelled_queries_that_decides_is_the_least_one():
    ceiling = Proportion(0.9, 0.9, 0.9, 1000)  # known exactly, so Wilson's lower bound has to reach 80 %
    for hits, n in ((2, 2), (10, 10), (9, 10), (40, 50)):
        needed = queries_to_decide(wilson(hits, n), ceiling, 0.10)
        share = hits / n
        if share == 0.8:  # on the limit itself
            assert needed is None
            continue
        # Wilson's bound is the limit exactly where n (share - limit)^2 = z^2 limit (1 - limit).
        assert needed == math.floor(Z_95**2 * 0.8 * 0.2 / (share - 0.8) ** 2) + 1
    assert queries_to_decide(wilson(8, 10), wilson(8, 10), 0.10) is None  # ten held-out probes are no ceiling
    result = verdict(PERFECT, held_out=wilson(8, 10), labelled=wilson(8, 10))
    (finding,) = [finding for finding in result.findings if finding.code == "undecided"]
    assert (finding.evidence["n_that_decides"], finding.remedy[:18]) == (None, "Raise sample.total")
    assert "narrow the ceiling first" in result.summary["verdict"]["text"]


@pytest.mark.parametrize(
    ("labelled", "ceiling", "state"),
    [
        (wilson(600, 1000), wilson(900, 1000), "low"),
        (wilson(880, 1000), wilson(900, 1000), "high"),
        (wilson(950, 1000), wilson(900, 1000), "high"),
        (wilson(80, 100), wilson(90, 100), "undecided"),
        (NOT_MEASURED, wilson(9, 10), "none"),
        (wilson(9, 10), NOT_MEASURED, "none"),
    ],
)
def test_the_labelled_axis_is_read_against_the_ceiling(labelled: Proportion, ceiling: Proportion, state: str):
    assert labelled_state(labelled, ceiling, 0.10) == state


@pytest.mark.parametrize(
    ("figure", "state"),
    [
        (Proportion(0.98, 0.98, 0.98, 50), "high"),
        (Proportion(0.97, 0.97, 0.97, 50), "low"),
        (Proportion(0.99, 0.97, 1.0, 50), "undecided"),
        (NOT_MEASURED, "none"),
    ],
)
def test_where_a_figure_stands(figure: Proportion, state: str):
    assert state_of(figure, 0.98) == state


def test_self_low_is_a_warning_with_its_figure_and_a_clean_index_has_none():
    found = codes(verdict(self_result(1000, LOST)))
    assert (found["self_low"].severity, found["self_low"].n_compared) == ("warning", 1000)
    assert found["self_low"].share == pytest.approx(0.04)
    assert "self_low" not in codes(verdict(PERFECT))


def test_relationship_gap_tells_the_gap():
    found = codes(verdict(PERFECT, wilson(900, 1000), wilson(600, 1000)))
    assert "relationship_gap" not in found  # without the run's own table there is nothing to point at
    labelled = other("labelled_success@10", wilson(600, 1000))
    labelled.tables["labelled_retrieval"] = labelled_table()
    result = run_verdict(
        settings(), population([("a", D1, 9)]), PERFECT, other("heldout@10", wilson(900, 1000)), labelled, []
    )
    gap = codes(result)["relationship_gap"]
    assert gap.evidence["gap"] == pytest.approx(0.3)
    assert gap.examples == ["q1"]


def labelled_table() -> pa.Table:
    from audit_pipeline import schemas

    row = {"query_id": "q1", "relevant": 1, "answer_id": "c", "verbatim": False, "returned": 10, "success_10": False}
    strata = {"source": "a", "ingestion_date": D1, "batch": f"{D1}|a", "length_band": "0-39", "exact_success_10": False}
    return pa.Table.from_pylist([row | strata], schema=schemas.LABELLED_RETRIEVAL)


def test_twins_are_counted_apart_from_those_that_differ_in_numbers():
    numeric = ("twin", True, {"group": 2, "numeric": True, "twins": ["y"], "kind": "one_word"})
    found = codes(verdict(self_result(1000, [*TWINS, numeric])))["twins"]
    assert (found.severity, found.evidence) == ("info", {"misses": 41, "numeric": 1, "largest_group": 40})


def test_a_chunk_that_wins_five_probes_is_a_hub_and_one_that_wins_four_is_not():
    def won(by: str, n: int) -> list[tuple[str, bool, dict[str, Any]]]:
        return [("encoder", False, {"winner": by, "margin": 0.1})] * n

    found = codes(verdict(self_result(1000, won("nav", 5) + won("page", 4))))["hubs"]
    assert (found.examples, found.evidence["hubs"], found.n_compared) == (["nav"], {"nav": 5}, 1000)
    assert "hubs" not in codes(verdict(self_result(1000, won("page", 4))))


def test_chunks_that_could_not_be_asked_are_no_probes_that_a_hub_could_win():
    won = json.dumps({"winner": "nav", "margin": 0.1})
    rows = [
        {"chunk_id": f"c{i}", "eligible": i < 8, "cause": "encoder" if i < 5 else None, "evidence": won}
        for i in range(20)
    ]
    (found,) = _hubs({"self": None, "held_out": pa.Table.from_pylist(rows), "labelled": None})
    assert (found.n_compared, found.share) == (8, 5 / 8)


def test_what_was_not_measured_is_found_with_nothing_compared():
    result = verdict(PERFECT)
    missing = {f.evidence["measure"]: f.n_compared for f in result.findings if f.code == "not_measured"}
    assert missing == {"heldout@10": 0, "labelled_success@10": 0}
    everything = verdict(None)
    assert len([f for f in everything.findings if f.code == "not_measured"]) == 4


def test_the_text_names_figures_causes_errors_and_what_could_not_be_seen():
    text = verdict(self_result(1000, LOST), findings=[ERROR]).summary["verdict"]["text"]
    assert "self@1 96.0% (all 1,000)" in text
    assert "Causes of the 40 self misses: missing_row 40." in text
    assert "Mend the error findings first: missing_rows (1)." in text
    assert "own query path was not observed" in text
    assert "no labelled queries" in text
    assert "Every chunk was probed." in text
    assert "could have gone unseen" not in text


def test_a_sample_says_which_defect_could_have_gone_unseen():
    text = verdict(self_result(1000, LOST, chunks=50_000), chunks=50_000).summary["verdict"]["text"]
    # 1,000 probes of one batch: 1 - .05^(1/1000) = .3 %
    assert "a defect in under 0.3% of that batch's chunks could have gone unseen" in text


def prompted(query: str, passage: str) -> IndexAuditSettings:
    return settings(encoder={"kind": "none", "query_prompt": query, "passage_prompt": passage})


def test_equal_prompts_on_both_sides_are_a_blind_spot_that_the_reading_names():
    same = prompted("query: ", "query: ")
    known = {"query": "query: ", "passage": "passage: "}
    spots = blind_spots(same, known)
    assert len(spots) == 2
    assert "the same prompt 'query: '" in spots[0]
    assert "passage 'passage: '" in spots[1]
    result = verdict(PERFECT, wilson(900, 1000), with_settings=same, own_prompts=known)
    assert result.summary["verdict"]["reading"] == "not_measured"
    assert "blind here" in result.summary["verdict"]["text"]


def test_known_prompts_on_their_sides_leave_no_blind_spot():
    assert blind_spots(prompted("query: ", "passage: "), {"query": "query: ", "document": "passage: "}) == []
    assert blind_spots(prompted("query: ", "passage: "), {}) == []
    assert blind_spots(prompted("query: ", "passage: "), {"query": "", "document": ""}) == []


def test_the_verdict_brings_the_strata_of_the_runs():
    result = verdict(PERFECT)
    assert set(result.summary) == {"verdict", "self_retrieval"}
    assert set(result.summary["verdict"]) == {"reading", "text"}
    assert set(result.summary["self_retrieval"]) == {f"by_{dimension}" for dimension in DIMENSIONS}
    assert result.tables["strata"].num_rows == 8


def test_a_run_without_tables_counts_as_one_that_did_not_take_place():
    result = run_verdict(settings(), population([("a", D1, 9)]), StageResult(), StageResult(), StageResult(), [])
    assert result.summary["verdict"]["reading"] == "not_measured"


def test_labelled_queries_that_cannot_be_measured_are_not_said_to_be_missing():
    labelled = StageResult({"labelled_retrieval": labelled_table()})
    few = settings(index={"search": {"limit": 5}})
    run = run_verdict(few, population([("a", D1, 9)]), self_result(1000, [], limit=5), None, labelled, [])
    text = run.summary["verdict"]["text"]
    # Held-out figures at 10 are scored exactly, and measured all the same.
    told = "Figures at 10 of what the search returns (self@10, labelled_success@10) need ten rows, and the application"
    assert f"{told} asks for 5" in text
    assert "no labelled queries" not in text
