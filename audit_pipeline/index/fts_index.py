"""The full-text indexes of a table: which columns, how many rows. The ANN index is in vector_index.py."""

from __future__ import annotations

from typing import Any

from audit_pipeline.index.snapshot import FtsIndex


def fts_indices_of(table: Any) -> tuple[FtsIndex, ...]:
    """Every full-text index at the table's version, by name."""
    found = []
    for config in table.list_indices():
        if "FTS" not in str(config.index_type).upper() and "INVERTED" not in str(config.index_type).upper():
            continue
        stats = table.index_stats(config.name)
        if stats is not None:
            indexed, outside = int(stats.num_indexed_rows), int(stats.num_unindexed_rows)
            found.append(FtsIndex(config.name, ", ".join(config.columns), indexed, outside))
    return tuple(sorted(found, key=lambda index: index.name))
