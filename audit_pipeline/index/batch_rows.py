"""One batch of a managed table as it stands. The whole table is read in reading.py; nothing is written here.

A table that grew by thousands of batches has thousands of files, and each batch is looked for in all of them. So one
column alone is searched, and what a process has learnt of a file it keeps: files never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.text import sha256_hex
from audit_pipeline.index.connection import connect, find_table, open_table, sql_string, table_names
from audit_pipeline.index.vectors import to_matrix

_KEPT_OF_FILES = 256 * 2**20
_KEPT_OF_INDEXES = 64 * 2**20  # bytes; no index is searched here


@cache
def batch_session() -> Any:
    """The session of all connections by which this process writes and reads batches."""
    import lancedb

    return lancedb.Session(index_cache_size_bytes=_KEPT_OF_INDEXES, metadata_cache_size_bytes=_KEPT_OF_FILES)


def rows_of_batch(opened: Any, batch: str, columns: Sequence[str]) -> pa.Table:
    """These columns of one batch's rows, in table order."""
    held = opened.search().where(f"batch = {sql_string(batch)}").select(["batch"]).with_row_id(True).to_arrow()
    return opened.take_row_ids(held["_rowid"].to_pylist()).select(list(columns)).to_arrow()


def batches_in_table(uri: str, table: str, *, storage_options: dict[str, str] | None = None) -> set[str]:
    """The keys of all batches that have a row in a managed table; none where there is no table."""
    opened = find_table(connect(uri, storage_options, create=True, session=batch_session()), table)
    blocks = opened.search().select(["batch"]).to_batches() if opened is not None else ()
    return {key for block in blocks for key in block["batch"].unique().to_pylist()}


def ids_of_batch(uri: str, table: str, batch: str, *, storage_options: dict[str, str] | None = None) -> pa.ChunkedArray:
    """The ids that a managed table has under one batch; none where there is no table."""
    opened = find_table(connect(uri, storage_options, create=True, session=batch_session()), table)
    if opened is None:
        return pa.chunked_array([], pa.string())
    return rows_of_batch(opened, batch, ["chunk_id"])["chunk_id"]


def rows_elsewhere(opened: Any, batch: str, ids: pa.Array) -> pa.Table:
    """(chunk_id, batch) of the rows that have one of these ids and belong to another batch."""
    others = opened.search().where(f"batch != {sql_string(batch)}").select(["chunk_id", "batch"])
    schema = pa.schema([opened.schema.field(name).remove_metadata() for name in ("chunk_id", "batch")])
    found = [block.filter(pc.is_in(block["chunk_id"], value_set=ids)) for block in others.to_batches()]
    return pa.Table.from_batches([block.cast(schema) for block in found if len(block)], schema)


def read_batch(
    uri: str, table: str, batch: str, *, storage_options: dict[str, str] | None = None
) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """One batch of a managed table: its rows (schemas.CHUNKS), vectors (n, d) float32 and their states (n,) uint8.

    Nothing where there is no table yet, as before the first row is written.
    """
    database = connect(uri, storage_options, create=True, session=batch_session())
    if table not in table_names(database):
        return schemas.CHUNKS.empty_table(), np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.uint8)
    opened = open_table(database, table)
    found = rows_of_batch(opened, batch, [*schemas.CHUNKS.names, "vector"])
    vectors = found["vector"].combine_chunks()
    matrix, state = to_matrix(vectors, vectors.type.list_size)
    rows = found.select(schemas.CHUNKS.names)
    # The hash is that of the text as it stands, not the one written down when it was new.
    place = rows.schema.get_field_index("text_sha256")
    rows = rows.set_column(place, schemas.CHUNKS.field("text_sha256"), sha256_hex(rows["text"]))
    return rows.cast(schemas.CHUNKS), matrix, state
