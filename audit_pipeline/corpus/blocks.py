"""A block of rows with its own columns as RAW rows, for every format of columns. Reading the rows is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from audit_pipeline.corpus.casts import Where
from audit_pipeline.corpus.columns import Part, Paths, Seen, name_of, to_raw
from audit_pipeline.corpus.dates import Days
from audit_pipeline.corpus.paths import FieldPath
from audit_pipeline.source_settings import SourceSettings


def top_columns(paths: Mapping[str, Paths]) -> set[str]:
    """The columns in which the chunk fields stand."""
    return {path.column for parts in paths.values() for path in parts}


def block_of(
    table: pa.Table,
    paths: dict[str, Paths],
    row: int,
    entry: SourceSettings,
    where: Where,
    seen: Seen,
    days: Days,
    folders: Mapping[str, str | None],
) -> pa.Table:
    """The RAW table of a block whose first row is the file's ``row``-th.

    ``paths`` are the places of the chunk fields, ``days`` give the rows theirs, ``folders`` its key=value folders: they
    stand in for columns that the block lacks. ``seen`` is told what the block holds. Raises AuditInputError as to_raw.
    """
    for name in sorted(top_columns(paths) - set(table.column_names)):
        table = table.append_column(name, pa.repeat(pa.scalar(folders[name], pa.string()), len(table)))
    fields = {
        field: [Part(FieldPath(path.parts).values(table), path.keys) for path in parts]
        for field, parts in paths.items()
    }
    names = {field: name_of(parts) for field, parts in paths.items()}
    rows = np.arange(row, row + len(table), dtype=np.int64)
    raw = to_raw(fields, names, rows, entry, where, days)
    seen.note(fields, raw)
    return raw
