"""What a log of the application's queries leads to: figures, findings and their limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.observed_queries import OBSERVED_QUERIES
from audit_pipeline.encoder.calibration import ArmLoss, Calibration
from audit_pipeline.encoder.query_side import UNEXPLAINED, QuerySide
from audit_pipeline.findings import Finding
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.observed import ObservedLog, run_observed
from audit_pipeline_tests.retrieval.worlds import chunk_table, on_circle, settings, snapshot

IDS = [f"c{i:02}" for i in range(20)]
ARMS = {"query": "query: ", "passage": "passage: ", "none": ""}
ANSWER = IDS[:10]


def prompted(**parts: Any) -> IndexAuditSettings:
    return settings(encoder={"kind": "none", "query_prompt": "query: ", "passage_prompt": "passage: "}, **parts)


def side_of(roles: list[str]) -> QuerySide:
    calibration = Calibration((ArmLoss("passage", "passage: ", 0.1, 0.1),), 32)
    return QuerySide(roles, np.full(len(roles), 0.2), ARMS, calibration)


def row(query: str | None = "q", vector: Any = (1.0, 0.0), ids: Any = ANSWER) -> dict[str, Any]:
    return {"query": query, "vector": vector, "returned_ids": ids}


def observe(
    rows: list[dict[str, Any]],
    roles: list[str] | None = None,
    with_settings: IndexAuditSettings | None = None,
    unmeasured: str | None = None,
    **options: Any,
) -> StageResult:
    made = snapshot(chunk_table(IDS, [f"text {i}" for i in range(20)]), on_circle(*range(0, 60, 3)), **options)
    numbered = [{**one, "query_id": f"q{place:03}"} for place, one in enumerate(rows)]
    log = ObservedLog.of(pa.Table.from_pylist(numbered, schema=OBSERVED_QUERIES), len(rows) + 7, 2)
    if roles is None:
        roles = ["query"] * len(log.to_judge)
    side = side_of(roles) if roles and unmeasured is None else None
    return run_observed(made, log, side, unmeasured, with_settings or prompted())


def by_code(result: StageResult) -> dict[str, Finding]:
    assert len({finding.code for finding in result.findings}) == len(result.findings)
    return {finding.code: finding for finding in result.findings}


def test_queries_as_configured_that_get_the_closest_rows_give_no_finding():
    result = observe([row()] * 30)
    assert result.findings == []
    section = result.summary
    assert (section["n"], section["given"]) == (30, 37)
    assert section["query_side"]["role"] == "query"
    assert (
        section["as_configured"]["value"]
        == section["observed_recall"]["value"]
        == section["observed_order"]["value"]
        == 1
    )
    assert section["returned"]["short"] == section["returned"]["unknown_ids"] == 0
    table = result.tables["observed_retrieval"]
    assert table.schema == schemas.OBSERVED_RETRIEVAL
    assert set(table["recall"].to_pylist()) == {1.0}


# Wilson's lower bound of k of 32: 1 -> .0055, 3 -> .0324; the limit is one in a hundred, and three queries at least.
@pytest.mark.parametrize(("odd", "found"), [(0, False), (1, False), (2, False), (3, True), (32, True)])
def test_another_prompt_is_reported_once_it_is_no_single_call(odd: int, found: bool):
    result = observe([row()] * 32, ["passage"] * odd + ["query"] * (32 - odd))
    assert ("query_side_mismatch" in by_code(result)) == found
    if found:
        finding = by_code(result)["query_side_mismatch"]
        assert (finding.share, finding.n_compared) == (odd / 32, 32)
        assert (finding.evidence["arm"], finding.evidence["prompt"]) == ("passage", "passage: ")
        assert finding.examples == [f"q{place:03}" for place in range(min(odd, 5))]


def test_one_odd_call_of_a_short_log_is_no_mismatch():
    assert "query_side_mismatch" not in by_code(observe([row()] * 15, ["passage"] + ["query"] * 14))
    assert "query_side_mismatch" in by_code(observe([row()] * 15, ["passage"] * 15))


def test_two_wrong_prompts_are_two_findings():
    result = observe([row()] * 40, ["passage"] * 10 + ["none"] * 5 + ["query"] * 25)
    assert [(f.code, f.evidence["arm"], f.share) for f in result.findings] == [
        ("query_side_mismatch", "passage", 0.25),
        ("query_side_mismatch", "none", 0.125),
    ]
    assert "Production sends without a prompt, not" in result.findings[1].message
    assert result.summary["query_side"]["role"] == "mixed"


# Wilson's lower bound of 20 of 32 is .453, of 22 of 32 .514.
@pytest.mark.parametrize(("strange", "found"), [(5, False), (20, False), (22, True), (32, True)])
def test_rewritten_queries_are_no_finding_until_they_are_most(strange: int, found: bool):
    result = observe([row()] * 32, [UNEXPLAINED] * strange + ["query"] * (32 - strange))
    assert ("query_side_mismatch" in by_code(result)) == found
    assert result.summary["unexplained"]["value"] == strange / 32
    if found:
        finding = by_code(result)["query_side_mismatch"]
        assert finding.evidence["arm"] is None
        assert finding.evidence["median_cosine"] == pytest.approx(0.8)
        assert "another model, or the text is rewritten" in finding.message
        assert result.summary["query_side"]["role"] == UNEXPLAINED


def test_vectors_of_another_length_are_another_models():
    result = observe([row(vector=(1.0, 0.0, 0.0))] * 12)
    found = by_code(result)
    assert found["query_side_mismatch"].evidence == {
        "arm": None,
        "figure": result.summary["unexplained"],
        "median_cosine": None,
        "other_dimension": 12,
    }
    assert found["labels_invalid"].evidence["invalid"] == {"wrong_dimension": 12}
    assert found["not_measured"].evidence["measure"] == "observed.returned"
    assert result.summary["query_side"]["role"] == UNEXPLAINED


def test_one_string_for_both_sides_leaves_no_role_to_confirm():
    alike = settings(encoder={"kind": "none", "query_prompt": "p: ", "passage_prompt": "p: "})
    assert observe([row()] * 9, with_settings=alike).summary["query_side"]["role"] == "not_applicable"


def test_each_row_that_cannot_be_used_is_counted_and_its_other_half_measured():
    rows = [
        row(),
        row(query=None),
        row(query="  "),
        row(vector=(float("nan"), 1.0)),
        row(vector=(0.0, 0.0)),
        row(vector=(1.0,)),
        row(vector=None),
        row(ids=None),
        row(ids=[*ANSWER[:8], "gone", "lost"]),
    ]
    result = observe(rows, ["query"] * 3)
    found = by_code(result)
    assert set(found) == {"labels_invalid"}
    assert found["labels_invalid"].evidence == {
        "invalid": {"nan": 1, "without_query": 2, "wrong_dimension": 1, "zero": 1},
        "unknown_ids": 2,
        "ids": 80,
    }
    assert (found["labels_invalid"].n_compared, found["labels_invalid"].share) == (9, pytest.approx(6 / 9))
    assert (result.summary["without_vector"], result.summary["without_ids"]) == (1, 1)
    assert result.summary["query_side"]["n"] == 4  # three to judge, and the one of another length
    assert result.summary["returned"]["n"] == 4  # the first, both without a text, and the last
    table = result.tables["observed_retrieval"]
    assert table["recall"].to_pylist() == [1, 1, 1, None, None, None, None, None, 1]
    assert table["unknown_ids"].to_pylist() == [0, 0, 0, 0, 0, 0, 0, None, 2]


def test_a_side_that_was_not_measured_says_why():
    result = observe([row()] * 5, unmeasured="the encoder's vectors depend on the batch")
    finding = by_code(result)["not_measured"]
    assert (finding.n_compared, finding.evidence["measure"]) == (0, "observed.query_side")
    assert "depend on the batch" in finding.message
    assert result.summary["as_configured"]["value"] is None
    assert result.summary["observed_recall"]["value"] == 1
    only_queries = observe([row(ids=None)] * 5)
    assert by_code(only_queries)["not_measured"].evidence["measure"] == "observed.returned"


def test_a_filter_that_is_another_one_for_each_query_leaves_the_answers_unmeasured():
    made = snapshot(chunk_table(IDS, [f"text {i}" for i in range(20)]), on_circle(*range(0, 60, 3)))
    made.passes_filter = np.ones(20, bool)
    made.row_filter = SimpleNamespace(names=["source"])  # type: ignore[assignment]
    table = pa.Table.from_pylist([{**row(ids=IDS[::2]), "query_id": "q"}], schema=OBSERVED_QUERIES)
    own = prompted(index={"filter": "source = '{source}'"})
    result = run_observed(made, ObservedLog.of(table, 1, 2), side_of(["query"]), None, own)
    assert set(by_code(result)) == {"not_measured"}
    assert "filled from a row (source)" in by_code(result)["not_measured"].message


def test_an_empty_log_measures_nothing():
    result = observe([])
    assert [finding.code for finding in result.findings] == ["not_measured", "not_measured"]
    assert len(result.tables["observed_retrieval"]) == 0


def test_answers_that_are_too_short_all_alike_are_a_limit():
    finding = by_code(observe([row(ids=IDS[:5])] * 6))["short_results"]
    assert (finding.share, finding.n_compared, finding.evidence["lengths"]) == (1, 6, {"5": 6})
    assert "all of them 5" in finding.message
    assert by_code(observe([row(ids=IDS[:5])] * 6, with_settings=prompted(index={"search": {"limit": 5}}))) == {}


def test_answers_cut_by_a_score_name_the_distance():
    rows = [row(ids=IDS[:3]), row(vector=on_circle(3)[0].tolist(), ids=["c01", "c00", "c02", "c03"])]
    finding = by_code(observe(rows))["short_results"]
    low, high = 1 - np.cos(np.deg2rad(6)), 1 - np.cos(np.deg2rad(9))
    assert finding.evidence["cut_between_distances"] == pytest.approx([low, high])
    assert f"beyond a cosine distance between {low:.4f} and {high:.4f}" in finding.message
    # A declared cut-off is there to shorten results.
    declared = prompted(index={"search": {"min_score": 0.99}})
    assert by_code(observe(rows, with_settings=declared)) == {}


@pytest.mark.parametrize(
    ("answer", "options", "said"),
    [
        (IDS[1:20:2], {"passes_filter": np.arange(20) % 2 == 0}, "no other metric, filter or search setting"),
        (IDS[:10], {"passes_filter": np.arange(20) % 2 == 0}, "they agree once the filter is lifted (100.0%)"),
        (IDS[8:18], {"lose": lambda query, number: number < 8}, "the search as declared returns the same rows"),
        (IDS[8:18], {}, "chosen and ordered by something else: hybrid search, fusion or a reranker"),
    ],
)
def test_low_agreement_says_what_explains_it(answer: list[str], options: dict[str, Any], said: str):
    filtered = {"filter": "x"} if "passes_filter" in options else {}
    finding = by_code(observe([row(ids=answer)] * 6, with_settings=prompted(index=filtered), **options))[
        "ann_recall_low"
    ]
    assert said in finding.message
    assert finding.evidence["measure"] == "observed_recall"
    assert (finding.severity, finding.n_compared) == ("warning", 6)


def test_a_filter_that_was_not_evaluated_leaves_the_answers_unmeasured():
    result = observe([row()] * 5, with_settings=prompted(index={"filter": "x"}))
    assert by_code(result)["not_measured"].evidence["measure"] == "observed.returned"
