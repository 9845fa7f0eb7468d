"""LanceDB tables as sources, opened at one version and read as RAW tables. The audited table has its own room."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit_pipeline.corpus.blocks import block_of, top_columns
from audit_pipeline.corpus.columns import Seen, Where, resolve_columns
from audit_pipeline.errors import AuditInputError, reason_of
from audit_pipeline.format_settings import LanceSettings
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
        name, table = _found(uri, settings.table, where)
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
            f"{where}: {uri} cannot be opened as lance ({reason_of(error)}): check that it is a whole LanceDB table"
        ) from error
    return LanceTable(table, name, version, stamps[version].astimezone(dt.UTC))  # naive ones are local


def read_lance(entry: SourceSettings, seen: Seen) -> Iterator[pa.Table]:
    """All rows of the table as RAW tables of at most 65,536 rows, in its order; the named columns only.

    Rows without a column of dates take the entry's, else the day (UTC) of the version. ``seen`` is told which chunk
    fields there are. Raises AuditInputError as ``open_lance`` and for columns that lack or cannot be used.
    """
    opened = open_lance(entry)
    where = Where(entry.name, f"{opened.name}{_SUFFIX}")
    paths = resolve_columns(entry, opened.table.schema, where)
    row = 0
    for block in _blocks(opened, sorted(top_columns(paths)), where):
        yield block_of(block, paths, row, entry, where, seen, opened.written.date(), {})
        row += len(block)


def _blocks(opened: LanceTable, columns: list[str], where: Where) -> Iterator[pa.Table]:
    try:
        for batch in opened.table.search().select(columns).to_batches(batch_size=_BLOCK_ROWS):
            yield pa.table(batch)
    except _ERRORS as error:
        raise AuditInputError(
            f"{where}: version {opened.version} cannot be read ({reason_of(error)}): mend the table or remove the entry"
        ) from error


def _found(uri: str, name: str | None, where: str) -> tuple[str, Any]:
    """(name, table) by name in a database; without one the uri is the table, or a database of a single table."""
    import lancedb

    if name is None and uri.endswith(_SUFFIX):
        parent, _, own = uri.removesuffix(_SUFFIX).rpartition("/")
        try:
            return own, lancedb.connect(parent or ".").open_table(own)
        except ValueError as error:
            if "was not found" not in str(error):
                raise
    database = lancedb.connect(uri)
    names = _names(database)
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


def _names(database: Any) -> list[str]:
    names: list[str] = []
    token: str | None = None
    while True:
        page = database.list_tables(page_token=token)
        names += page.tables
        token = page.page_token
        if not token:
            return sorted(names)
