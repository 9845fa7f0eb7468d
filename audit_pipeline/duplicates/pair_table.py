"""Candidate pairs as arrays of nodes and as the Arrow table of the contract. Finding pairs is the lanes' affair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.duplicates.rows import Nodes

EXACT, MINHASH, NEIGHBOUR = "exact", "minhash", "neighbour"
LANES = (EXACT, MINHASH, NEIGHBOUR)
IDS_OF_PAIRS = ("chunk_id_a", "chunk_id_b")
_PAIRS_PER_BLOCK = 1 << 20


@dataclass(frozen=True)
class Pairs:
    """n pairs of nodes a < b, sorted by (a, b), each once; floats are NaN and ``shared_bands`` is -1 where unknown."""

    a: np.ndarray
    b: np.ndarray
    lanes: np.ndarray  # (n, 3) bool in the order of LANES
    jaccard: np.ndarray
    containment: np.ndarray
    cosine: np.ndarray
    shared_bands: np.ndarray
    verified: np.ndarray
    window: np.ndarray

    def __len__(self) -> int:
        return len(self.a)

    def in_lane(self, lane: str) -> np.ndarray:
        return self.lanes[:, LANES.index(lane)]


def union(nodes: int, *lanes: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sorted distinct pairs of several lists of pairs, and (n, lists) bool which list holds each."""
    codes = [a.astype(np.int64) * max(nodes, 1) + b for a, b in lanes]
    every = np.unique(np.concatenate(codes))
    member = np.zeros((len(every), len(codes)), dtype=bool)
    for column, code in enumerate(codes):
        member[np.searchsorted(every, code), column] = True
    return every // max(nodes, 1), every % max(nodes, 1), member


def to_table(nodes: Nodes, pairs: Pairs) -> pa.Table:
    """The pairs as schemas.CANDIDATE_PAIRS; node order is id order, so the table is sorted by its ids.

    Made in blocks: one Arrow array of ids ends at 2 GiB.
    """

    def block(part: slice) -> pa.RecordBatch:
        bands = pairs.shared_bands[part]
        return pa.record_batch(
            [
                nodes.ids(pairs.a[part]),
                nodes.ids(pairs.b[part]),
                _lane_lists(pairs.lanes[part]),
                pa.array(pairs.jaccard[part], from_pandas=True),
                pa.array(pairs.containment[part], from_pandas=True),
                pa.array(pairs.cosine[part], from_pandas=True),
                pa.array(bands, type=pa.int32(), mask=bands < 0),
                pa.array(pairs.verified[part]),
                pa.array(pairs.window[part]),
            ],
            schema=schemas.CANDIDATE_PAIRS,
        )

    starts = range(0, len(pairs), _PAIRS_PER_BLOCK)
    blocks = [block(slice(start, start + _PAIRS_PER_BLOCK)) for start in starts]
    return pa.Table.from_batches(blocks, schema=schemas.CANDIDATE_PAIRS)


def from_table(nodes: Nodes, table: pa.Table) -> Pairs:
    """Pairs of a candidate table whose ids the nodes know, in the table's order."""

    def floats(name: str) -> np.ndarray:
        return table[name].to_numpy().astype(np.float64)

    return Pairs(
        a=nodes.node_of(table["chunk_id_a"]),
        b=nodes.node_of(table["chunk_id_b"]),
        lanes=lane_matrix(table),
        jaccard=floats("jaccard"),
        containment=floats("containment"),
        cosine=floats("cosine"),
        shared_bands=table["shared_bands"].fill_null(-1).to_numpy(),
        verified=table["verified"].to_numpy(),
        window=table["window"].to_numpy(),
    )


def lane_matrix(table: pa.Table) -> np.ndarray:
    """(n, 3) bool in the order of LANES: which lane each pair of a candidate table is of."""
    lanes = np.zeros((len(table), len(LANES)), dtype=bool)
    if len(table):
        column = table["lanes"].combine_chunks()
        parents = pc.list_parent_indices(column).to_numpy()
        values = pc.index_in(column.flatten(), value_set=pa.array(LANES)).to_numpy(zero_copy_only=False)
        lanes[parents, values] = True
    return lanes


def _lane_lists(lanes: np.ndarray) -> pa.Array:
    offsets = np.zeros(len(lanes) + 1, dtype=np.int32)
    np.cumsum(lanes.sum(axis=1), out=offsets[1:])
    names = pa.array(LANES).take(pa.array(np.nonzero(lanes)[1], type=pa.int64()))
    return pa.ListArray.from_arrays(pa.array(offsets), names)
