"""Reading a table at one pinned version into a snapshot. It never writes to the table, whoever owns it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.config import IndexSettings
from audit_pipeline.corpus.batches import Grain, batch_keys
from audit_pipeline.corpus.text import count_words, sha256_hex
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.columns import (
    ColumnPaths,
    content_ids,
    date_of,
    integer_of,
    resolve_columns,
    text_of,
)
from audit_pipeline.index.connection import connect, first_line, open_table
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.index.plan import ignored_settings, read_plan
from audit_pipeline.index.search import LanceSearch
from audit_pipeline.index.snapshot import USABLE, IndexInfo, SearchHits, TableSnapshot
from audit_pipeline.index.vector_index import VectorIndex, vector_index_of
from audit_pipeline.index.vectors import most_frequent_length, to_matrix
from audit_pipeline.results import Progress, no_progress

_ROWS_AT_ONCE = 8192


def open_snapshot(
    settings: IndexSettings,
    uri: str,
    work_dir: Path,
    *,
    undated: dt.date,
    source: str | None = None,
    grain: Grain = "day",
    version: int | None = None,
    progress: Progress = no_progress,
) -> TableSnapshot:
    """The table at ``version`` (default: the newest) as arrays, with the application's search over it.

    Vectors are streamed into ``work_dir/vectors.npy`` and memory-mapped. ``source`` is the source of all rows where
    the table has no source column (default: the table's name); ``undated`` the batch date of rows without a date,
    whose ingestion_date stays null. Rows without an id get one from their text. Raises AuditInputError where folder,
    table, version, columns or search settings cannot be used.
    """
    table = open_table(connect(uri, settings.storage_options), settings.table)
    _check_out(table, version if version is not None else table.version, settings.table)
    paths = resolve_columns(table.schema, settings.columns, settings.table)
    kind = table.schema.field(paths.vector).type
    fixed = pa.types.is_fixed_size_list(kind)
    dimension = kind.list_size if fixed else most_frequent_length(_columns(table, paths.vector))
    columns, row_ids, vectors, state = _read(table, paths, dimension, work_dir, progress)
    rows = _chunk_rows(columns, paths, source if source is not None else settings.table, undated, grain)
    index = vector_index_of(table, paths.vector)
    snapshot = TableSnapshot(
        rows=rows,
        vectors=vectors,
        vector_state=state,
        metric=settings.metric,
        info=IndexInfo(
            uri=uri,
            table=settings.table,
            version=int(table.version),
            rows=rows.num_rows,
            dimension=dimension,
            metric=settings.metric,
            index_type=index.type if index else None,
            index_metric=index.metric if index else None,
            indexed_rows=index.indexed_rows if index else 0,
            unindexed_rows=index.unindexed_rows if index else rows.num_rows,
        ),
        search=_nothing,
        absent=paths.absent,
    )
    return _with_search(snapshot, table, paths, index, settings, row_ids, fixed)


def adopt_store_cells(snapshot: TableSnapshot, store: pa.Table) -> TableSnapshot:
    """The snapshot with source, date and batch of the store's rows (``schemas.CHUNKS``) by chunk_id.

    Source and date are the store's; rows that the store does not know keep the table's own.
    """
    place = pc.index_in(snapshot.chunk_ids, value_set=store["chunk_id"].combine_chunks())
    known = place.is_valid()
    rows = snapshot.rows
    for name in ("source", "ingestion_date", "batch"):
        taken = store[name].combine_chunks().take(place)
        column = pc.if_else(known, taken, rows[name].combine_chunks())
        rows = rows.set_column(rows.schema.get_field_index(name), schemas.CHUNKS.field(name), column)
    return replace(snapshot, rows=rows)


def _with_search(
    snapshot: TableSnapshot,
    table: Any,
    paths: ColumnPaths,
    index: VectorIndex | None,
    settings: IndexSettings,
    row_ids: np.ndarray,
    fixed: bool,
) -> TableSnapshot:
    if not fixed:
        unsearchable: dict[str, Any] = {
            "engine": "exact",
            "reason": f"LanceDB cannot search column {paths.vector!r}: its lists have no fixed size",
        }
        return replace(snapshot, search=_exact_search(snapshot), info=replace(snapshot.info, plan=unsearchable))
    codes = snapshot.chunk_ids.dictionary_encode().indices.to_numpy().astype(np.int64)
    search = LanceSearch(table, paths.vector, index, settings, row_ids, codes)
    if "ef" in settings.search.model_fields_set:
        search.check(settings.search.limit)
    plan = read_plan(search.explain(np.ones(snapshot.info.dimension, dtype=np.float32), settings.search.limit))
    plan["engine"] = "lancedb"
    plan["ignored"] = ignored_settings(settings.search, index, plan["index"])
    return replace(
        snapshot,
        search=search.search,
        variant_search=search.variant,
        passes_filter=search.passing_rows(),
        filter_undecided=search.undecided_rows(),
        info=replace(snapshot.info, plan=plan),
    )


def _check_out(table: Any, version: int, name: str) -> None:
    try:
        table.checkout(version)
    except (OSError, RuntimeError, ValueError) as error:
        raise AuditInputError(
            f"index.table: version {version} of table {name!r} cannot be read ({first_line(error)}): "
            "audit the newest version"
        ) from error


def _columns(table: Any, name: str) -> Iterator[pa.Array]:
    for batch in table.search().select([name]).to_batches(batch_size=_ROWS_AT_ONCE):
        yield batch.column(0)


def _read(
    table: Any, paths: ColumnPaths, dimension: int, work_dir: Path, progress: Progress
) -> tuple[pa.Table, np.ndarray, np.ndarray, np.ndarray]:
    """(columns other than the vector, row ids, vectors (n, d), state (n,)) in table order, in one pass."""
    n = table.count_rows()
    scalars = [name for name in paths.selected if name != paths.vector]
    state = np.full(n, USABLE, dtype=np.uint8)
    row_ids = np.zeros(n, dtype=np.uint64)
    work_dir.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed, so that an older snapshot that still maps the file keeps its bytes.
    final, partial = work_dir / "vectors.npy", work_dir / "vectors.partial.npy"
    vectors = (
        np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=(n, dimension))
        if n * dimension
        else np.zeros((n, dimension), dtype=np.float32)
    )
    kept: list[pa.RecordBatch] = []
    done = 0
    query = table.search().select([*scalars, paths.vector]).with_row_id(True)
    for batch in query.to_batches(batch_size=_ROWS_AT_ONCE):
        part = slice(done, done + batch.num_rows)
        vectors[part], state[part] = to_matrix(batch.column(paths.vector), dimension)
        row_ids[part] = batch.column("_rowid").to_numpy()
        kept.append(batch.select(scalars))
        done += batch.num_rows
        progress("reading the table", done, n)
    if done != n:
        raise RuntimeError(f"the table has {n} rows but {done} were read")
    schema = pa.schema([table.schema.field(name) for name in scalars])
    columns = pa.Table.from_batches(kept) if kept else schema.empty_table()
    if isinstance(vectors, np.memmap):
        vectors.flush()
        del vectors
        partial.replace(final)
        vectors = np.load(final, mmap_mode="r")
    return columns, row_ids, vectors, state


def _chunk_rows(columns: pa.Table, paths: ColumnPaths, source: str, undated: dt.date, grain: Grain) -> pa.Table:
    """The rows as ``schemas.CHUNKS``; fields the table lacks are null, or made up as ``open_snapshot`` says."""
    n = columns.num_rows
    fields: dict[str, pa.Array] = {}
    for field in ("chunk_id", "text", "source", "doc_id", "heading"):
        path = paths.fields.get(field)
        fields[field] = pa.nulls(n, pa.string()) if path is None else text_of(columns, path, field)
    fields["text"] = fields["text"].fill_null("")
    if fields["chunk_id"].null_count:
        fields["chunk_id"] = pc.coalesce(fields["chunk_id"], content_ids(fields["text"]))
    if "source" not in paths.fields:
        fields["source"] = pa.repeat(pa.scalar(source, pa.string()), n)
    date, position = paths.fields.get("ingestion_date"), paths.fields.get("position")
    fields["ingestion_date"] = pa.nulls(n, pa.date32()) if date is None else date_of(columns, date)
    fields["position"] = pa.nulls(n, pa.int32()) if position is None else integer_of(columns, position)
    fields["batch"] = batch_keys(
        fields["source"], fields["ingestion_date"].fill_null(pa.scalar(undated, pa.date32())), grain
    )
    fields["text_sha256"] = sha256_hex(fields["text"])
    fields["n_words"] = count_words(fields["text"])
    fields["n_tokens"] = pa.nulls(n, pa.int32())
    return pa.table([fields[field.name] for field in schemas.CHUNKS], schema=schemas.CHUNKS)


def _exact_search(snapshot: TableSnapshot) -> Any:
    def search(queries: np.ndarray, limit: int) -> SearchHits:
        ranks = ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric).ranks(queries, k=limit)
        return SearchHits(rows=ranks.top_rows, returned=(ranks.top_rows >= 0).sum(axis=1))

    return search


def _nothing(queries: np.ndarray, limit: int) -> SearchHits:
    """The search of a snapshot that is still being put together."""
    raise RuntimeError("the snapshot has no search yet")
