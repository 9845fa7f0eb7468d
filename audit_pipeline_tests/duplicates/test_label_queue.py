"""The labelling queue: how much is drawn from where, what stands beside each pair, and that nothing else moves it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.duplicates.bands import band_weights
from audit_pipeline.duplicates.label_pool import KEPT, pair_order, pool_of_random_pairs, pool_table
from audit_pipeline.duplicates.label_queue import BAND, MINHASH_ONLY, NEAR_MISS, RANDOM, Pool, draw_queue, even_shares
from audit_pipeline.duplicates.lanes import neighbour_lane
from audit_pipeline.duplicates.rows import nodes_of
from audit_pipeline.duplicates.signatures import compute_signatures
from audit_pipeline_tests.duplicates.snapshots import SETTINGS, at_degrees, neighbour_ids, pair_ids, snapshot_of

THRESHOLDS = [0.9, 0.95]
EDGES = (0.0, 0.8, 0.85, 0.9, 0.95, 1.0)


def candidate(number: int, cosine: float | None, *lanes: str, window: bool = False) -> dict:
    return {
        "chunk_id_a": f"a{number:05}",
        "chunk_id_b": f"b{number:05}",
        "lanes": list(lanes or ("neighbour",)),
        "jaccard": 0.5,
        "cosine": cosine,
        "verified": False,
        "window": window,
    }


def pool(candidates: list[dict], near: int = 0, random: int = 0) -> Pool:
    def others(kind: str, count: int) -> pa.Table:
        rows = [{"chunk_id_a": f"{kind}{n:05}", "chunk_id_b": f"z{n:05}", "cosine": 0.5} for n in range(count)]
        return pa.Table.from_pylist(rows, schema=schemas.LABEL_POOL)

    table = pa.Table.from_pylist(candidates, schema=schemas.CANDIDATE_PAIRS)
    return Pool(table, others("n", near), others("r", random), 10 * near, 1_000_000)


# 200 under .80, 100 in .80-.85, 50 in .85-.90, 10 in .90-.95, 40 in .95-1.00 (of which one is 1), all of neighbours
SIZES = (200, 100, 50, 10, 40)
COSINES = [0.1, 0.8, 0.87, 0.9, 0.96]
CANDIDATES = [
    candidate(100 * place + n if place else 5000 + n, 1.0 if place == 4 and n == 0 else cosine)
    for place, (size, cosine) in enumerate(zip(SIZES, COSINES, strict=True))
    for n in range(size)
]
ALONE = [candidate(9000 + n, 0.3, "minhash") for n in range(30)]


def of(queue: pa.Table, draw: str) -> pa.Table:
    return queue.filter(pa.compute.equal(queue["draw"], draw))


def test_the_shares_bands_and_fractions_are_those_worked_out_by_hand():
    queue = draw_queue(pool([*CANDIDATES, *ALONE], near=50, random=5), THRESHOLDS, 100, 0)
    # A tenth each: 10 of MinHash alone, 10 near misses, of random pairs the 5 there are; 75 by band: 15 each, but one
    # band has 10 only, so the others share its 5: one each, and one more round of the rest of 1 to the last.
    counts = {draw: len(of(queue, draw)) for draw in (BAND, MINHASH_ONLY, NEAR_MISS, RANDOM)}
    assert counts == {BAND: 75, MINHASH_ONLY: 10, NEAR_MISS: 10, RANDOM: 5}
    by_band = {row["band"]: (row["drawn_from"], round(row["fraction"], 9)) for row in of(queue, BAND).to_pylist()}
    assert by_band == {
        "0.00-0.80": (230, round(16 / 230, 9)),
        "0.80-0.85": (100, 0.16),
        "0.85-0.90": (50, 0.32),
        "0.90-0.95": (10, 1.0),
        "0.95-1.00": (40, round(17 / 40, 9)),
    }
    assert {(row["band"], row["drawn_from"]) for row in of(queue, NEAR_MISS).to_pylist()} == {(None, 500)}
    assert {(row["drawn_from"], row["fraction"]) for row in of(queue, RANDOM).to_pylist()} == {(1_000_000, 5e-6)}
    assert len(set(pair_ids(queue))) == len(queue)
    assert all(row["lanes"] == "minhash" for row in of(queue, MINHASH_ONLY).to_pylist())


def test_from_a_cosine_up_whole_bands_are_drawn_and_nothing_else():
    everything = pool([*CANDIDATES, *ALONE], near=50, random=5)
    queue = draw_queue(everything, THRESHOLDS, 1000, 0, lowest=0.9)
    assert {(row["draw"], row["band"], row["drawn_from"], row["fraction"]) for row in queue.to_pylist()} == {
        (BAND, "0.90-0.95", 10, 1.0),
        (BAND, "0.95-1.00", 40, 1.0),
    }
    assert len(queue) == 50
    # A cosine within a band begins at the next one; what was asked for stays evenly spread.
    assert {row["band"] for row in draw_queue(everything, THRESHOLDS, 30, 0, lowest=0.91).to_pylist()} == {"0.95-1.00"}
    some = draw_queue(everything, THRESHOLDS, 16, 0, lowest=0.9).to_pylist()
    assert sorted(row["band"] for row in some) == ["0.90-0.95"] * 8 + ["0.95-1.00"] * 8


def test_the_weights_of_the_sweep_undo_the_fractions():
    queue = of(draw_queue(pool(CANDIDATES), THRESHOLDS, 100, 0), BAND)
    drawn, every = queue["cosine"].to_numpy(), np.array([row["cosine"] for row in CANDIDATES])
    weights = band_weights(queue["band"].to_pylist(), drawn, every).weights
    assert weights is not None
    assert weights == pytest.approx(1 / queue["fraction"].to_numpy())
    assert weights.sum() == pytest.approx(len(CANDIDATES))


def test_a_negative_cosine_has_a_band_that_the_sweep_reads():
    queue = draw_queue(pool([candidate(1, -0.2), candidate(2, 0.5)]), THRESHOLDS, 10, 0)
    assert queue["band"].to_pylist() == ["-1.00..0.80"] * 2
    found = band_weights(queue["band"].to_pylist(), queue["cosine"].to_numpy(), np.array([-0.2, 0.5]))
    assert found.weights == pytest.approx([1, 1])


def test_copies_windows_and_unscored_pairs_are_no_part_of_it():
    rows = [candidate(1, 0.99, "exact"), candidate(2, 0.97, window=True), candidate(3, None), candidate(4, 0.97)]
    assert pair_ids(draw_queue(pool(rows), THRESHOLDS, 10, 0)) == [("a00004", "b00004")]


def test_what_is_labelled_is_left_out_and_the_rest_is_drawn():
    whole = pool(CANDIDATES, near=3, random=3)
    first = draw_queue(whole, THRESHOLDS, 100, 0)
    second = draw_queue(whole, THRESHOLDS, 1000, 0, first.select(["chunk_id_a", "chunk_id_b"]))
    assert not set(pair_ids(first)) & set(pair_ids(second))
    assert len(first) + len(second) == len(CANDIDATES) + 6
    assert set(second["fraction"].to_pylist()) >= {1.0}


def test_a_near_miss_that_another_lane_proposed_is_a_candidate_and_no_near_miss():
    whole = pool([candidate(n, 0.4, "minhash") for n in range(100)])
    near = whole.candidates.select(["chunk_id_a", "chunk_id_b", "cosine"]).cast(schemas.LABEL_POOL)
    queue = draw_queue(Pool(whole.candidates, near, whole.random_pairs, 100, 5000), THRESHOLDS, 20, 0)
    assert len(queue) == 20
    assert set(queue["draw"].to_pylist()) == {BAND, MINHASH_ONLY}


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_pairs_in_the_same_order_whatever_the_order_of_the_tables(seed):
    mixed = [CANDIDATES[n] for n in np.random.default_rng(seed).permutation(len(CANDIDATES))]
    one, other = (draw_queue(pool(rows, 20, 20), THRESHOLDS, 60, seed) for rows in (CANDIDATES, mixed))
    assert one.equals(other)
    assert pair_ids(one) != pair_ids(draw_queue(pool(CANDIDATES, 20, 20), THRESHOLDS, 60, seed + 1))


def test_a_beginning_of_the_queue_is_a_sample_of_all_of_it():
    queue = draw_queue(pool(CANDIDATES, 200, 200), THRESHOLDS, 400, 0)
    half = of(queue.slice(0, 200), BAND)
    # Of 280 pairs by band half are expected in the first half of the queue: 140, standard deviation 6.5.
    assert 140 - 4 * 6.5 < len(half) < 140 + 4 * 6.5
    assert set(half["band"].to_pylist()) == {"0.00-0.80", "0.80-0.85", "0.85-0.90", "0.90-0.95", "0.95-1.00"}


def test_even_shares_fill_small_groups_first():
    assert even_shares(10, np.array([1, 100, 100])).tolist() == [1, 4, 5]
    assert even_shares(10, np.array([1, 2, 3])).tolist() == [1, 2, 3]
    assert even_shares(0, np.array([5])).tolist() == [0]


def test_the_order_of_pairs_is_uniform_and_keyed():
    a, b = (pa.array([f"{side}{n}" for n in range(4000)]) for side in "ab")
    order = pair_order(a, b, 0, "x")
    assert len(set(order.tolist())) == 4000
    # The share in the lowest quarter of the range: 1,000 expected, standard deviation 27.
    assert abs(int((order < 2**62).sum()) - 1000) < 4 * 27
    assert (pair_order(b, a, 0, "x") != order).all()
    assert (pair_order(a, b, 1, "x") != order).all()
    assert pair_order(a[10:20], b[10:20], 0, "x").tolist() == order[10:20].tolist()


def test_near_misses_are_the_neighbours_after_the_last_one_kept():
    # Eight texts at 0, 1, 3, 6, 10, 15, 21, 28 degrees; with one neighbour each the pair 0-1 and the pairs of each to
    # the one before it are kept. Near misses are the next four of each text: all pairs but those no list reaches.
    degrees = [0, 1, 3, 6, 10, 15, 21, 28]
    snapshot = snapshot_of([f"text{n}" for n in range(8)], at_degrees(*degrees), ids=list("abcdefgh"))
    settings = SETTINGS.model_copy(update={"neighbours": 1})
    result = neighbour_lane(snapshot, compute_signatures(snapshot.rows, settings), settings)
    kept = {("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "g"), ("g", "h")}
    assert set(neighbour_ids(snapshot, result.tables["neighbour_pairs"])) == kept
    near = {}
    for one, own in enumerate(degrees):
        others = sorted((abs(own - other), n) for n, other in enumerate(degrees) if n != one)
        for _, n in others[1:5]:
            pair = tuple(sorted(("abcdefgh"[one], "abcdefgh"[n])))
            near[pair] = np.cos(np.radians(abs(own - degrees[n])))
    expected = {pair: cosine for pair, cosine in near.items() if pair not in kept}
    found = result.tables["near_misses"]
    assert dict(zip(pair_ids(found), found["cosine"].to_pylist(), strict=True)) == pytest.approx(expected)
    assert result.summary["neighbours"]["near_misses"] == len(expected)


def test_the_pool_keeps_a_sample_of_distinct_pairs():
    snapshot = snapshot_of([f"text{n}" for n in range(300)], at_degrees(*range(300)))
    nodes = nodes_of(snapshot)
    a, b = np.triu_indices(300, 1)
    table = pool_table(nodes, np.r_[a, b], np.r_[b, a], np.zeros(2 * len(a)))
    assert len(table) == KEPT == len(set(pair_ids(table)))
    drawn = pool_of_random_pairs(nodes)
    assert all(one < other for one, other in pair_ids(drawn))
    place = {name: n for n, name in enumerate(nodes.chunk_ids.to_pylist())}
    apart = np.array([place[one] - place[other] for one, other in pair_ids(drawn)])
    assert drawn["cosine"].to_numpy() == pytest.approx(np.cos(np.radians(apart)), abs=1e-6)
