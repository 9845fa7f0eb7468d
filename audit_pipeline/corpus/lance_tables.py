"""LanceDB tables as sources, opened at one version and read as RAW tables. The audited table has its own room."""

from __future__ import annotations

import datetime as dt
import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from audit_pipeline.corpus.blocks import block_of, top_columns
from audit_pipeline.corpus.columns import Seen, Where, resolve_columns
from audit_pipeline.corpus.dates import UTC, Days
from audit_pipeline.corpus.file_systems import hidden
from audit_pipeline.errors import AuditInputError, reason_of
from audit_pipeline.format_settings import LanceSettings
from audit_pipeline.index_settings import IndexSettings
from audit_pipeline.source_settings import SourceSettings

_BLOCK_ROWS = 65_536
_SUFFIX = ".lance"
_ERRORS = (OSError, RuntimeError, ValueError)  # what LanceDB raises


@dataclass(frozen=True)
class LanceTable:
    """A table pinned to one version; ``written`` is when that version was."""

    table: Any
    name: str
    version: int
    written: dt.datetime


def open_lance(entry: SourceSettings) -> LanceTable:
    """The table that the entry names, at the version that it names or at the newest, which is not left afterwards.

    Raises AuditInputError where there is no such table or version.
    """
    where = f"source {entry.name!r}"
    settings = entry.lance or LanceSettings()
    uri = entry.uri.rstrip("/")
    if "://" not in uri and not Path(uri).is_dir():  # connecting would create it
        raise AuditInputError(f"{where}: there is no folder {uri}: name a table (x.lance) or its database as uri")
    try:
        name, table = _found(entry, uri, settings.table, where)
        version = settings.version or int(table.version)
        stamps = {int(one["version"]): one["timestamp"] for one in table.list_versions()}
        if version not in stamps:
            raise AuditInputError(
                f"{where}: table {name!r} at {uri} has no version {version}, its newest is {max(stamps)}: "
                "correct lance.version, or remove it"
            )
        table.checkout(version)
    except _ERRORS as error:
        raise AuditInputError(
            f"{where}: {uri} cannot be opened as lance ({hidden(reason_of(error), entry.storage_options)}): "
            "check that it is a whole LanceDB table"
        ) from error
    return LanceTable(table, name, version, stamps[version].astimezone(dt.UTC))  # naive ones are local


def refuse_audited_table(entry: SourceSettings, index_uri: str, index: IndexSettings) -> None:
    """Raise AuditInputError where a Lance entry is the table under audit itself, at no version that is its own.

    Compared with itself the table would lack nothing by definition, and a managed one would be its own source.
    """
    if entry.format != "lance" or (entry.lance and entry.lance.version and not index.managed):
        return
    uri, audited = entry.uri.rstrip("/"), _place(index_uri, index.storage_options)
    parent, _, own = uri.removesuffix(_SUFFIX).rpartition("/")
    if entry.lance and entry.lance.table:
        found = _place(uri, entry.storage_options), entry.lance.table
    elif uri.endswith(_SUFFIX) and own == index.table and _place(parent or ".", entry.storage_options) == audited:
        found = audited, own
    elif _place(uri, entry.storage_options) == audited:
        found = audited, open_lance(entry).name
    else:
        return
    if found == (audited, index.table):
        version = "" if index.managed else ", or a version of it to compare with under lance: {version: ...}"
        raise AuditInputError(
            f"source {entry.name!r}: {entry.uri} is the audited table {index.table!r} itself, which lacks nothing of "
            f"itself: name the table that it is filled from{version}"
        )


def _place(uri: str, options: Mapping[str, str]) -> tuple[str, str | None]:
    """A database's real folder, or its URI and the endpoint that stands for another store."""
    if "://" not in uri:
        return os.path.realpath(uri), None
    told = {name.lower().removeprefix("aws_"): value.rstrip("/") for name, value in options.items()}
    return uri.rstrip("/"), told.get("endpoint", told.get("endpoint_url"))


def read_lance(entry: SourceSettings, seen: Seen, zone: ZoneInfo = UTC) -> Iterator[pa.Table]:
    """All rows of the table as RAW tables of at most 65,536 rows, in its order; the named columns only.

    Rows without a column of dates take the entry's, else the day in the zone on which the version was written. ``seen``
    is told which chunk fields there are. Raises AuditInputError as ``open_lance`` and for columns that lack or cannot
    be used.
    """
    opened = open_lance(entry)
    where = Where(entry.name, f"{opened.name}{_SUFFIX}")
    paths = resolve_columns(entry, opened.table.schema, where)
    days = Days(zone, opened.written.astimezone(zone).date())
    row = 0
    for block in _blocks(opened, sorted(top_columns(paths)), where, entry.storage_options):
        yield block_of(block, paths, row, entry, where, seen, days, {})
        row += len(block)


def _blocks(opened: LanceTable, columns: list[str], where: Where, options: Mapping[str, str]) -> Iterator[pa.Table]:
    try:
        for batch in opened.table.search().select(columns).to_batches(batch_size=_BLOCK_ROWS):
            yield pa.table(batch)
    except _ERRORS as error:
        raise AuditInputError(
            f"{where}: version {opened.version} cannot be read ({hidden(reason_of(error), options)}): "
            "mend the table or remove the entry"
        ) from error


def _found(entry: SourceSettings, uri: str, name: str | None, where: str) -> tuple[str, Any]:
    """(name, table) by name in a database; without one the uri is the table, or a database of a single table."""
    import lancedb

    options = entry.storage_options or None
    if name is None and uri.endswith(_SUFFIX):
        parent, _, own = uri.removesuffix(_SUFFIX).rpartition("/")
        try:
            return own, lancedb.connect(parent or ".", storage_options=options).open_table(own)
        except ValueError as error:
            if "was not found" not in str(error):
                raise
    database = lancedb.connect(uri, storage_options=options)
    names = table_names(database)
    if name is None and len(names) == 1:
        name = names[0]
    if name is None or name not in names:
        close = difflib.get_close_matches(name or "", names, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        told = f"has no table {name!r}{hint}" if name else "is no single table"
        raise AuditInputError(
            f"{where}: {uri} {told}; it holds {', '.join(names) or 'none'}: name one under lance: {{table: ...}}"
        )
    return name, database.open_table(name)


def table_names(database: Any) -> list[str]:
    """All table names of a database, sorted."""
    names: list[str] = []
    token: str | None = None
    while True:
        page = database.list_tables(page_token=token)
        names += page.tables
        token = page.page_token
        if not token:
            return sorted(names)
