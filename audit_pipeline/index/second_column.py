"""A second vector column of a table at the version that was read. The table's own vectors are read elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.blocks import blocks, check_out
from audit_pipeline.index.connection import connect, open_table
from audit_pipeline.index.snapshot import USABLE, SearchHits, TableSnapshot
from audit_pipeline.index.vectors import is_vector_type, most_frequent_length, to_matrix
from audit_pipeline.index_settings import IndexSettings
from audit_pipeline.spelling import did_you_mean


def read_second_column(
    snapshot: TableSnapshot, settings: IndexSettings, uri: str, name: str, work_dir: Path
) -> tuple[TableSnapshot, int]:
    """The snapshot with the vectors of column ``name`` in place of its own, and the bytes a row of it takes.

    Read at the snapshot's version in the same order of rows, into a file under ``work_dir``. The result has no search.
    Raises AuditInputError where there is no such column of vectors.
    """
    connection = connect(uri, settings.storage_options)
    tables = []
    for table_name, version in snapshot.info.pinned.items():
        table = open_table(connection, table_name)
        check_out(table, version, table_name)
        tables.append(table)
    schema = tables[0].schema
    if name not in schema.names:
        raise AuditInputError(
            f"duplicates.second.vector: the table has no column {name!r}{did_you_mean(name, schema.names)}: "
            f"name one of {', '.join(schema.names)}"
        )
    kind = schema.field(name).type
    if not is_vector_type(kind):
        raise AuditInputError(f"duplicates.second.vector: column {name!r} is a {kind}, no vector: name another")

    def columns() -> list[pa.Array]:
        return [batch.column(0) for table in tables for batch in blocks(table, [name])]

    dimension = kind.list_size if pa.types.is_fixed_size_list(kind) else most_frequent_length(columns())
    vectors = rows_on_disk(work_dir, len(snapshot.rows), dimension)
    state = np.full(len(snapshot.rows), USABLE, dtype=np.uint8)
    done = 0
    for table in tables:
        for batch in blocks(table, [name]):
            part = slice(done, done + batch.num_rows)
            vectors[part], state[part] = to_matrix(batch.column(0), dimension)
            done += batch.num_rows
    if done != len(snapshot.rows):
        raise RuntimeError(f"the table has {len(snapshot.rows)} rows but {done} were read of column {name!r}")
    return with_vectors(snapshot, vectors, state), dimension * kind.value_type.bit_width // 8


def rows_on_disk(work_dir: Path, rows: int, dimension: int) -> np.ndarray:
    """(rows, dimension) float32 zeros in a file under ``work_dir`` where there are any."""
    if not rows * dimension:
        return np.zeros((rows, dimension), dtype=np.float32)
    work_dir.mkdir(parents=True, exist_ok=True)
    return np.lib.format.open_memmap(work_dir / "vectors.npy", mode="w+", dtype=np.float32, shape=(rows, dimension))


def with_vectors(snapshot: TableSnapshot, vectors: np.ndarray, state: np.ndarray) -> TableSnapshot:
    """The same rows with other vectors (n, d); nothing can be searched in them."""
    info = replace(snapshot.info, dimension=vectors.shape[1])
    return replace(
        snapshot, vectors=vectors, vector_state=state, info=info, search=_no_search, variant_search=None, ann=None
    )


def _no_search(queries: np.ndarray, limit: int, filters: np.ndarray | None = None, /) -> SearchHits:
    raise RuntimeError("the second vectors are compared pair by pair, never searched")
