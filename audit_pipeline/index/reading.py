"""Reading a table at one pinned version into a snapshot. It never writes to the table, whoever owns it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.column_settings import CHUNK_COLUMNS
from audit_pipeline.corpus.batches import Grain
from audit_pipeline.corpus.dates import UTC
from audit_pipeline.index.blocks import blocks, check_out
from audit_pipeline.index.chunk_rows import Naming, chunk_rows
from audit_pipeline.index.columns import ColumnPaths, resolve_columns
from audit_pipeline.index.connection import connect, open_table
from audit_pipeline.index.database import ALL_TABLES, Database, tables_of_one_shape
from audit_pipeline.index.embedded_fields import derived_fields, title_columns
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.index.fts_index import fts_indices_of
from audit_pipeline.index.layouts import PLAIN, Layout, layout_of
from audit_pipeline.index.paths import find_path
from audit_pipeline.index.plan import ignored_settings, read_plan
from audit_pipeline.index.row_filter import FilterTemplate, RowFilter, parse_filter
from audit_pipeline.index.search import LanceSearch
from audit_pipeline.index.snapshot import USABLE, IndexInfo, SearchHits, TableSnapshot
from audit_pipeline.index.vector_index import VectorIndex, vector_index_of
from audit_pipeline.index.vectors import most_frequent_length, to_matrix
from audit_pipeline.index_settings import IndexSettings
from audit_pipeline.results import Progress, no_progress
from audit_pipeline.uris import without_credentials


@dataclass(frozen=True)
class _Opened:
    """One table at its pinned version."""

    name: str
    table: Any


def open_snapshot(
    settings: IndexSettings,
    uri: str,
    work_dir: Path,
    *,
    undated: dt.date,
    source: str | None = None,
    grain: Grain = "day",
    zone: ZoneInfo = UTC,
    version: int | Mapping[str, int] | None = None,
    embed_fields: Sequence[str] = (),
    progress: Progress = no_progress,
) -> TableSnapshot:
    """The table at ``version`` (default: the newest) as arrays, with the application's search over it.

    Vectors are streamed into ``work_dir/vectors.npy`` and memory-mapped. ``source`` is the source of all rows where
    the table has no source column (default: the table's name); ``undated`` the batch date of rows without a date,
    whose ingestion_date stays null; times fall on their day in the ``zone``. Rows without an id get one from their
    text. ``embed_fields`` are the fields that ``index.embed_text`` names: those that are no chunk fields are read from
    the table beside them. Table ``*`` takes all tables of one shape, each at its version of the mapping ``version``: a
    table is a source, and its name stands before its ids. Raises AuditInputError where folder, table, version, columns
    or search settings cannot be used.
    """
    connection = connect(uri, settings.storage_options)
    names: list[str] = [settings.table]
    left_out: list[str] = []
    if settings.table == ALL_TABLES:
        names, left_out = tables_of_one_shape(connection)
        if isinstance(version, Mapping):
            names = sorted(version)
    opened = []
    for name in names:
        table = open_table(connection, name)
        pinned = version.get(name) if isinstance(version, Mapping) else version
        check_out(table, pinned if pinned is not None else table.version, name)
        opened.append(_Opened(name, table))
    first = opened[0].table
    layout = PLAIN if settings.managed else layout_of(first.schema, settings.layout, settings.table)[0]
    derived = {} if settings.managed else derived_fields(first.schema, layout)
    paths = resolve_columns(
        first.schema,
        settings.columns,
        settings.table,
        usual=layout.columns,
        others=Database(connection),
        further=[name for name in embed_fields if name not in CHUNK_COLUMNS and name not in derived],
    )
    template = None if settings.filter is None else parse_filter(settings.filter, first.schema)
    if not settings.managed:
        # The settings may not know of a title that was embedded: the fingerprint tries it.
        for name in title_columns(first.schema, paths.selected):
            path = find_path(first.schema, name)
            if path is not None and name not in CHUNK_COLUMNS:
                paths.further[name] = path
    needed = [column for column, _ in derived.values()]
    needed += [path.column for path in template.columns] if template is not None else []
    columns, table_of, row_ids, vectors, state = _read(opened, paths, needed, work_dir, progress)
    many = settings.table == ALL_TABLES
    naming = Naming(
        table_of if many else source if source is not None else settings.table,
        undated,
        grain,
        prefix=table_of if many else None,
        zone=zone,
    )
    rows, unread, nameless = chunk_rows(columns, paths, naming, {name: made for name, (_, made) in derived.items()})
    infos = [_info_of(one, paths, settings, uri, vectors.shape[1]) for one in opened]
    snapshot = TableSnapshot(
        rows=rows,
        vectors=vectors,
        vector_state=state,
        metric=settings.metric,
        info=infos[0],
        search=_nothing,
        absent=paths.absent,
        unread_dates=unread,
        nameless=nameless,
        zeros_meant=layout.zeros_meant,
    )
    if many:
        return _over_many(snapshot, infos, left_out, settings, layout)
    index = vector_index_of(first, paths.vector)
    fixed = pa.types.is_fixed_size_list(first.schema.field(paths.vector).type)
    if fixed:
        snapshot = _with_search(snapshot, first, paths, index, settings, row_ids, template, columns)
    else:
        snapshot = _without_search(snapshot, paths)
    return replace(snapshot, info=replace(snapshot.info, layout=layout.name))


def _info_of(opened: _Opened, paths: ColumnPaths, settings: IndexSettings, uri: str, dimension: int) -> IndexInfo:
    index = vector_index_of(opened.table, paths.vector)
    rows = opened.table.count_rows()
    return IndexInfo(
        uri=without_credentials(uri),
        table=opened.name,
        version=int(opened.table.version),
        rows=rows,
        dimension=dimension,
        metric=settings.metric,
        index_type=index.type if index else None,
        index_metric=index.metric if index else None,
        indexed_rows=index.indexed_rows if index else 0,
        unindexed_rows=index.unindexed_rows if index else rows,
        fts=fts_indices_of(opened.table),
    )


def _over_many(
    snapshot: TableSnapshot, infos: list[IndexInfo], left_out: list[str], settings: IndexSettings, layout: Layout
) -> TableSnapshot:
    """The snapshot over several tables. Their application searches one of them at a time, so here it is exact."""
    reason = "LanceDB searches one table at a time: over several tables every search is exact"
    types = sorted({info.index_type for info in infos if info.index_type is not None})
    info = replace(
        infos[0],
        table=settings.table,
        version=0,
        rows=sum(info.rows for info in infos),
        index_type=", ".join(types) or None,
        index_metric=None,
        indexed_rows=sum(info.indexed_rows for info in infos),
        unindexed_rows=sum(info.unindexed_rows for info in infos),
        fts=(),
        plan={"engine": "exact", "reason": reason, "tables_left_out": left_out},
        layout=layout.name,
        tables=tuple(infos),
    )
    return replace(snapshot, search=_exact_search(snapshot), info=info)


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
    template: FilterTemplate | None,
    columns: pa.Table,
) -> TableSnapshot:
    codes = snapshot.chunk_ids.dictionary_encode().indices.to_numpy().astype(np.int64)
    row_filter = RowFilter(template, columns) if template is not None and template.columns else None
    declared = None if template is None else template.fixed if row_filter is None else row_filter.example
    own = row_filter.over_columns if row_filter is not None else declared
    search = LanceSearch(table, paths.vector, index, settings, row_ids, codes, declared, own)
    if "ef" in settings.search.model_fields_set:
        search.check(settings.search.limit)
    plan = read_plan(search.explain(np.ones(snapshot.info.dimension, dtype=np.float32), settings.search.limit))
    plan["engine"] = "lancedb"
    plan["ignored"] = ignored_settings(settings.search, index, plan["index"])
    passing, undecided = search.own_rows()
    return replace(
        snapshot,
        search=search.search,
        variant_search=search.variant,
        passes_filter=passing,
        filter_undecided=undecided,
        row_filter=row_filter,
        rows_passing=search.rows_passing if row_filter is not None else None,
        ann=search if plan["index"] else None,
        info=replace(snapshot.info, plan=plan),
    )


def _without_search(snapshot: TableSnapshot, paths: ColumnPaths) -> TableSnapshot:
    reason = f"LanceDB cannot search column {paths.vector!r}: its lists have no fixed size"
    info = replace(snapshot.info, plan={"engine": "exact", "reason": reason})
    return replace(snapshot, search=_exact_search(snapshot), info=info)


def _columns(tables: Sequence[_Opened], name: str) -> Iterator[pa.Array]:
    for opened in tables:
        for batch in blocks(opened.table, [name]):
            yield batch.column(0)


def _read(
    tables: Sequence[_Opened], paths: ColumnPaths, needed: Sequence[str], work_dir: Path, progress: Progress
) -> tuple[pa.Table, pa.Array, np.ndarray, np.ndarray, np.ndarray]:
    """(columns other than the vector, table of each row, row ids, vectors (n, d), state (n,)) in table order.

    ``needed`` are columns to read beside those of ``paths``.
    """
    schema = tables[0].table.schema
    kind = schema.field(paths.vector).type
    fixed = pa.types.is_fixed_size_list(kind)
    dimension = kind.list_size if fixed else most_frequent_length(_columns(tables, paths.vector))
    counts = [opened.table.count_rows() for opened in tables]
    n = sum(counts)
    scalars = [name for name in dict.fromkeys([*paths.selected, *needed]) if name != paths.vector]
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
    for opened in tables:
        for batch in blocks(opened.table, [*scalars, paths.vector], row_ids=True):
            part = slice(done, done + batch.num_rows)
            vectors[part], state[part] = to_matrix(batch.column(paths.vector), dimension)
            row_ids[part] = batch.column("_rowid").to_numpy()
            kept.append(batch.select(scalars))
            done += batch.num_rows
            progress("reading the table", done, n)
    if done != n:
        raise RuntimeError(f"the table has {n} rows but {done} were read")
    empty = pa.schema([schema.field(name) for name in scalars]).empty_table()
    # Without any column there would be no rows either.
    columns = pa.Table.from_batches(kept) if kept and scalars else empty
    if kept and not scalars:
        columns = pa.table({"_rowid": row_ids})
    table_of = pa.array(np.repeat(np.array([opened.name for opened in tables], dtype=object), counts), pa.string())
    if isinstance(vectors, np.memmap):
        vectors.flush()
        del vectors
        partial.replace(final)
        vectors = np.load(final, mmap_mode="r")
    return columns, table_of, row_ids, vectors, state


def _exact_search(snapshot: TableSnapshot) -> Any:
    def search(queries: np.ndarray, limit: int, filters: np.ndarray | None = None, /) -> SearchHits:
        ranks = ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric).ranks(queries, k=limit)
        return SearchHits(rows=ranks.top_rows, returned=(ranks.top_rows >= 0).sum(axis=1))

    return search


def _nothing(queries: np.ndarray, limit: int, filters: np.ndarray | None = None, /) -> SearchHits:
    """The search of a snapshot that is still being put together."""
    raise RuntimeError("the snapshot has no search yet")
