import json

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.self_retrieval import run_self_retrieval
from audit_pipeline_tests.retrieval.worlds import axes, chunk_table, column, on_circle, plan, settings, snapshot

WORDS = "amber birch cedar delta ember fjord grove heath inlet jetty knoll lagoon marsh north ocean".split()


def distinct(n: int) -> list[str]:
    return [f"{WORDS[i % 15]} {WORDS[(i * 7 + 3) % 15]} speaks of item {WORDS[(i + 5) % 15]}{i}x{i}" for i in range(n)]


def run(rows: pa.Table, vectors: np.ndarray, queries: np.ndarray | None = None, **options: object) -> StageResult:
    made = snapshot(rows, vectors, **{k: v for k, v in options.items() if k not in ("with_settings", "store", "plan")})
    return run_self_retrieval(
        made,
        options.get("plan", plan(rows)),
        vectors if queries is None else queries,
        options.get("store", rows),
        options.get("with_settings", settings()),
    )


def test_every_chunk_that_finds_itself_gives_a_census_of_one():
    result = run(chunk_table([f"c{i}" for i in range(12)], distinct(12)), axes(12))
    assert result.summary["self@1"] == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 12}
    assert result.summary["self@10"] == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 12}
    assert (result.summary["n"], result.summary["haystack"]) == (12, 12)
    assert result.summary["causes"] == {}
    assert result.summary["misses"] == []
    assert result.findings == []


def test_three_equal_vectors_have_rank_interval_one_to_three_and_part_strict_from_lenient():
    rows = chunk_table(["a", "b", "c", "d"], ["one text", "one text", "one text", "quite another thing here"])
    result = run(rows, on_circle(0, 0, 0, 90))
    table = result.tables["self_retrieval"]
    assert column(table, "rank_min") == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert column(table, "rank_max") == {"a": 3, "b": 3, "c": 3, "d": 1}
    assert column(table, "rank_returned") == {"a": 1, "b": 2, "c": 3, "d": 1}  # ties come in row order
    assert result.summary["self@1"]["value"] == 0.5  # as returned: a and d
    assert result.summary["self@1_lenient"]["value"] == 1.0
    assert result.summary["self@1_unique"]["value"] == 0.25  # only d is strictly closer than every other
    assert column(table, "cause") == {"a": None, "b": "twin", "c": "twin", "d": None}


def test_a_difference_under_a_millionth_is_a_tie_and_one_over_it_is_not():
    # cos(0.05 deg) = 1 - 3.8e-7 ties with 1; cos(0.2 deg) = 1 - 6.1e-6 does not.
    rows = chunk_table(["a", "b", "c"], distinct(3))
    table = run(rows, on_circle(0, 0.05, 0.25), on_circle(0, 0, 0.25)).tables["self_retrieval"]
    assert (column(table, "rank_min")["a"], column(table, "rank_max")["a"]) == (1, 2)
    assert (column(table, "rank_min")["b"], column(table, "rank_max")["b"]) == (1, 2)
    assert (column(table, "rank_min")["c"], column(table, "rank_max")["c"]) == (1, 1)


def test_fifteen_copies_of_one_text_with_five_rows_asked_for_are_twins_in_a_group_of_fifteen():
    texts = ["the same words again"] * 15 + distinct(5)
    vectors = np.vstack([np.tile(axes(6)[5], (15, 1)), axes(6)[:5]])
    rows = chunk_table([f"c{i:02}" for i in range(20)], texts)
    result = run(rows, vectors, with_settings=settings(index={"search": {"limit": 5}}))
    table = result.tables["self_retrieval"]
    assert result.summary["causes"] == {"twin": 14}  # the first copy is returned first
    evidence = [json.loads(note) for note in table["evidence"].to_pylist() if note]
    assert {note["group"] for note in evidence} == {15}
    assert {note["kind"] for note in evidence} == {"same_text"}
    assert column(table, "rank_returned")["c14"] is None
    assert (column(table, "rank_min")["c14"], column(table, "rank_max")["c14"]) == (1, 15)


def test_with_fewer_than_ten_rows_asked_for_self_at_10_is_null_and_not_a_guess():
    rows = chunk_table([f"c{i}" for i in range(8)], distinct(8))
    result = run(rows, axes(8), with_settings=settings(index={"search": {"limit": 5}}))
    assert result.summary["self@10"] is None
    assert result.tables["self_retrieval"]["hit_10"].null_count == 8
    assert result.summary["self@1"]["value"] == 1.0


def test_rank_two_and_rank_eleven_are_misses_of_different_depth():
    # The query of c0 lies at 0 degrees, its row at 30; c1 at 10 is closer.
    rows = chunk_table(["c0", "c1", "c2"], distinct(3))
    result = run(rows, on_circle(30, 10, 90), on_circle(0, 10, 90))
    table = result.tables["self_retrieval"]
    assert column(table, "rank_returned")["c0"] == 2
    assert column(table, "hit_1") == {"c0": False, "c1": True, "c2": True}
    assert column(table, "hit_10") == {"c0": True, "c1": True, "c2": True}
    assert column(table, "best_other_id")["c0"] == "c1"
    assert column(table, "best_other_score")["c0"] == pytest.approx(np.cos(np.deg2rad(10)), abs=1e-7)
    assert column(table, "score")["c0"] == pytest.approx(np.cos(np.deg2rad(30)), abs=1e-7)
    miss = result.summary["misses"][0]
    assert set(miss) == {"probe_id", "chunk_id", "run", "rank_returned", "rank_min", "rank_max", "cause", "evidence"}
    assert (miss["probe_id"], miss["run"], miss["rank_returned"]) == ("self:c0", "self", 2)
    assert (miss["cause"], miss["evidence"]["winner"]) == ("encoder", "c1")


