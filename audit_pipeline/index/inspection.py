"""A table looked at for the first time: what a person wants to know, and settings to audit it with. No encoder here."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.connection import connect, open_table, table_names
from audit_pipeline.index.coverage import off_unit_length
from audit_pipeline.index.database import ALL_TABLES, Database, tables_of_one_shape
from audit_pipeline.index.guesses import Guesses, guess_columns
from audit_pipeline.index.layouts import REGISTRY, Layout, embedding_functions, layout_of
from audit_pipeline.index.paths import find_path
from audit_pipeline.index.placeholders import placeholder_rows
from audit_pipeline.index.reading import open_snapshot
from audit_pipeline.index.snapshot import USABLE, VECTOR_STATES, TableSnapshot
from audit_pipeline.index.vector_index import VectorIndex, vector_index_of
from audit_pipeline.index.vectors import is_vector_type
from audit_pipeline.index_settings import IndexSettings

_SHOWN = 8


@dataclass(frozen=True)
class RoleGuess:
    """How the stored vectors seem to have been made: prompts, template, and what that rests on, or why not known."""

    reason: str
    passage_prompt: str = ""
    query_prompt: str = ""
    embed_text: str | None = None
    known: bool = False


@dataclass(frozen=True)
class Inspection:
    """What was found in one table, and the settings guessed for it, each with its reason."""

    uri: str
    table: str
    snapshot: TableSnapshot
    layout: Layout
    layout_reason: str
    guesses: Guesses
    metric: str
    metric_reason: str
    facts: tuple[str, ...]
    registered: tuple[dict[str, Any], ...]

    @property
    def index_settings(self) -> dict[str, Any]:
        """The attributes of ``index`` that the guesses amount to."""
        return {
            "uri": self.uri,
            "table": self.table,
            "managed": False,
            "layout": self.layout.name,
            "columns": self.guesses.columns,
            "metric": self.metric,
        }


def inspect_table(uri: str, table: str | None, work_dir: Path) -> Inspection:
    """Look at a table (default: the one with most rows among those with vectors), or at all of one shape ('*').

    Reads the whole table once; vectors are mapped below ``work_dir``. Raises AuditInputError.
    """
    if "://" not in uri:
        uri = str(Path(uri).expanduser().absolute())
    connection = connect(uri)
    name = table or _largest(connection)
    first = tables_of_one_shape(connection)[0][0] if name == ALL_TABLES else name
    opened = open_table(connection, first)
    layout, reason = layout_of(opened.schema, "auto", first)
    guesses = (
        guess_columns(opened.schema, _without_vectors(opened))
        if layout.name == "plain"
        else _guesses_of(layout, opened.schema, Database(connection))
    )
    if guesses.columns.get("vector") is None and not any(is_vector_type(column.type) for column in opened.schema):
        raise AuditInputError(
            f"index.table: table {first!r} in {uri} has no vector column; "
            f"columns are {', '.join(opened.schema.names)}: name another with --table"
        )
    index = vector_index_of(opened, str(guesses.columns.get("vector") or "vector"))
    settings = IndexSettings.model_validate(
        {"uri": uri, "table": name, "managed": False, "layout": layout.name, "columns": guesses.columns}
        | {"metric": layout.metric}
    )
    snapshot = open_snapshot(settings, uri, work_dir, undated=dt.date(1970, 1, 1))
    off = int(off_unit_length(snapshot).sum())
    metric, metric_reason = _guess_metric(index, layout, off, int((snapshot.vector_state == USABLE).sum()))
    registered = tuple(embedding_functions(opened.schema))
    written = None if name == ALL_TABLES else _last_write(opened)
    facts = tuple(_facts(snapshot, connection, name, opened.schema, registered, off, written))
    return Inspection(uri, name, snapshot, layout, reason, guesses, metric, metric_reason, facts, registered)


def _largest(connection: Any) -> str:
    names = table_names(connection)
    tables = {name: open_table(connection, name) for name in names}
    sizes = {
        name: table.count_rows()
        for name, table in tables.items()
        if any(is_vector_type(column.type) for column in table.schema)
    }
    if not sizes:
        raise AuditInputError(
            f"index.uri: no table in {connection.uri} has a vector column; tables are {', '.join(names) or '(none)'}: "
            "name the folder that holds the index"
        )
    return min(sizes, key=lambda name: (-sizes[name], name))


def _guesses_of(layout: Layout, schema: pa.Schema, others: Database) -> Guesses:
    guesses = Guesses()
    for field, names in {"text": ("text",), "vector": ("vector",), **layout.columns}.items():
        found = next((name for name in names if find_path(schema, name, others) is not None), None)
        if found is not None:
            guesses.take(field, found, f"layout {layout.name}")
        elif not names:
            guesses.take(field, None, f"layout {layout.name} has none")
    return guesses


def _without_vectors(table: Any) -> pa.Table:
    names = [column.name for column in table.schema if not is_vector_type(column.type)]
    return table.search().select(names).to_arrow() if names else pa.table({"_": pa.nulls(table.count_rows())})


def _guess_metric(index: VectorIndex | None, layout: Layout, off: int, usable: int) -> tuple[str, str]:
    """The metric that the application seems to search with, and what that rests on.

    ``off`` of the ``usable`` vectors are not of length 1: only then does the choice matter.
    """
    if index is not None and index.metric is not None:
        return index.metric, f"the {index.type} index was built for it"
    alike = "" if off else "; every vector has length 1, so cosine and l2 rank alike"
    if layout.name not in ("plain", REGISTRY):
        check = "; vectors are not of length 1, so check what the application asks for" if off else ""
        return layout.metric, f"what {layout.name} searches with{alike}{check}"
    if not off:
        return layout.metric, f"no index says more: what LanceDB takes where a search names no metric{alike}"
    return "cosine", (
        f"a guess: no index names one, and {off:,} of {usable:,} vectors are not of length 1, so l2 would rank "
        "by length too; check the application, for LanceDB takes l2 where a search names no metric"
    )


def _last_write(table: Any) -> dt.datetime | None:
    """When the version that is read was written; None where the table does not say."""
    version = int(table.version)
    stamps = [one["timestamp"] for one in table.list_versions() if int(one["version"]) == version]
    return stamps[0] if stamps and isinstance(stamps[0], dt.datetime) else None


def _facts(
    snapshot: TableSnapshot,
    connection: Any,
    name: str,
    schema: pa.Schema,
    registered: tuple[dict[str, Any], ...],
    off: int,
    written: dt.datetime | None,
) -> list[str]:
    """About ten lines, each true of the version that was read."""
    info, rows = snapshot.info, snapshot.rows
    others = [other for other in table_names(connection) if other not in info.pinned]
    also = f"; other tables: {', '.join(others[:_SHOWN])}{' ...' if len(others) > _SHOWN else ''}" if others else ""
    tables = (
        f"{len(info.pinned)} tables of one shape" if name == ALL_TABLES else f"table {name!r}, version {info.version}"
    )
    tables += f", written {written:%Y-%m-%d %H:%M}" if written else ""
    states = np.bincount(snapshot.vector_state, minlength=len(VECTOR_STATES))
    broken = [f"{count:,} {state}" for state, count in zip(VECTOR_STATES[1:], states[1:], strict=True) if count]
    stand_ins = int(placeholder_rows(rows, snapshot.vector_state, snapshot.zeros_meant).sum())
    index = (
        f"{info.index_type} for {info.index_metric or 'no known metric'}, {info.indexed_rows:,} of {info.rows:,} rows"
        if info.index_type
        else "none: every search is exact"
    )
    fts = ", ".join(f"{one.column} ({one.indexed_rows:,} of {info.rows:,} rows)" for one in info.fts) or "none"
    words = rows["n_words"].to_numpy()
    distinct = pc.count_distinct(rows["text_sha256"]).as_py()
    days = pc.min_max(rows["ingestion_date"])
    dated = (
        f"{days['min'].as_py()} to {days['max'].as_py()}"
        if days["min"].as_py()
        else "none taken: all rows are one batch"
    )
    facts = [
        f"{info.rows:,} rows in {tables}{also}",
        f"columns: {', '.join(f'{column.name} ({_short(column.type)})' for column in schema)}",
        f"vectors: {info.dimension} dimensions; {', '.join(broken) or 'every one is usable'}",
        f"lengths of vectors: {_lengths(snapshot, off)}",
        f"vector index: {index}",
        f"full-text index: {fts}",
        "text: none in this table"
        if "text" in snapshot.absent
        else f"text: median {int(np.median(words)) if len(words) else 0} words, longest {words.max(initial=0):,}; "
        f"{distinct:,} distinct among {info.rows:,}",
        f"ids: {'made of the texts' if 'chunk_id' in snapshot.absent else _ids(snapshot)}",
        f"sources: {', '.join(map(str, pc.unique(rows['source']).sort().to_pylist()[:_SHOWN])) or 'none'}",
        f"dates: {dated}",
    ]
    of_vectors = sorted(column.name for column in schema if is_vector_type(column.type))
    if len(of_vectors) > 1:
        facts.append(
            f"{len(of_vectors)} vector columns: {', '.join(of_vectors)}; index.columns.vector names the one to audit"
        )
    if stand_ins:
        facts.append(f"stand-ins: {stand_ins:,} rows without text or on purpose without a vector")
    if registered:
        facts.append(f"registry: {', '.join(str(entry.get('name')) for entry in registered)} in the schema's metadata")
    return [re.sub(r"\s+", " ", fact) for fact in facts]


def _short(kind: pa.DataType) -> str:
    text = str(kind)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _ids(snapshot: TableSnapshot) -> str:
    repeated = len(snapshot.repeated_ids)
    return f"{repeated:,} stand on more than one row" if repeated else "every row has its own"


def _lengths(snapshot: TableSnapshot, off: int) -> str:
    usable = np.flatnonzero(snapshot.vector_state == 0)
    if not len(usable):
        return "no usable vector"
    step = usable[:: max(1, len(usable) // 2000)]
    norms = np.linalg.norm(np.asarray(snapshot.vectors[step], dtype=np.float64), axis=1)
    unit = "all are 1, so l2 and cosine rank alike" if not off else f"{off:,} are not 1, so the metric matters"
    return f"{norms.min():.4g} to {norms.max():.4g}, median {np.median(norms):.4g}; {unit}"
