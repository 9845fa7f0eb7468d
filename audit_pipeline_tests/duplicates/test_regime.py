"""Pairs under regime query: the newer text asks in the query role, the older one answers with its stored vector."""

from __future__ import annotations

import datetime as dt

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.duplicates import neighbour_pairs
from audit_pipeline.duplicates.lanes import exact_and_minhash, merge_lanes, neighbour_lane
from audit_pipeline.duplicates.neighbour_pairs import exact_neighbours, index_neighbours
from audit_pipeline.duplicates.regime import QueryRole
from audit_pipeline.duplicates.rows import nodes_of
from audit_pipeline.duplicates.signatures import compute_signatures
from audit_pipeline.duplicates.stages import duplicate_clusters, similarity_floor, threshold_sweep
from audit_pipeline_tests.duplicates.snapshots import SETTINGS, at_degrees, neighbour_ids, pair_ids, snapshot_of

QUERY = SETTINGS.model_copy(update={"regime": "query"})
DAYS = [dt.date(2026, 1, day) for day in (3, 1, 2)]


def asked_at(*degrees):
    return QueryRole(at_degrees(*degrees).astype(np.float32), np.arange(len(degrees)))


def cos(degrees):
    return float(np.cos(np.radians(degrees)))


def test_the_newer_text_of_a_pair_asks_and_the_older_one_answers():
    # c0 is the newest, c1 the oldest; the query role turns the three by 5, 20 and 40 degrees.
    snapshot = snapshot_of(["a", "b", "c"], at_degrees(0, 10, 30), dates=DAYS)
    nodes = nodes_of(snapshot, asked=asked_at(5, 30, 70))
    a, b = np.array([0, 0, 1]), np.array([1, 2, 2])
    expected = [cos(5 - 10), cos(5 - 30), cos(70 - 10)]
    assert np.allclose(nodes.cosines(a, b), expected, atol=1e-7)
    assert np.allclose(nodes.cosines(b, a), expected, atol=1e-7)


def test_the_same_day_goes_by_id_and_undated_rows_are_the_newest():
    same = nodes_of(snapshot_of(["a", "b"], at_degrees(0, 10)), asked=asked_at(50, 30))
    assert same.cosines(np.array([0]), np.array([1])) == pytest.approx(cos(30 - 0), abs=1e-7)
    undated = snapshot_of(["a", "b"], at_degrees(0, 10), dates=[None, dt.date(2026, 1, 1)])
    nodes = nodes_of(undated, asked=asked_at(50, 30))
    assert nodes.cosines(np.array([0]), np.array([1])) == pytest.approx(cos(50 - 10), abs=1e-7)


def test_vectors_of_any_length_and_rows_that_share_a_text():
    snapshot = snapshot_of(["a", "b", "a"], 3 * at_degrees(0, 10, 0))
    asked = QueryRole((7 * at_degrees(20, 25)).astype(np.float32), np.array([0, 1, 0]))
    nodes = nodes_of(snapshot, asked=asked)
    assert nodes.cosines(np.array([0, 1]), np.array([2, 2])) == pytest.approx([cos(20), cos(10)], abs=1e-6)
    assert not nodes.all_unit


def test_a_row_without_a_vector_in_the_query_role_is_not_measured():
    snapshot = snapshot_of(["a", "b", "c"], at_degrees(0, 10, 20))
    asked = QueryRole(np.array([[1, 0], [0, 0]], dtype=np.float32), np.array([0, 1, -1]))
    nodes = nodes_of(snapshot, asked=asked)
    assert nodes.usable.tolist() == [True, False, False]
    assert np.isnan(nodes.cosines(np.array([0, 0]), np.array([1, 2]))).all()


def test_candidates_are_what_each_text_finds_among_the_stored_vectors():
    generator = np.random.default_rng(4)
    stored, queries = generator.standard_normal((2, 60, 5)).astype(np.float32)
    snapshot = snapshot_of([f"t{row}" for row in range(60)], stored)
    settings = QUERY.model_copy(update={"neighbours": 3})
    asked = QueryRole(queries, np.arange(60))
    result = neighbour_lane(snapshot, compute_signatures(snapshot.rows, settings), settings, asked=asked)
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (queries, stored)]
    score = unit[0] @ unit[1].T
    np.fill_diagonal(score, -2)
    found = {tuple(sorted((row, int(other)))) for row in range(60) for other in np.argsort(-score[row])[:3]}
    assert neighbour_ids(snapshot, result.tables["neighbour_pairs"]) == [
        (f"c{a:05d}", f"c{b:05d}") for a, b in sorted(found)
    ]
    last = np.sort(score, axis=1)[:, -3]
    assert np.allclose(result.tables["neighbour_reach"]["last_cosine"].to_numpy(), last, atol=1e-6)
    assert result.summary["neighbours"]["exact_sample_recall"]["value"] == 1
    # The next ones are near misses, and each stands with the score of its pair: the higher id asks.
    for row in result.tables["near_misses"].to_pylist():
        low, high = int(row["chunk_id_a"][1:]), int(row["chunk_id_b"][1:])
        assert row["cosine"] == pytest.approx(float(score[high, low]), abs=1e-6)


