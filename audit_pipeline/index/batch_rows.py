"""One batch of a managed table as it stands. The whole table is read in reading.py; nothing is written here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.corpus.text import sha256_hex
from audit_pipeline.index.connection import connect, open_table, sql_string, table_names
from audit_pipeline.index.vectors import to_matrix


def read_batch(
    uri: str, table: str, batch: str, *, storage_options: dict[str, str] | None = None
) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """One batch of a managed table: its rows (schemas.CHUNKS), vectors (n, d) float32 and their states (n,) uint8.

    Nothing where there is no table yet, as before the first row is written.
    """
    database = connect(uri, storage_options, create=True)
    if table not in table_names(database):
        return schemas.CHUNKS.empty_table(), np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.uint8)
    opened = open_table(database, table)
    found = opened.search().where(f"batch = {sql_string(batch)}").select([*schemas.CHUNKS.names, "vector"]).to_arrow()
    vectors = found["vector"].combine_chunks()
    matrix, state = to_matrix(vectors, vectors.type.list_size)
    rows = found.select(schemas.CHUNKS.names)
    # The hash is that of the text as it stands, not the one written down when it was new.
    place = rows.schema.get_field_index("text_sha256")
    rows = rows.set_column(place, schemas.CHUNKS.field("text_sha256"), sha256_hex(rows["text"]))
    return rows.cast(schemas.CHUNKS), matrix, state
