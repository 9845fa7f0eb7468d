"""The similarity floor of each pair of sources, a source with itself included. The floor of all is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from audit_pipeline.duplicates.floor import TOLERANCE, random_pairs, statistics, two_groups
from audit_pipeline.duplicates.rows import Nodes
from audit_pipeline.proportions import wilson

MOST_CELLS = 50
LEAST_PAIRS = 1000
PAIRS_OF_A_CELL = 10_000
_SEED = 1


@dataclass(frozen=True)
class SourceFloors:
    """``cells``: the two sources' names and the cosines (n,) of random pairs, the cells of most pairs first.

    ``left_out`` counts the cells with fewer than LEAST_PAIRS pairs of rows and those after the first MOST_CELLS.
    """

    cells: list[tuple[str, str, np.ndarray]]
    left_out: int

    def rows(self, thresholds: list[float]) -> list[tuple[str, str, float, int]]:
        """Rows of schemas.SIMILARITY_FLOOR."""
        return [row for a, b, cosine in self.cells for row in statistics(f"{a} x {b}", cosine, thresholds)]

    def summary(self, thresholds: list[float]) -> dict[str, Any]:
        """What audit.json says: of each cell n, mean, p99.9 (null where nothing could be compared) and shares."""
        return {
            "by_source_pair": [
                {
                    "sources": [a, b],
                    "n": len(cosine),
                    "mean": float(cosine.mean()) if len(cosine) else None,
                    "p99.9": float(np.quantile(cosine, 0.999)) if len(cosine) else None,
                    "shares": [
                        {"threshold": t, **wilson(int(np.sum(cosine >= t - TOLERANCE)), len(cosine)).as_dict()}
                        for t in thresholds
                    ],
                }
                for a, b, cosine in self.cells
            ],
            "source_pairs_left_out": self.left_out,
        }


def floors_by_source(nodes: Nodes) -> SourceFloors:
    """Random pairs of each pair of sources; none where there is one source only.

    Rows with usable vectors count; pairs of different roles are left out of ``cosine``. Every pair once where a cell
    has no more than PAIRS_OF_A_CELL, else so many drawn uniformly. Deterministic: the seed is fixed, and the cells
    stand by their number of pairs, ties by name.
    """
    usable = np.flatnonzero(nodes.usable)
    codes, sizes = np.unique(nodes.source[usable], return_counts=True)
    if len(codes) < 2:
        return SourceFloors([], 0)
    all_cells = len(codes) * (len(codes) + 1) // 2
    # No cell of a source after the first 2 x MOST_CELLS is among the largest: as many cells of larger ones are ahead.
    largest = np.sort(np.argsort(-sizes, kind="stable")[: 2 * MOST_CELLS + 1])
    codes, sizes = codes[largest], sizes[largest].astype(np.int64)
    first, second = np.triu_indices(len(codes))
    pairs = np.where(first == second, sizes[first] * (sizes[first] - 1) // 2, sizes[first] * sizes[second])
    # Codes are in the order of the names, so equal sizes stand by name.
    order = np.argsort(-pairs, kind="stable")
    enough = order[pairs[order] >= LEAST_PAIRS]
    generator = np.random.default_rng(_SEED)
    rows_of = {int(code): usable[nodes.source[usable] == code] for code in codes}
    cells = []
    for cell in enough[:MOST_CELLS].tolist():
        low, high = int(codes[first[cell]]), int(codes[second[cell]])
        if low == high:
            a, b = random_pairs(rows_of[low], PAIRS_OF_A_CELL, generator)
        else:
            a, b = two_groups(rows_of[low], rows_of[high], PAIRS_OF_A_CELL, generator)
        cosine = nodes.cosines(a, b)
        cells.append((nodes.source_name(low), nodes.source_name(high), cosine[~np.isnan(cosine)]))
    return SourceFloors(cells, all_cells - len(cells))
