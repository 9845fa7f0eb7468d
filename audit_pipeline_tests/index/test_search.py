from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline.index import search as search_module
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline_tests.index.builders import foreign, snapshot_of, unit_vectors, write


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """620 rows, the last 20 of them outside an IVF_HNSW_SQ index; one row of 62 is of tenant t."""
    uri = tmp_path_factory.mktemp("indexed") / "db"
    vectors = unit_vectors(620, 32)
    tenants = ["t" if n % 62 == 0 else "u" for n in range(620)]
    rows = foreign([f"c{n}" for n in range(620)], vectors, tenant=tenants)
    table = write(uri, rows.slice(0, 600))
    table.create_index("vector", config=lancedb.index.HnswSq(distance_type="cosine"))
    table.add(rows.slice(600))
    return uri, vectors


def own_rank_one(snapshot: TableSnapshot, rows: np.ndarray, limit: int = 10) -> np.ndarray:
    return snapshot.search(snapshot.vectors[rows], limit).rows[:, 0] == rows


def test_batched_answers_equal_single_ones_and_the_exact_search(
    indexed: tuple[Path, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, vectors = indexed
    snapshot = snapshot_of(uri, tmp_path)
    queries = vectors[:25] + 0.2 * unit_vectors(25, 32, seed=8)
    assert snapshot.variant_search is not None
    exact = snapshot.variant_search(queries, 10, "exact").rows
    np.testing.assert_array_equal(exact, ExactSearch(vectors, snapshot.searchable, "cosine").ranks(queries).top_rows)
    together = snapshot.search(queries, 10).rows
    monkeypatch.setattr(search_module, "_QUERIES_AT_ONCE", 1)
    np.testing.assert_array_equal(together, snapshot.search(queries, 10).rows)


def test_fast_search_loses_the_twenty_rows_outside_the_index_and_the_tail_finds_them(
    indexed: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    uri, vectors = indexed
    tail, head = np.arange(600, 620), np.arange(0, 600)
    fast = snapshot_of(uri, tmp_path / "fast", search={"fast_search": True})
    assert (fast.search(vectors[tail], 10).rows < 600).all()
    assert own_rank_one(fast, head).mean() > 0.99
    assert fast.variant_search is not None
    assert (fast.variant_search(vectors[tail], 10, "with_tail").rows[:, 0] == tail).all()
    assert (fast.info.plan["index"], fast.info.plan["flat"]) == (True, False)
    usual = snapshot_of(uri, tmp_path / "usual")
    assert own_rank_one(usual, tail).all()
    assert (usual.info.plan["index"], usual.info.plan["flat"], usual.info.plan["metric"]) == (True, True, "cosine")


def test_fast_search_without_any_index_returns_nothing(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign(list("abc"), unit_vectors(3)))
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work", search={"fast_search": True})
    assert snapshot.search(snapshot.vectors, 3).returned.tolist() == [0, 0, 0]


def test_a_filter_applied_after_the_search_gives_short_results_and_lifting_it_finds_the_row(
    indexed: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    uri, vectors = indexed
    after = snapshot_of(uri, tmp_path / "post", filter="tenant = 't'", search={"prefilter": False})
    before = snapshot_of(uri, tmp_path / "pre", filter="tenant = 't'")
    assert after.passes_filter is not None
    assert np.flatnonzero(after.passes_filter).tolist() == list(range(0, 620, 62))
    other = np.array([1, 2, 3])
    assert (after.search(vectors[other], 10).returned < 10).all()
    assert before.search(vectors[other], 10).returned.tolist() == [10, 10, 10]
    assert after.variant_search is not None
    assert (after.variant_search(vectors[other], 10, "without_filter").rows[:, 0] == other).all()


def test_a_filter_drops_rows_without_a_value(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign(list("abc"), unit_vectors(3), tenant=["x", None, "y"]))
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work", filter="tenant != 'y'")
    assert snapshot.passes_filter is not None
    assert snapshot.passes_filter.tolist() == [True, False, False]
    assert snapshot.search(snapshot.vectors, 3).returned.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("metric", "search"),
    [
        # Distances 0, 0.2 and 1 under cosine and dot, squared 0, 0.4 and 2 under l2; scores 1, 0.8 and 0 under each.
        ("cosine", {"min_score": 0.7}),
        ("dot", {"min_score": 0.7}),
        ("l2", {"min_score": 0.7}),
        ("cosine", {"max_distance": 0.3}),
        ("dot", {"max_distance": 0.3}),
        ("l2", {"max_distance": 0.5}),
        ("cosine", {"min_score": -1, "max_distance": 0.3}),
        ("cosine", {"min_score": 0.7, "max_distance": 2}),
    ],
)
def test_the_cut_off_drops_what_scores_lower_or_lies_beyond(
    tmp_path: Path, metric: str, search: dict[str, float]
) -> None:
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    write(tmp_path / "db", foreign(list("abc"), vectors))
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work", metric=metric, search=search)
    assert snapshot.search(vectors[:1], 3).rows[0].tolist() == [0, 1, -1]
    assert snapshot.variant_search is not None
    assert snapshot.variant_search(vectors[:1], 3, "without_cutoff").rows[0].tolist() == [0, 1, 2]


def test_an_exact_search_takes_the_metric_asked_for_and_not_l2(tmp_path: Path) -> None:
    vectors = np.array([[1, 0], [10, 1], [0.2, 0.3]], dtype=np.float32)
    rows = pa.concat_tables(
        [foreign(list("abc"), vectors), foreign([f"x{n}" for n in range(400)], unit_vectors(400, 2))]
    )
    table = write(tmp_path / "db", rows)
    table.create_index("vector", config=lancedb.index.IvfFlat(distance_type="cosine", num_partitions=1))
    query = np.array([[1.0, 0.1]], dtype=np.float32)
    for metric in ("cosine", "l2", "dot"):
        snapshot = snapshot_of(tmp_path / "db", tmp_path / metric, metric=metric)
        assert snapshot.variant_search is not None
        found = snapshot.variant_search(query, 1, "exact").rows[0, 0]
        expected = ExactSearch(snapshot.vectors, snapshot.searchable, metric).ranks(query, k=1).top_rows[0, 0]
        assert found == expected
        assert snapshot.info.plan["metric"] == metric
        assert snapshot.info.plan["index"] is (metric == "cosine")


def test_rows_of_one_id_count_once_and_the_first_one_stays(tmp_path: Path) -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0.8, 0.6], [0, 1]], dtype=np.float32)
    write(tmp_path / "db", foreign(["a", "a", "b", "c"], vectors))
    hits = snapshot_of(tmp_path / "db", tmp_path / "work").search(vectors[:2], 4)
    assert hits.rows.tolist() == [[0, 2, 3, -1], [1, 2, 3, -1]]
    assert hits.returned.tolist() == [3, 3]


