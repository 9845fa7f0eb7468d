"""Reading one batch of a managed table back, to check what was written. The whole table is read in reading.py."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from audit_pipeline.index.connection import connect, open_table, sql_string, table_names
from audit_pipeline.index.vectors import to_matrix
from audit_pipeline.schemas import CHUNKS


def read_batch(
    uri: str, table: str, batch: str, *, storage_options: dict[str, str] | None = None
) -> tuple[pa.Table, np.ndarray]:
    """Rows of the batch without their vectors, and the state (n,) uint8 of each vector; nothing where no table is."""
    database = connect(uri, storage_options, create=True)
    if table not in table_names(database):
        return CHUNKS.empty_table(), np.empty(0, dtype=np.uint8)
    target = open_table(database, table)
    rows = target.search().where(f"batch = {sql_string(batch)}").to_arrow()
    column = rows["vector"].combine_chunks()
    _, state = to_matrix(column, target.schema.field("vector").type.list_size)
    return rows.drop_columns(["vector"]), state
