"""Cosine of random pairs: what unrelated texts score under this model. No threshold is chosen here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.floor_of_unlike import unlike
from audit_pipeline.duplicates.rows import Nodes

ALL, ACROSS = "all", "across_sources"
UNLIKE = {ALL: "all_unlike", ACROSS: "across_sources_unlike"}
"""Scope -> that of its pairs without the copies among them (floor_of_unlike)."""
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
TOLERANCE = 1e-6
_SEED = 0


def share_name(threshold: float) -> str:
    """Name of the statistic "share of random pairs at or above the threshold"."""
    return f"share>={threshold:.4g}"


def random_pairs(nodes: np.ndarray, pairs: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """``pairs`` random pairs of different nodes, uniformly; every pair once where there are no more than that."""
    n = len(nodes)
    if n * (n - 1) // 2 <= pairs:
        a, b = np.triu_indices(n, 1)
    else:
        a = generator.integers(0, n, pairs)
        b = generator.integers(0, n - 1, pairs)
        b += b >= a
    return nodes[a], nodes[b]


def random_pairs_across(
    nodes: np.ndarray, group: np.ndarray, pairs: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """``pairs`` random pairs of nodes of different groups, uniformly over all such pairs; none with one group.

    The first node is drawn in proportion to the partners it has, the second uniformly among these.
    """
    order = np.argsort(group, kind="stable")
    nodes, group = nodes[order], group[order]
    _, start, size = np.unique(group, return_index=True, return_counts=True)
    if len(size) < 2:
        return nodes[:0], nodes[:0]
    partners = len(nodes) - size
    chosen = generator.choice(len(size), size=pairs, p=size * partners / (size * partners).sum())
    a = start[chosen] + generator.integers(0, size[chosen])
    b = generator.integers(0, partners[chosen])
    b += np.where(b >= start[chosen], size[chosen], 0)
    return nodes[a], nodes[b]


def two_groups(
    one: np.ndarray, other: np.ndarray, pairs: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """``pairs`` random pairs of a node of each group, uniformly; every pair once where there are no more than that."""
    if len(one) * len(other) <= pairs:
        return np.repeat(one, len(other)), np.tile(other, len(one))
    return one[generator.integers(0, len(one), pairs)], other[generator.integers(0, len(other), pairs)]


def measure_floor(nodes: Nodes, settings: DuplicateSettings) -> pa.Table:
    """Statistics of the cosine of random pairs of rows with usable vectors (schemas.SIMILARITY_FLOOR).

    Scopes: all rows; pairs of different sources; each again without copies, of which the p99.9 alone is told, and how
    many were left out. Pairs of different roles are left out everywhere. No usable pair gives no rows.
    Deterministic: the draw has a fixed seed and runs over the rows in id order.
    """
    generator = np.random.default_rng(_SEED)
    usable = np.flatnonzero(nodes.usable)
    rows: list[tuple[str, str, float, int]] = []
    drawn = {ALL: random_pairs(usable, settings.floor_pairs, generator)}
    drawn[ACROSS] = random_pairs_across(usable, nodes.source[usable], settings.floor_pairs, generator)
    for scope, (a, b) in drawn.items():
        cosine = nodes.cosines(a, b)
        known = ~np.isnan(cosine)
        rows += statistics(scope, cosine[known], settings.thresholds)
        if known.any():
            rows += unlike(nodes, a[known], b[known], cosine[known], settings).rows(UNLIKE[scope])
    return floor_table(rows)


def floor_table(rows: list[tuple[str, str, float, int]]) -> pa.Table:
    """Rows of (scope, statistic, value, n) as schemas.SIMILARITY_FLOOR."""
    return pa.Table.from_pylist(
        [dict(zip(schemas.SIMILARITY_FLOOR.names, row, strict=True)) for row in rows], schema=schemas.SIMILARITY_FLOOR
    )


def statistic(floor: pa.Table, scope: str, name: str) -> float | None:
    """One value of the floor table, None where it was not measured."""
    return measured(floor, scope, name)[0]


def measured(floor: pa.Table, scope: str, name: str) -> tuple[float | None, int]:
    """One value of the floor table and the pairs behind it; None and 0 where it was not measured."""
    for row in floor.to_pylist():
        if row["scope"] == scope and row["statistic"] == name:
            return float(row["value"]), int(row["n"])
    return None, 0


def statistics(scope: str, cosine: np.ndarray, thresholds: list[float]) -> list[tuple[str, str, float, int]]:
    """Rows of schemas.SIMILARITY_FLOOR from the cosines (n,) of a scope's pairs; none without any."""
    n = len(cosine)
    if n == 0:
        return []
    values = {"mean": float(cosine.mean())}
    values |= {name: float(np.quantile(cosine, share)) for name, share in QUANTILES.items()}
    values["max"] = float(cosine.max())
    values |= {share_name(t): float(np.mean(cosine >= t - TOLERANCE)) for t in thresholds}
    return [(scope, name, value, n) for name, value in values.items()]