def test_a_private_index_is_asked_in_the_query_role_as_well(tmp_path, monkeypatch):
    generator = np.random.default_rng(1)
    unit, asking = generator.standard_normal((2, 600, 8)).astype(np.float32)
    unit, asking = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (unit, asking))
    rows = np.arange(600)
    exact = exact_neighbours(unit, rows, 5, asking=asking)
    score = asking.astype(np.float64) @ unit.astype(np.float64).T
    np.fill_diagonal(score, -2)
    assert np.array_equal(exact.rows, np.argsort(-score, axis=1)[:, :5])
    found = index_neighbours(unit, rows, 5, tmp_path / "index", asking=asking)
    assert np.mean(found.cosines >= exact.cosines[:, -1:] - 1e-6) > 0.95
    monkeypatch.setattr(neighbour_pairs, "EXACT_SCAN_LIMIT", 100)
    by_stage, method = neighbour_pairs.find_neighbours(unit, 5, tmp_path / "other", asking=asking)
    assert method == neighbour_pairs.PRIVATE_INDEX
    assert np.mean(by_stage.cosines >= exact.cosines[:, -1:] - 1e-6) > 0.95


def test_floor_sweep_and_clusters_take_the_same_cosines(tmp_path):
    # Stored: all pairs far apart. Asked: every newer text (the higher id) points at the older one of its pair.
    snapshot = snapshot_of(["a", "b", "c", "d"], at_degrees(0, 60, 120, 180))
    asked = asked_at(0, 5, 60, 125)
    signatures = compute_signatures(snapshot.rows, QUERY)
    lexical = exact_and_minhash(snapshot, signatures, QUERY).tables["lexical_pairs"]
    near = neighbour_lane(snapshot, signatures, QUERY, asked=asked).tables
    pairs = merge_lanes(snapshot, lexical, near["neighbour_pairs"], QUERY, asked=asked).tables["candidate_pairs"]
    expected = {(0, 1): 5, (0, 2): 60, (1, 2): 0, (0, 3): 125, (1, 3): 65, (2, 3): 5}
    shown = {
        (int(a[1:]), int(b[1:])): c for (a, b), c in zip(pair_ids(pairs), pairs["cosine"].to_pylist(), strict=True)
    }
    assert shown == pytest.approx({pair: cos(angle) for pair, angle in expected.items()}, abs=1e-7)
    floor = similarity_floor(snapshot, QUERY, asked=asked)
    assert floor.summary["floor"]["mean"] == pytest.approx(np.mean([cos(d) for d in expected.values()]), abs=1e-7)
    random = floor.tables["random_pairs"]
    assert sorted(random["cosine"].to_pylist()) == pytest.approx(sorted(shown.values()))
    swept = threshold_sweep(
        snapshot, pairs, floor.tables["similarity_floor"], near["neighbour_reach"], QUERY, asked=asked
    )
    assert [row["flagged"] for row in swept.summary["sweep"]] == [3, 3, 3, 3, 3, 3, 3]
    clusters = duplicate_clusters(snapshot, signatures, pairs, 0.9, QUERY, asked=asked).tables["duplicate_clusters"]
    to_first = dict(
        zip(clusters["chunk_id"].to_pylist(), clusters["cosine_to_representative"].to_pylist(), strict=True)
    )
    assert to_first["c00001"] == pytest.approx(cos(5), abs=1e-7)
    assert to_first["c00003"] == pytest.approx(cos(125), abs=1e-7)


@pytest.mark.parametrize("regime", ["stored", "query"])
@pytest.mark.parametrize("metric", ["cosine", "l2", "dot"])
def test_thresholds_in_the_stores_score_are_the_distances_that_it_returns(tmp_path, metric, regime):
    generator = np.random.default_rng(3)
    stored, queries = generator.standard_normal((2, 12, 6)) + np.array([3.0, 0, 0, 0, 0, 0])
    stored, queries = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (stored, queries))
    snapshot = snapshot_of([f"t{row}" for row in range(12)], stored, metric=metric)
    asked = QueryRole(queries.astype(np.float32), np.arange(12)) if regime == "query" else None
    asking = queries if regime == "query" else stored
    pairs = [(0, 1), (2, 5), (3, 9), (7, 11)]  # the higher id asks
    cosine = {pair: float(asking[pair[1]] @ stored[pair[0]]) for pair in pairs}
    settings = SETTINGS.model_copy(update={"regime": regime, "thresholds": sorted(cosine.values())})
    lists = pa.FixedSizeListArray.from_arrays(pa.array(stored.astype(np.float32).ravel()), 6)
    table = lancedb.connect(str(tmp_path)).create_table("t", pa.table({"row": np.arange(12), "vector": lists}))

    def returned(older, newer):
        hits = (
            table.search(asking[newer].astype(np.float32)).distance_type(metric).limit(12).select(["row", "_distance"])
        )
        return {hit["row"]: hit["_distance"] for hit in hits.to_list()}[older]

    swept = sweep_without_labels(snapshot, settings, asked)
    by_cosine = [returned(*pair) for pair in sorted(pairs, key=cosine.__getitem__)]
    assert [row["threshold_store_score"] for row in swept] == pytest.approx(by_cosine, abs=1e-5)
    longer = QueryRole((2 * queries).astype(np.float32), np.arange(12))
    if regime == "query" and metric != "cosine":
        # A dot product or a Euclidean distance of vectors of other lengths does not follow from the cosine.
        assert {row["threshold_store_score"] for row in sweep_without_labels(snapshot, settings, longer)} == {None}


def sweep_without_labels(snapshot, settings, asked):
    signatures = compute_signatures(snapshot.rows, settings)
    lexical = exact_and_minhash(snapshot, signatures, settings).tables["lexical_pairs"]
    near = neighbour_lane(snapshot, signatures, settings, asked=asked).tables
    pairs = merge_lanes(snapshot, lexical, near["neighbour_pairs"], settings, asked=asked).tables["candidate_pairs"]
    floor = similarity_floor(snapshot, settings, asked=asked).tables["similarity_floor"]
    return threshold_sweep(snapshot, pairs, floor, near["neighbour_reach"], settings, asked=asked).summary["sweep"]