def test_the_interval_of_a_sample_is_wider_than_nothing_and_that_of_a_census_is_not():
    rows = chunk_table([f"c{i}" for i in range(12)], distinct(12))
    sampled = run(rows, axes(12), plan=plan(rows, stratum_chunks=100_000)).summary["self@1"]
    # Wilson: n / (n + z^2) with n_eff = 12 / (1 - 12/100000)
    n = 12 / (1 - 12 / 100_000)
    assert sampled["low"] == pytest.approx(n / (n + 1.959963984540054**2))
    assert (sampled["value"], sampled["high"], sampled["n"]) == (1.0, 1.0, 12)


def test_rows_of_one_id_do_not_compete_with_each_other():
    rows = chunk_table(["a", "a", "b"], ["same words", "same words", "other things entirely"])
    result = run(rows, on_circle(0, 0, 90), plan=plan(rows.take([0, 2])), queries=on_circle(0, 90))
    table = result.tables["self_retrieval"]
    assert column(table, "rank_max") == {"a": 1, "b": 1}
    assert column(table, "best_other_id") == {"a": "b", "b": "a"}
    assert result.summary["self@1_unique"]["value"] == 1.0


def test_no_probe_means_not_measured_and_neither_nought_nor_one():
    rows = chunk_table(["a", "b"], distinct(2))
    result = run(rows, axes(2), np.zeros((0, 2), np.float32), plan=plan(rows).slice(0, 0))
    assert result.summary["n"] == 0
    for measure in ("self@1", "self@10", "self@1_lenient", "self@1_unique"):
        assert result.summary[measure] == {"value": None, "low": None, "high": None, "n": 0}
    assert result.tables["self_retrieval"].num_rows == 0


def test_an_empty_table_loses_every_probe():
    empty = chunk_table([], [])
    store = chunk_table(["a", "b"], distinct(2))
    result = run(empty, np.zeros((0, 2), np.float32), axes(2), plan=plan(store), store=store)
    assert result.summary["causes"] == {"missing_row": 2}
    assert result.summary["self@1"]["value"] == 0.0


def test_short_results_are_counted_only_where_more_could_be_found():
    rows = chunk_table([f"c{i}" for i in range(12)], distinct(12))
    clean = run(rows, axes(12))
    assert clean.summary["short_results"] == 0
    few = run(rows.slice(0, 4), axes(12)[:4], plan=plan(rows.slice(0, 4)))
    assert few.summary["short_results"] == 0  # four rows are all there are
    lossy = run(rows, axes(12), lose=lambda query, row: query == 3 and row > 5)
    assert lossy.summary["short_results"] == 1
    assert [(f.code, f.severity, f.examples) for f in lossy.findings] == [("short_results", "warning", ["c3"])]


def test_tables_conform_to_their_schemas_and_come_sorted_whatever_the_order_of_the_plan():
    rows = chunk_table([f"c{i}" for i in range(12)], distinct(12))
    forward = run(rows, axes(12))
    order = [7, 3, 11, 0, 5, 1, 9, 2, 10, 4, 8, 6]
    shuffled = run(rows, axes(12), axes(12)[order], plan=plan(rows).take(order))
    for name, schema in (
        ("self_retrieval", schemas.SELF_RETRIEVAL),
        ("retrieved", schemas.RETRIEVED),
        ("qrels", schemas.QRELS),
    ):
        assert forward.tables[name].schema == schema
        assert forward.tables[name].equals(shuffled.tables[name])
    assert forward.summary == shuffled.summary


def test_no_query_id_equals_a_document_id_and_rankings_recompute_to_the_headline():
    rows = chunk_table(["a", "b", "c", "d"], ["one text", "one text", "one text", "quite another thing here"])
    result = run(rows, on_circle(0, 0, 0, 90))
    retrieved, qrels = result.tables["retrieved"], result.tables["qrels"]
    assert not set(qrels["query_id"].to_pylist()) & set(qrels["chunk_id"].to_pylist())
    first = {
        q: c
        for q, c, r in zip(*(retrieved[n].to_pylist() for n in ("query_id", "chunk_id", "rank")), strict=True)
        if r == 1
    }
    hits = [
        first[query] == chunk
        for query, chunk in zip(qrels["query_id"].to_pylist(), qrels["chunk_id"].to_pylist(), strict=True)
    ]
    assert sum(hits) / len(hits) == result.summary["self@1"]["value"]


def test_a_different_number_of_vectors_and_probes_is_refused():
    rows = chunk_table(["a", "b"], distinct(2))
    with pytest.raises(ValueError, match="1 query vectors for 2 probes"):
        run(rows, axes(2), axes(2)[:1])


def test_stratified_weights_enter_the_corpus_figure():
    # Two strata of one probe each: 90 chunks that hit, 10 that miss.
    rows = chunk_table(["a", "b"], distinct(2))
    weighted = plan(rows).to_pylist()
    for row, (stratum, chunks) in zip(weighted, (("big", 90), ("small", 10)), strict=True):
        row |= {"stratum": stratum, "stratum_chunks": chunks, "stratum_probes": 1, "weight": float(chunks)}
    made = pa.Table.from_pylist(weighted, schema=schemas.PROBE_PLAN)
    result = run(rows, on_circle(0, 90), on_circle(0, 0), plan=made)
    assert result.summary["self@1"]["value"] == pytest.approx(0.9)
