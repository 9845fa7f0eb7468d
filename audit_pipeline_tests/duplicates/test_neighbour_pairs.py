import numpy as np
import pytest

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates import neighbour_pairs
from audit_pipeline.duplicates.lanes import neighbour_lane
from audit_pipeline.duplicates.neighbour_pairs import (
    exact_neighbours,
    find_neighbours,
    index_neighbours,
    sample_recall,
)
from audit_pipeline.duplicates.signatures import compute_signatures
from audit_pipeline_tests.duplicates.snapshots import at_degrees, neighbour_ids, shuffled, snapshot_of


def unit_rows(count, dimension, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def lane(snapshot, neighbours, roles=None, folder=None):
    settings = DuplicateSettings(neighbours=neighbours)
    return neighbour_lane(snapshot, compute_signatures(snapshot.rows, settings), settings, folder, roles=roles)


def test_the_scan_finds_what_sorting_all_cosines_finds(monkeypatch):
    monkeypatch.setattr(neighbour_pairs, "_SCORES_PER_BLOCK", 1000)
    unit = unit_rows(150, 16)
    found = exact_neighbours(unit, np.arange(150), 7)
    cosine = unit.astype(np.float64) @ unit.astype(np.float64).T
    np.fill_diagonal(cosine, -2)
    assert np.array_equal(found.rows, np.argsort(-cosine, axis=1)[:, :7])
    assert np.allclose(found.cosines, -np.sort(-cosine, axis=1)[:, :7], atol=1e-12)


def test_rows_with_fewer_others_than_asked_for_are_padded():
    found = exact_neighbours(at_degrees(0, 10).astype(np.float32), np.arange(2), 3)
    assert found.rows.tolist() == [[1, -1, -1], [0, -1, -1]]
    assert exact_neighbours(np.ones((1, 2), dtype=np.float32), np.arange(1), 3).rows.tolist() == [[-1, -1, -1]]


def test_copies_take_one_place_so_that_neighbours_are_distinct_texts():
    texts = ["copy"] * 5 + ["near", "far"]
    snapshot = snapshot_of(texts, at_degrees(0, 0, 0, 0, 0, 10, 80))
    result = lane(snapshot, 1)
    assert neighbour_ids(snapshot, result.tables["neighbour_pairs"]) == [("c00000", "c00005"), ("c00005", "c00006")]
    assert result.summary["neighbours"]["searched"] == 3


def test_a_row_is_saturated_when_its_last_neighbour_reaches_the_lowest_threshold():
    # cos 5 degrees = .996, cos 10 = .985, cos 30 = .866: with two neighbours only the middle three rows are full.
    result = lane(snapshot_of(["a", "b", "c", "d"], at_degrees(0, 5, 10, 40)), 2)
    assert result.summary["neighbours"]["saturated_rows"] == 3
    last = result.tables["neighbour_reach"]["last_cosine"].to_pylist()
    assert np.allclose(last, np.cos(np.radians([10, 5, 10, 35])))


def test_with_fewer_texts_than_neighbours_no_row_is_saturated():
    result = lane(snapshot_of(["a", "b", "c"], at_degrees(0, 1, 2)), 20)
    assert result.summary["neighbours"]["saturated_rows"] == 0
    assert result.tables["neighbour_reach"]["last_cosine"].to_pylist() == [None] * 3


def test_pairs_between_batches_of_different_role_are_left_out_and_counted():
    snapshot = snapshot_of(["a", "b", "c"], at_degrees(0, 5, 10), batches=["d|x", "d|x", "d|y"])
    result = lane(snapshot, 2, roles={"d|x": "passage", "d|y": "query"})
    assert neighbour_ids(snapshot, result.tables["neighbour_pairs"]) == [("c00000", "c00001")]
    assert result.summary["neighbours"]["incomparable"] == 2


def test_rows_without_a_usable_vector_or_without_words_are_not_looked_up():
    snapshot = snapshot_of(["a", "b", "c", "..."], np.array([[1, 0], [0, 0], [1, 0.1], [1, 0]]))
    result = lane(snapshot, 2)
    assert neighbour_ids(snapshot, result.tables["neighbour_pairs"]) == [("c00000", "c00002")]
    assert result.summary["neighbours"]["without_vector"] == 1
    assert result.findings == []


def test_a_table_without_any_vector_is_not_measured():
    result = lane(snapshot_of(["a", "b"]), 2)
    assert [(finding.code, finding.n_compared) for finding in result.findings] == [("not_measured", 0)]
    assert result.summary["neighbours"]["exact_sample_recall"]["value"] is None


def test_another_row_order_gives_the_same_pairs():
    snapshot = snapshot_of([f"text {row}" for row in range(80)], unit_rows(80, 8))
    tables = [lane(table, 3).tables for table in (snapshot, shuffled(snapshot, 1))]
    assert tables[0]["neighbour_pairs"].equals(tables[1]["neighbour_pairs"])


def test_a_private_index_that_probes_every_list_finds_what_a_scan_finds(monkeypatch, tmp_path):
    # 40 lists of 1,600 rows, all probed: only the rounding of the index stands between the two, and is rescored.
    monkeypatch.setattr(neighbour_pairs, "EXACT_SCAN_LIMIT", 1500)
    monkeypatch.setattr(neighbour_pairs, "_ROWS_PER_BATCH", 300)
    monkeypatch.setattr(neighbour_pairs, "_INDEX_BATCH", 450)
    unit = unit_rows(1600, 16)
    found, method = find_neighbours(unit, 5, tmp_path / "index")
    cosine = unit.astype(np.float64) @ unit.astype(np.float64).T
    np.fill_diagonal(cosine, -2)
    assert method == "private_index"
    assert np.array_equal(found.rows, np.argsort(-cosine, axis=1)[:, :5])
    assert np.allclose(found.cosines, -np.sort(-cosine, axis=1)[:, :5], atol=1e-12)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_the_private_index_is_gone_even_after_a_failure(monkeypatch, tmp_path):
    def fail(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_neighbours(unit_rows(300, 4), np.arange(300), 2, tmp_path / "index", fail)
    assert list(tmp_path.iterdir()) == []


def test_another_row_order_gives_the_same_pairs_by_the_private_index(monkeypatch, tmp_path):
    monkeypatch.setattr(neighbour_pairs, "EXACT_SCAN_LIMIT", 300)
    snapshot = snapshot_of([f"text {row}" for row in range(400)], unit_rows(400, 8))
    tables = [lane(table, 3, folder=tmp_path).tables for table in (snapshot, shuffled(snapshot, 1))]
    assert tables[0]["neighbour_pairs"].equals(tables[1]["neighbour_pairs"])
    assert tables[0]["neighbour_reach"].equals(tables[1]["neighbour_reach"])


def test_a_private_index_that_loses_neighbours_is_a_finding_and_a_whole_one_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(neighbour_pairs, "EXACT_SCAN_LIMIT", 300)
    snapshot = snapshot_of([f"text {row}" for row in range(900)], unit_rows(900, 16))
    whole = lane(snapshot, 5, folder=tmp_path)
    assert whole.findings == []
    assert whole.summary["neighbours"]["exact_sample_recall"]["value"] == 1
    monkeypatch.setattr(neighbour_pairs, "_PROBED_LISTS", 1)
    lossy = lane(snapshot, 5, folder=tmp_path)
    assert [finding.code for finding in lossy.findings] == ["candidates_missed"]
    assert lossy.summary["neighbours"]["exact_sample_recall"]["high"] < 0.9


def test_recall_counts_what_the_lists_lack():
    unit = unit_rows(50, 8)
    found = exact_neighbours(unit, np.arange(50), 4)
    assert np.all(sample_recall(unit, found, 4, 50) == 1)
    found.cosines[:, 1] = np.nan
    assert np.allclose(sample_recall(unit, found, 4, 50), 0.75)


def test_too_many_texts_for_a_scan_need_a_folder(monkeypatch):
    monkeypatch.setattr(neighbour_pairs, "EXACT_SCAN_LIMIT", 10)
    with pytest.raises(ValueError, match="11 distinct texts"):
        find_neighbours(unit_rows(11, 4), 2, None)
    assert find_neighbours(unit_rows(10, 4), 2, None)[1] == "exact_scan"
