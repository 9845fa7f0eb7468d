import datetime as dt
import json
import math
import textwrap
from typing import Any

import pyarrow as pa
import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.proportions import NOT_MEASURED, Z_95, Proportion, wilson
from audit_pipeline.report.summary import COLUMNS
from audit_pipeline.report.wording import without_figures
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.let_through import let_through
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
from audit_pipeline.retrieval.verdict_text import MEANING
from audit_pipeline_tests.retrieval.test_strata import population, self_table
from audit_pipeline_tests.retrieval.worlds import settings

D1 = dt.date(2026, 1, 2)


def self_result(
    n: int, misses: list[tuple[str, bool, dict[str, Any]]], chunks: int | None = None, limit: int = 10
) -> StageResult:
    """n probes; the first ones miss as given: (cause, hit_10, evidence)."""
    entries = [("a", D1, "0-39", i >= len(misses), misses[i][1] if i < len(misses) else True) for i in range(n)]
    rows = self_table(entries).to_pylist()
    for row, (cause, _, evidence) in zip(rows, misses, strict=False):
        row |= {"cause": cause, "evidence": json.dumps(evidence)}
    for row in rows:
        row["stratum_chunks"] = chunks or n
        row["hit_10"] = row["hit_10"] if limit >= 10 else None
    return StageResult({"self_retrieval": pa.Table.from_pylist(rows, schema=self_table([]).schema)})


def other(measure: str, figure: Proportion) -> StageResult:
    return StageResult(summary={measure: figure.as_dict()})


def verdict(
    self_run: StageResult | None,
    held_out: Proportion = NOT_MEASURED,
    labelled: Proportion = NOT_MEASURED,
    findings: list[Finding] | None = None,
    chunks: int = 1000,
    with_settings: IndexAuditSettings | None = None,
    **options: Any,
) -> StageResult:
    return run_verdict(
        with_settings or settings(),
        population([("a", D1, chunks)]),
        self_run,
        other("heldout@10", held_out),
        other("labelled_success@10", labelled),
        findings or [],
        **options,
    )


def reading(*args: Any, **options: Any) -> str:
    return verdict(*args, **options).summary["verdict"]["reading"]


PERFECT = self_result(1000, [])
TWINS = [("twin", False, {"group": 40, "numeric": False, "twins": ["x"], "kind": "same_text"})] * 40
LOST = [("missing_row", False, {"table_rows": 960})] * 40
CEILING = wilson(900, 1000)
ERROR = Finding("missing_rows", "error", "m", "r", n_compared=5)


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


def codes(result: StageResult) -> dict[str, Finding]:
    return {finding.code: finding for finding in result.findings}


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


HIDDEN = [("filter_excluded", False, {"filter": "published = true", "row_passes": False})] * 100


def test_rows_that_the_filter_hides_are_no_broken_vectors():
    found = verdict(self_result(1000, HIDDEN))
    text, low = found.summary["verdict"]["text"], codes(found)["self_low"]
    assert found.summary["verdict"]["reading"] == "vectors_or_index"  # the table of readings stays as it is
    assert "No work on prompts" not in text
    assert "the filter explains it" in text
    assert (
        "100 of the 100 self misses are rows that the filter hides; among the 900 probes that it lets through" in text
    )
    assert "self@10 is 100.0% (all 900)" in low.message
    assert "meant to hide" in low.remedy
    assert found.summary["self_retrieval"]["let_through"]["self@1"] == wilson(900, 900).as_dict() | {"low": 1.0}
    assert (found.summary["self_retrieval"]["let_through"]["hidden"], low.share) == (100, pytest.approx(0.1))


def test_twins_among_the_rows_let_through_are_no_broken_vectors_either():
    text = verdict(self_result(1000, HIDDEN + TWINS)).summary["verdict"]["text"]
    assert "the filter explains it" in text
    assert "among the 900 probes that it lets through self@1 is 95.6% (all 900)" in text


def test_the_vectors_are_blamed_where_rows_let_through_are_missed_too():
    found = verdict(self_result(1000, HIDDEN + LOST))
    text = found.summary["verdict"]["text"]
    assert "No work on prompts" in text
    assert "100 of the 140 self misses are rows that the filter hides" in text
    assert "Follow the causes" in codes(found)["self_low"].remedy
    # A filter that is applied after the search loses rows that pass it: the search is at fault.
    late = [("filter_excluded", False, {"filter": "x", "found_by": "prefilter"})] * 100
    assert "No work on prompts" in verdict(self_result(1000, late)).summary["verdict"]["text"]


def test_one_screen_shows_what_the_filter_hides():
    """The summary cuts the text after four lines: the sentence that qualifies the reading stands before that."""
    for missed in (HIDDEN, HIDDEN + LOST, HIDDEN + TWINS):
        text = without_figures(verdict(self_result(1000, missed, 50_000), chunks=50_000).summary["verdict"]["text"])
        shown = " ".join(textwrap.wrap(text, COLUMNS, max_lines=4, placeholder=" ..."))
        assert (
            "self misses are rows that the filter hides; among the 900 probes that it lets through self@1 is" in shown
        )


def test_what_the_index_loses_is_told_beside_what_the_reading_means():
    lost = Finding(
        "ann_recall_low", "warning", "The search returns 33.0% of the ten closest chunks.", "Raise nprobes.", 400
    )
    text = without_figures(verdict(PERFECT, findings=[lost]).summary["verdict"]["text"])
    assert text.startswith(f"{MEANING['not_measured']} {lost.message} ")


def test_a_filter_that_lets_nothing_through_says_so():
    found = verdict(self_result(100, HIDDEN))
    assert "lets no probed row through" in found.summary["verdict"]["text"]
    assert "it lets none through" in codes(found)["self_low"].message
    assert "index.filter" in codes(found)["self_low"].remedy


def test_where_nothing_is_hidden_nothing_is_said_of_a_filter():
    for run in (PERFECT, self_result(1000, LOST)):
        found = verdict(run)
        assert "filter" not in found.summary["verdict"]["text"]
        assert "let_through" not in found.summary["self_retrieval"]
        assert all("filter" not in finding.message for finding in found.findings)


def test_probes_drawn_by_stratum_weigh_as_many_chunks_as_pass():
    # Of 900 chunks of one stratum 10 of 20 probes pass and 5 of these hit; of 100 of the other all 20, and all hit.
    table = self_result(40, []).tables["self_retrieval"].to_pylist()
    for place, row in enumerate(table):
        row |= {"stratum": "long" if place < 20 else "short", "stratum_chunks": 900 if place < 20 else 100}
        if place < 10:
            row |= {"hit_1": False, "hit_10": False, "cause": HIDDEN[0][0], "evidence": json.dumps(HIDDEN[0][2])}
        elif place < 15:
            row |= {"hit_1": False, "cause": "encoder", "evidence": "{}"}
    passed = let_through(pa.Table.from_pylist(table, schema=self_table([]).schema))
    assert passed is not None
    assert (passed.hidden, passed.n, passed.self_1.n) == (10, 30, 30)
    assert passed.self_1.value == pytest.approx((450 * 0.5 + 100) / 550)
    assert passed.self_10.value == 1
