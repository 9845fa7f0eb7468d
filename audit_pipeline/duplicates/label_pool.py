"""Pairs beside the candidates for the labelling queue: near misses and random ones. Drawing is elsewhere."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.duplicates.floor import random_pairs
from audit_pipeline.duplicates.rows import Nodes

BEYOND = 4
"""Neighbours looked at beyond the last one kept: the scan that finds the others finds these as well."""
KEPT = 2000
"""Pairs kept of each kind: more than anyone labels."""
_SEED = 1  # another draw than that of the similarity floor
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def pair_order(a: pa.Array | pa.ChunkedArray, b: pa.Array | pa.ChunkedArray, seed: int, purpose: str) -> np.ndarray:
    """Place of each pair of ids in a draw, (n,) uint64: the same in every run, whatever other pairs there are.

    A keyed hash of both ids, mixed by splitmix64 (Steele et al. 2014). Another seed or purpose is another order.
    """
    import pandas as pd

    key = hashlib.blake2b(f"{seed}:{purpose}".encode(), digest_size=8).hexdigest()
    left, right = (pd.util.hash_array(np.asarray(ids, dtype=object), hash_key=key) for ids in (a, b))
    with np.errstate(over="ignore"):
        mixed = left * _GOLDEN + right
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
        return mixed ^ (mixed >> np.uint64(31))


def pool_table(nodes: Nodes, a: np.ndarray, b: np.ndarray, cosine: np.ndarray) -> pa.Table:
    """Distinct pairs of nodes a < b as schemas.LABEL_POOL: at most KEPT of them, those first in the draw, sorted."""
    known = np.flatnonzero(~np.isnan(cosine) & (a != b))
    low, high = np.minimum(a, b)[known], np.maximum(a, b)[known]
    _, first = np.unique(low * max(len(nodes), 1) + high, return_index=True)
    table = pa.Table.from_arrays(
        [nodes.ids(low[first]), nodes.ids(high[first]), pa.array(cosine[known][first])], schema=schemas.LABEL_POOL
    )
    if len(table) <= KEPT:
        return table
    order = pair_order(table["chunk_id_a"], table["chunk_id_b"], 0, "pool")
    return table.take(pa.array(np.sort(np.argpartition(order, KEPT)[:KEPT])))


def pool_of_random_pairs(nodes: Nodes) -> pa.Table:
    """Random pairs of rows with usable vectors that may be compared (schemas.LABEL_POOL)."""
    a, b = random_pairs(np.flatnonzero(nodes.usable), KEPT, np.random.default_rng(_SEED))
    return pool_table(nodes, a, b, nodes.cosines(a, b))