def test_zero_rows_are_not_returned_under_cosine_and_a_zero_query_finds_nothing(tmp_path: Path) -> None:
    vectors = np.array([[1, 0], [0, 0], [0, 1]], dtype=np.float32)
    write(tmp_path / "db", foreign(list("abc"), vectors))
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work")
    hits = snapshot.search(vectors, 3)
    assert sorted(hits.rows[0].tolist()) == [-1, 0, 2]
    assert hits.returned.tolist() == [2, 0, 2]
    broken = np.array([[np.nan, 1], [1, 0]], dtype=np.float32)
    assert snapshot.search(broken, 1).rows.ravel().tolist() == [-1, 0]


def test_settings_that_change_nothing_for_this_index_are_listed(
    indexed: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    asked = {"nprobes": 3, "ef": 64, "refine_factor": 2}
    write(tmp_path / "plain", foreign(list("abc"), unit_vectors(3)))
    plain = snapshot_of(tmp_path / "plain", tmp_path / "w1", search=asked)
    assert plain.info.plan["ignored"] == ["nprobes", "ef", "refine_factor"]
    used = snapshot_of(indexed[0], tmp_path / "w2", search=asked)
    assert used.info.plan["ignored"] == []
    assert used.info.plan["nprobes"] == 3
    flat = write(tmp_path / "flat", foreign([f"c{n}" for n in range(300)], unit_vectors(300)))
    flat.create_index("vector", config=lancedb.index.IvfFlat(distance_type="cosine", num_partitions=2))
    assert snapshot_of(tmp_path / "flat", tmp_path / "w3", search=asked).info.plan["ignored"] == ["ef", "refine_factor"]


def test_an_ef_that_lancedb_refuses_is_said_and_the_default_gives_way(
    indexed: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    with pytest.raises(AuditInputError, match="ef 5 is under limit 10"):
        snapshot_of(indexed[0], tmp_path / "w1", search={"ef": 5})
    snapshot = snapshot_of(indexed[0], tmp_path / "w2", search={"limit": 200})
    assert snapshot.search(snapshot.vectors[:3], 200).returned.tolist() == [200, 200, 200]


def test_self_search_does_not_see_the_loss_of_coarse_codes_but_other_queries_do(tmp_path: Path) -> None:
    centres = unit_vectors(40, 32)
    vectors = (np.repeat(centres, 50, axis=0) + 0.15 * unit_vectors(2000, 32, seed=5)).astype(np.float32)
    table = write(tmp_path / "db", foreign([f"c{n}" for n in range(2000)], vectors))
    table.create_index(
        "vector", config=lancedb.index.IvfPq(distance_type="cosine", num_partitions=1, num_sub_vectors=2, num_bits=4)
    )
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work")
    queries = (np.repeat(centres, 2, axis=0) + 0.15 * unit_vectors(80, 32, seed=6)).astype(np.float32)
    exact = ExactSearch(vectors, snapshot.searchable, "cosine").ranks(queries).top_rows
    assert snapshot.variant_search is not None

    def recall(rows: np.ndarray) -> float:
        return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(rows.tolist(), exact.tolist(), strict=True)]))

    assert recall(snapshot.search(queries, 10).rows) < 0.5
    assert recall(snapshot.variant_search(queries, 10, "refine").rows) > 0.9
    assert recall(snapshot.variant_search(queries, 10, "exact").rows) == 1.0
