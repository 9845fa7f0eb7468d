from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.proportions import wilson
from audit_pipeline.retrieval.ann_recall import run_ann_recall
from audit_pipeline_tests.retrieval.worlds import chunk_table, on_circle, settings, snapshot

IDS = [f"c{i:02}" for i in range(20)]
ROWS = chunk_table(IDS, [f"text {i}" for i in range(20)])
CIRCLE = on_circle(*range(0, 60, 3))
INDEXED = {"index_type": "IVF_PQ", "index_metric": "cosine", "plan": {"index": True}}


def queries(n: int, run: str = "held_out") -> pa.Table:
    return pa.table({"query_id": [f"q{i}" for i in range(n)], "run": [run] * n})


def run(n: int = 2, vectors: np.ndarray = CIRCLE, **options: Any) -> Any:
    made = snapshot(ROWS, vectors, **INDEXED | {k: v for k, v in options.items() if k != "with_settings"})
    return run_ann_recall(made, queries(n), on_circle(*[0] * n), options.get("with_settings", settings()))


def test_an_index_that_loses_nothing_has_recall_one_and_no_finding():
    result = run()
    least = wilson(2, 2).low  # two queries say little of the rest
    assert result.summary["ann_recall@10"] == {"value": 1.0, "low": least, "high": 1.0, "n": 2}
    assert result.summary["n"] == 2
    assert result.findings == []
    assert result.tables["ann_recall"].schema == schemas.ANN_RECALL


def test_three_of_ten_rows_lost_is_seven_tenths():
    # The second query loses three of its ten nearest; the search fills up with rows that do not reach the tenth best.
    result = run(lose=lambda query, row: query == 1 and row in (0, 4, 9))
    assert result.tables["ann_recall"]["ann_recall_10"].to_pylist() == [1.0, 0.7]
    assert result.summary["ann_recall@10"]["value"] == pytest.approx(0.85)
    assert result.findings == []  # the sweep holds it against its limit


def test_a_short_answer_does_not_pass_for_a_good_one():
    result = run(n=1, lose=lambda query, row: row >= 4)
    assert result.tables["ann_recall"]["ann_recall_10"].to_pylist() == [0.4]
    assert result.tables["ann_recall"]["returned"].to_pylist() == [4]


def test_equal_copies_stand_for_each_other():
    # Rows 9 and 10 are equal: returning the one instead of the other loses nothing.
    vectors = CIRCLE.copy()
    vectors[10] = vectors[9]
    result = run(n=1, vectors=vectors, lose=lambda query, row: row == 9)
    assert result.tables["ann_recall"]["ann_recall_10"].to_pylist() == [1.0]


def test_a_small_table_is_measured_by_the_rows_there_are():
    made = snapshot(ROWS.slice(0, 4), CIRCLE[:4], **INDEXED)
    result = run_ann_recall(made, queries(1), on_circle(0), settings())
    assert result.summary["ann_recall@10"]["value"] == 1.0


def test_rows_behind_the_applications_filter_do_not_count():
    passing = np.arange(20) % 2 == 0
    filtered = settings(index={"filter": "even"})
    result = run(n=1, lose=lambda query, row: row % 2 == 1, passes_filter=passing, with_settings=filtered)
    assert result.summary["ann_recall@10"]["value"] == 1.0


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ({"search": {"limit": 5}}, "asks for 5 rows"),
        ({"filter": "x = 1"}, "filter was not evaluated"),
        ({"search": {"min_score": 0.5}}, "cut-off"),
    ],
)
def test_what_cannot_be_compared_is_not_measured(index: dict[str, Any], reason: str):
    result = run(with_settings=settings(index=index))
    assert result.summary["ann_recall@10"] == {"value": None, "low": None, "high": None, "n": 0}
    assert reason in result.summary["reason"]
    assert [(f.code, f.n_compared) for f in result.findings] == [("not_measured", 0)]


def test_no_queries_are_not_measured():
    assert run(n=0).summary["n"] == 0


def test_runs_are_shown_apart():
    both = pa.table({"query_id": ["q0", "q1"], "run": ["held_out", "labelled"]})
    made = snapshot(ROWS, CIRCLE, lose=lambda query, row: query == 1 and row == 0, **INDEXED)
    result = run_ann_recall(made, both, on_circle(0, 0), settings())
    shown = {entry["run"]: entry["ann_recall@10"]["value"] for entry in result.summary["by_run"]}
    assert shown == {"held_out": 1.0, "labelled": 0.9}


EXACT = [
    ({"index_type": None, "plan": {"index": False}}, {}, "every search is exact: no ANN index"),
    ({"index_type": None, "plan": {}}, {"search": {"fast_search": True}}, "no ANN index, and fast_search skips all"),
    ({"index_metric": "l2", "plan": {"index": False}}, {}, "exact: the IVF_PQ index is for l2, not cosine"),
    ({"plan": {"index": False}}, {}, "exact: LanceDB leaves the IVF_PQ index out"),
    ({"plan": {"engine": "exact", "reason": "one table at a time"}}, {}, "one table at a time"),
]


@pytest.mark.parametrize(("info", "index", "reason"), EXACT)
def test_an_exact_search_is_not_compared_with_itself(info: dict[str, Any], index: dict[str, Any], reason: str):
    result = run(with_settings=settings(index=index), **info)
    assert result.summary["ann_recall@10"] == {"value": None, "low": None, "high": None, "n": 0}
    assert reason in result.summary["reason"]
    assert (result.tables["ann_recall"].num_rows, result.findings) == (0, [])
