"""From the columns of one file to the chunk fields: names resolved, types cast. Judging rows is in validation.py."""

from __future__ import annotations

import datetime as dt
import difflib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import CHUNK_COLUMNS, SourceSettings
from audit_pipeline.corpus.dates import days_of, holds_dates
from audit_pipeline.errors import AuditInputError

REQUIRED = ("chunk_id", "text")

RAW = pa.schema(
    [
        pa.field("row", pa.int64()),  # ordinal in the file, from 0
        pa.field("origin", pa.string()),
        pa.field("chunk_id", pa.string()),
        pa.field("text", pa.string()),
        pa.field("source", pa.string()),
        pa.field("ingestion_date", pa.date32()),
        pa.field("doc_id", pa.string()),
        pa.field("heading", pa.string()),
        pa.field("position", pa.int32()),
        pa.field("problem", pa.string()),  # reason code where reading the row already failed
        pa.field("detail", pa.string()),
    ]
)


@dataclass(frozen=True)
class Where:
    """What a message about an entry's file names."""

    source: str
    file: str

    def __str__(self) -> str:
        return f"source {self.source!r}, {self.file}"


def resolve_columns(entry: SourceSettings, present: list[str], where: Where) -> dict[str, list[str]]:
    """Chunk field -> path (column, then struct fields) in the data; a default column that lacks is left out.

    Raises AuditInputError where a required or a mapped column lacks.
    """
    paths: dict[str, list[str]] = {}
    for field in CHUNK_COLUMNS:
        name = entry.columns.get(field, field)
        top = name.split(".")[0]
        if name in present:
            paths[field] = [name]
        elif top in present and field in entry.columns:
            paths[field] = name.split(".")
        elif field in REQUIRED or field in entry.columns:
            close = difflib.get_close_matches(name, present, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            remedy = f"name it under columns: {{{field}: ...}}"
            raise AuditInputError(
                f"{where}: no column {name!r} for {field}; {hint}columns are {', '.join(present) or '(none)'}: {remedy}"
            )
    return paths


def to_raw(
    fields: dict[str, pa.Array | pa.ChunkedArray],
    names: dict[str, str],
    rows: np.ndarray,
    entry: SourceSettings,
    where: Where,
    file_date: dt.date,
) -> pa.Table:
    """The RAW table of one block of a file: each chunk field cast, dates and sources filled by the entry's rules.

    ``fields`` holds the arrays of the chunk fields that the data has, ``names`` their columns' names for messages,
    ``rows`` (n,) the rows' ordinals in the file. Rows of other sources than the entry's are still there. Raises
    AuditInputError for a type that cannot be used.
    """
    n = len(rows)
    problem: list[tuple[str, np.ndarray, str]] = []  # reason, (n,) bool, detail
    columns: dict[str, pa.Array] = {}
    for field in ("chunk_id", "text", "source", "doc_id", "heading"):
        if field in fields:
            columns[field], invalid = _to_string(_array(fields[field]), field, names[field], where)
            if invalid.any():
                problem.append(("invalid_utf8", invalid, f"column {names[field]!r} is not valid UTF-8"))
        else:
            columns[field] = pa.nulls(n, pa.string())
    columns["position"] = (
        _to_position(_array(fields["position"]), names["position"], where)
        if "position" in fields
        else pa.nulls(n, pa.int32())
    )
    if "ingestion_date" in fields:
        columns["ingestion_date"], bad = _to_date(_array(fields["ingestion_date"]), names["ingestion_date"], where)
        detail = f"column {names['ingestion_date']!r} holds no date"
        if entry.ingestion_date is not None:
            null = columns["ingestion_date"].is_null().to_numpy(zero_copy_only=False) & ~bad
            day = pa.scalar(entry.ingestion_date, pa.date32())
            columns["ingestion_date"] = pc.if_else(pa.array(null), day, columns["ingestion_date"])
        else:
            bad = columns["ingestion_date"].is_null().to_numpy(zero_copy_only=False)
        if bad.any():
            problem.append(("bad_date", bad, detail))
    else:
        columns["ingestion_date"] = pa.repeat(pa.scalar(entry.ingestion_date or file_date, pa.date32()), n)
    if "source" not in fields:
        if entry.name == "*":
            raise AuditInputError(
                f"{where}: name '*' takes every value of the source column, but there is none: "
                "give the source a name, or name the column under columns: {source: ...}"
            )
        columns["source"] = pa.repeat(pa.scalar(entry.name, pa.string()), n)
    columns["row"] = pa.array(rows, pa.int64())
    columns["origin"] = pa.repeat(pa.scalar(where.file, pa.string()), n)
    columns["problem"], columns["detail"] = _problems(problem, n)
    return pa.table([columns[field.name] for field in RAW], schema=RAW)


def _problems(problems: list[tuple[str, np.ndarray, str]], n: int) -> tuple[pa.Array, pa.Array]:
    reason, detail = pa.nulls(n, pa.string()), pa.nulls(n, pa.string())
    for code, rows, text in reversed(problems):  # the first named problem of a row wins
        mask = pa.array(rows)
        reason = pc.if_else(mask, pa.scalar(code, pa.string()), reason)
        detail = pc.if_else(mask, pa.scalar(text, pa.string()), detail)
    return reason, detail


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _to_string(array: pa.Array, field: str, name: str, where: Where) -> tuple[pa.Array, np.ndarray]:
    """(strings, rows that are not valid UTF-8). Numbers are taken for every field but the text."""
    kind = array.type
    none_invalid = np.zeros(len(array), dtype=bool)
    if pa.types.is_null(kind):
        return array.cast(pa.string()), none_invalid
    if _is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _decoded(array)
    if field != "text" and (pa.types.is_integer(kind) or pa.types.is_date(kind)):
        return array.cast(pa.string()), none_invalid
    if field != "text" and pa.types.is_floating(kind):
        # pandas turns a column of integers with gaps into floats: 7.0 was written as 7.
        try:
            return array.cast(pa.int64()).cast(pa.string()), none_invalid
        except pa.ArrowInvalid:
            pass
    raise _unusable(array, field, name, where, "strings" if field == "text" else "strings or integers")


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _decoded(array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Strings checked byte for byte: Arrow itself takes a string column of a file on trust."""
    invalid = np.zeros(len(array), dtype=bool)
    try:
        strings = array.cast(pa.string())
        strings.validate(full=True)
        return strings, invalid
    except pa.ArrowInvalid:
        values: list[str | None] = []
        for ordinal, raw in enumerate(array.cast(pa.binary(), safe=False).to_pylist()):
            try:
                values.append(None if raw is None else raw.decode("utf-8"))
            except UnicodeDecodeError:
                invalid[ordinal] = True
                values.append(raw.decode("utf-8", "replace"))
        return pa.array(values, pa.string()), invalid


def _to_position(array: pa.Array, name: str, where: Where) -> pa.Array:
    try:
        if pa.types.is_binary(array.type):
            array = array.cast(pa.string())
        if pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_null(array.type):
            return array.cast(pa.int32())
        if _is_text(array.type):
            return array.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise _unusable(array, "position", name, where, "whole numbers under 2^31") from error
    raise _unusable(array, "position", name, where, "whole numbers under 2^31")


def _to_date(array: pa.Array, name: str, where: Where) -> tuple[pa.Array, np.ndarray]:
    """(date32 days in UTC, rows whose value is no date). A time without a zone is taken as it stands."""
    if pa.types.is_binary(array.type) or _is_text(array.type):
        array, _ = _decoded(array)
    if not holds_dates(array.type):
        raise _unusable(array, "ingestion_date", name, where, "dates, timestamps, strings or epoch numbers")
    return days_of(array)


def _unusable(array: pa.Array, field: str, name: str, where: Where, wanted: str) -> AuditInputError:
    return AuditInputError(
        f"{where}: column {name!r} for {field} is of type {array.type}, expected {wanted}: "
        f"convert it, or name another column under columns: {{{field}: ...}}"
    )
