"""Which pairs are worth a label, and how they are drawn. Their texts, files and what people answer are elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import one_array
from audit_pipeline.duplicates.label_pool import pair_order
from audit_pipeline.duplicates.pair_table import EXACT, LANES, MINHASH, lane_matrix

BAND, MINHASH_ONLY, NEAR_MISS, RANDOM = "score band", "minhash only", "near miss", "random"
_SHARE = {MINHASH_ONLY: 0.1, NEAR_MISS: 0.1, RANDOM: 0.1}  # of the queue; the bands have the rest
_BELOW = (0.10, 0.05)  # bands under the lowest threshold begin so far below it

QUEUE = pa.schema(
    [
        pa.field("chunk_id_a", pa.string(), nullable=False),  # a < b
        pa.field("chunk_id_b", pa.string(), nullable=False),
        pa.field("draw", pa.string(), nullable=False),  # of the four names above
        pa.field("band", pa.string()),  # of a pair drawn by band, else null: only these speak for the candidates
        pa.field("drawn_from", pa.int64(), nullable=False),  # unlabelled pairs of the band, or of the draw
        pa.field("fraction", pa.float64(), nullable=False),  # share of drawn_from that is in the queue
        pa.field("lanes", pa.string(), nullable=False),  # joined by "+"; empty for no candidate
        pa.field("cosine", pa.float64(), nullable=False),
        pa.field("jaccard", pa.float64()),  # null where no lane computed it
    ]
)


@dataclass(frozen=True)
class Pool:
    """What a queue is drawn from: tables of schemas.CANDIDATE_PAIRS and twice schemas.LABEL_POOL.

    ``near`` and ``possible`` are how many near misses and how many pairs of chunks there are at all.
    """

    candidates: pa.Table
    near_misses: pa.Table
    random_pairs: pa.Table
    near: int
    possible: int


def draw_queue(
    pool: Pool,
    thresholds: list[float],
    pairs: int,
    seed: int,
    labelled: pa.Table | None = None,
    lowest: float | None = None,
) -> pa.Table:
    """At most ``pairs`` pairs to label (QUEUE) in a random order; ``labelled`` (chunk_id_a < chunk_id_b) are left out.

    Seven tenths are drawn from the candidates by score band, evenly over the bands; a tenth each from candidates that
    MinHash alone found, from near misses of the neighbour lane and from random pairs. What one of these lacks, the
    bands get, and the other way round. Copies and windows are no part of it: equal texts need no reading, and windows
    are in no sweep. Within a band every unlabelled candidate is equally likely to be drawn, in whatever lane it is, and
    any beginning of the queue is a random sample of it. A pair is in the queue once, by the first draw that has it.

    With ``lowest`` all of them are drawn by band, from the bands that lie above this cosine: with enough ``pairs``
    whole bands are read, and the share of duplicates among what these cuts flag is counted, not estimated.
    """
    candidates = _unlabelled(_worth_reading(pool.candidates), labelled)
    near = _unlabelled(_unlabelled(pool.near_misses, pool.candidates), labelled)
    random = _unlabelled(pool.random_pairs, labelled)
    edges = band_edges(thresholds, candidates["cosine"].to_numpy())
    band = np.searchsorted(edges, candidates["cosine"].to_numpy(), side="right") - 1
    band = np.minimum(band, len(edges) - 2)
    lanes = lane_matrix(candidates)
    alone = lanes[:, LANES.index(MINHASH)] & (lanes.sum(axis=1) == 1)
    in_band = np.bincount(band, minlength=len(edges) - 1)
    if lowest is not None:
        in_band[edges[:-1] < lowest] = 0
    others = {MINHASH_ONLY: int(alone.sum()), NEAR_MISS: len(near), RANDOM: len(random)}
    asked = dict.fromkeys(others, 0) if lowest is not None else others
    quota = {draw: min(round(_SHARE[draw] * pairs), size) for draw, size in asked.items()}
    of_bands = even_shares(pairs - sum(quota.values()), in_band)
    spare = pairs - sum(quota.values()) - int(of_bands.sum())
    more = even_shares(spare, np.array([asked[draw] - quota[draw] for draw in others]))
    quota = {draw: quota[draw] + int(extra) for draw, extra in zip(quota, more.tolist(), strict=True)}
    order = _order(candidates, seed, BAND)
    drawn = [
        _drawn(candidates, order, np.flatnonzero(band == number), int(count), BAND, _name(edges, number))
        for number, count in enumerate(of_bands.tolist())
    ]
    taken = _keys(pa.concat_tables(drawn)) if drawn else pa.array([], pa.string())
    possible = {MINHASH_ONLY: others[MINHASH_ONLY], NEAR_MISS: pool.near, RANDOM: pool.possible}
    for draw, table, rows in (
        (MINHASH_ONLY, candidates, np.flatnonzero(alone)),
        (NEAR_MISS, near, np.arange(len(near))),
        (RANDOM, random, np.arange(len(random))),
    ):
        free = ~pc.is_in(_keys(table), value_set=taken).to_numpy(zero_copy_only=False)
        found = _drawn(table, _order(table, seed, draw), rows[free[rows]], quota[draw], draw, None, possible[draw])
        drawn.append(found)
        taken = pa.concat_arrays([taken, _keys(found)])
    queue = pa.concat_tables(drawn)
    return queue.take(pa.array(np.argsort(_order(queue, seed, "reading"), kind="stable")))


def band_edges(thresholds: list[float], cosine: np.ndarray) -> np.ndarray:
    """Ascending edges of the score bands: the thresholds, two steps under the lowest, and the ends of the scale."""
    lowest = min(thresholds)
    floor = -1.0 if len(cosine) and cosine.min() < 0 else 0.0
    inner = [*(lowest - step for step in _BELOW), *thresholds]
    return np.unique(np.round([floor, *(edge for edge in inner if floor < edge < 1), 1.0], 6))


def even_shares(total: int, sizes: np.ndarray) -> np.ndarray:
    """``total`` over groups of these sizes as evenly as they allow, (g,) int64; what is left over goes to the last."""
    shares = np.zeros(len(sizes), dtype=np.int64)
    while total > 0 and (shares < sizes).any():
        open_groups = np.flatnonzero(shares < sizes)
        each, left = divmod(total, len(open_groups))
        wanted = np.full(len(open_groups), each)
        wanted[len(open_groups) - left :] += 1
        added = np.minimum(wanted, sizes[open_groups] - shares[open_groups])
        shares[open_groups] += added
        total -= int(added.sum())
    return shares


def _worth_reading(candidates: pa.Table) -> pa.Table:
    copies = lane_matrix(candidates)[:, LANES.index(EXACT)]
    scored = candidates["cosine"].is_valid().to_numpy()
    return candidates.filter(pa.array(~copies & scored & ~candidates["window"].to_numpy()))


def _keys(pairs: pa.Table) -> pa.Array:
    joined = pc.binary_join_element_wise(pairs["chunk_id_a"], pairs["chunk_id_b"], "\n")
    return one_array(joined)


def _unlabelled(pairs: pa.Table, labelled: pa.Table | None) -> pa.Table:
    if labelled is None or not len(labelled):
        return pairs
    return pairs.filter(pc.invert(pc.is_in(_keys(pairs), value_set=_keys(labelled))))


def _order(pairs: pa.Table, seed: int, purpose: str) -> np.ndarray:
    return pair_order(pairs["chunk_id_a"], pairs["chunk_id_b"], seed, purpose)


def _name(edges: np.ndarray, number: int) -> str:
    low, high = (f"{edge:.2f}" if round(edge, 2) == edge else f"{edge:g}" for edge in edges[number : number + 2])
    return f"{low}..{high}" if low.startswith("-") else f"{low}-{high}"


def _drawn(
    table: pa.Table, order: np.ndarray, rows: np.ndarray, count: int, draw: str, band: str | None, of: int | None = None
) -> pa.Table:
    """The ``count`` rows that come first in the order, as QUEUE; ``of`` pairs (default: all rows) could be drawn."""
    size = len(rows) if of is None else of
    chosen = rows[np.argsort(order[rows], kind="stable")[:count]]
    picked = table.take(pa.array(chosen, type=pa.int64()))
    n = len(picked)
    if "lanes" in picked.column_names:
        lanes = pa.array(["+".join(found) for found in picked["lanes"].to_pylist()], pa.string())
        jaccard = picked["jaccard"].combine_chunks()
    else:
        lanes, jaccard = pa.array([""] * n, pa.string()), pa.nulls(n, pa.float64())
    columns = [picked["chunk_id_a"], picked["chunk_id_b"], pa.array([draw] * n, pa.string())]
    columns += [pa.array([band] * n, pa.string()), pa.array([size] * n, pa.int64())]
    columns += [pa.array([n / size if size else 0.0] * n, pa.float64()), lanes, picked["cosine"], jaccard]
    return pa.Table.from_arrays([one_array(column) for column in columns], schema=QUEUE)
