import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.findings import Finding
from audit_pipeline.retrieval.search_findings import search_findings
from audit_pipeline_tests.retrieval.test_strata import D1, self_table
from audit_pipeline_tests.retrieval.worlds import axes, chunk_table, settings, snapshot

ROWS = chunk_table(["x", "y", "z", "w"], ["one", "two", "three", "four"])


def probes(returned: list[int], causes: list[str | None], scores: list[float]) -> pa.Table:
    rows = self_table([("a", D1, "0-39", cause is None, True) for cause in causes]).to_pylist()
    for row, n, cause, score in zip(rows, returned, causes, scores, strict=True):
        row |= {"returned": n, "cause": cause, "score": score}
    return pa.Table.from_pylist(rows, schema=self_table([]).schema)


def codes(table: pa.Table, passes: np.ndarray | None = None, expected: int = 10, **index: object) -> dict[str, Finding]:
    made = snapshot(ROWS, axes(4), passes_filter=passes)
    return {f.code: f for f in search_findings(table, made, expected, settings(index=index))}


CLEAN = probes([10, 10], [None, None], [1.0, 1.0])


def test_a_full_answer_to_every_search_has_no_finding():
    assert codes(CLEAN) == {}
    assert codes(CLEAN.slice(0, 0)) == {}
    assert codes(CLEAN, np.ones(4, bool), filter="true") == {}


def test_short_answers_are_a_warning_unless_a_cut_off_shortens_them():
    short = probes([10, 7], [None, None], [1.0, 1.0])
    found = codes(short)["short_results"]
    assert (found.severity, found.share, found.n_compared, found.examples) == ("warning", 0.5, 2, ["p1"])
    assert codes(short, expected=7) == {}
    assert codes(short, search={"min_score": 0.3}) == {}


def test_below_cutoff_shows_the_distribution_of_what_was_dropped():
    table = probes([1, 1, 1, 1], [None, "below_cutoff", "below_cutoff", "below_cutoff"], [1.0, 0.2, 0.4, 0.6])
    found = codes(table, search={"min_score": 0.3})["below_cutoff"]
    assert (found.severity, found.share) == ("warning", 0.75)
    assert found.evidence["score"] == pytest.approx({"p5": 0.22, "p50": 0.4, "p95": 0.58})


def test_rows_behind_the_filter_are_counted():
    found = codes(CLEAN, np.array([True, False, True, False]), filter="a = 1")["filter_excludes"]
    assert (found.severity, found.share, found.examples) == ("info", 0.5, ["y", "w"])
