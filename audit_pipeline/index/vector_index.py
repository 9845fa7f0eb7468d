"""The ANN index of a table's vector column: type, metric, coverage. Building it is in building.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class VectorIndex:
    """One ANN index as LanceDB lists it; ``metric`` is cosine, l2 or dot, None where nothing was trained."""

    name: str
    type: str  # IVF_HNSW_SQ, IVF_PQ, ...
    metric: str | None
    indexed_rows: int
    unindexed_rows: int

    @property
    def is_graph(self) -> bool:
        return "HNSW" in self.type

    @property
    def is_quantised(self) -> bool:
        return not self.type.endswith("FLAT")


def vector_index_of(table: Any, column: str) -> VectorIndex | None:
    """The index on ``column`` at the table's version, the one with most rows where there are several; None without."""
    found = []
    for config in table.list_indices():
        if list(config.columns) != [column]:
            continue
        stats = table.index_stats(config.name)
        if stats is None or "IVF" not in str(stats.index_type).upper():
            continue
        found.append(
            VectorIndex(
                name=config.name,
                type=str(stats.index_type).upper(),
                metric=str(stats.distance_type).lower() if stats.distance_type else None,
                indexed_rows=int(stats.num_indexed_rows),
                unindexed_rows=int(stats.num_unindexed_rows),
            )
        )
    return max(found, key=lambda index: (index.indexed_rows, index.name), default=None)
