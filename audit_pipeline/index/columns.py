"""From a table's own columns to the chunk fields: names resolved, types cast. Vectors are in vectors.py."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import CHUNK_COLUMNS
from audit_pipeline.corpus.text import sha256_hex
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.vectors import is_vector_type


@dataclass(frozen=True)
class ColumnPaths:
    """Where each chunk field and the vector stand: a column, then the fields of a struct. Absent fields lack."""

    fields: dict[str, list[str]]
    vector: str

    @property
    def absent(self) -> tuple[str, ...]:
        return tuple(name for name in CHUNK_COLUMNS if name not in self.fields)

    @property
    def selected(self) -> list[str]:
        """Top-level columns to read, each once."""
        return list(dict.fromkeys([*(path[0] for path in self.fields.values()), self.vector]))


def resolve_columns(schema: pa.Schema, named: Mapping[str, str], table: str) -> ColumnPaths:
    """Paths of the fields the table holds; a default name that the table lacks is absent.

    Raises AuditInputError where a named column lacks, where there is no text, or no vector column.
    """
    fields: dict[str, list[str]] = {}
    for field in CHUNK_COLUMNS:
        name = named.get(field, field)
        path = _path(schema, name)
        if path is not None:
            fields[field] = path
        elif field in named or field == "text":
            candidates = [column.name for column in schema if _is_text(column.type)]
            raise _missing(table, field, name, schema.names, candidates if field == "text" else [])
    vector = named.get("vector", "vector")
    candidates = [column.name for column in schema if is_vector_type(column.type)]
    if vector not in schema.names:
        raise _missing(table, "vector", vector, schema.names, candidates)
    if not is_vector_type(schema.field(vector).type):
        raise AuditInputError(
            f"index.columns: column {vector!r} of table {table!r} is {schema.field(vector).type}, "
            f"expected a list of floats (candidates: {', '.join(candidates) or '(none)'}): name the vector column"
        )
    for field, path in fields.items():
        if path[0] == vector:
            raise _unusable(path, field, schema.field(vector).type, "strings, numbers or dates")
    return ColumnPaths(fields, vector)


def text_of(rows: pa.Table, path: list[str], field: str) -> pa.Array:
    """A field as strings; numbers are written out (for the text only strings are taken). Raises AuditInputError."""
    array = _at(rows, path)
    kind = array.type
    if _is_text(kind) or pa.types.is_null(kind):
        return array.cast(pa.string())
    if field != "text":
        if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return array.cast(pa.string())
        if pa.types.is_floating(kind):
            # pandas turns integers with gaps into floats: 7.0 was written as 7.
            whole = pc.all(pc.equal(array, pc.floor(array))).as_py() is not False
            return (array.cast(pa.int64(), safe=False) if whole else array).cast(pa.string())
    raise _unusable(path, field, kind, "strings" if field == "text" else "strings or numbers")


def date_of(rows: pa.Table, path: list[str]) -> pa.Array:
    """A field as date32 (UTC days); null where a string is no ISO date. Raises AuditInputError for other types."""
    array = _at(rows, path)
    kind = array.type
    if pa.types.is_null(kind) or pa.types.is_date(kind):
        return array.cast(pa.date32())
    if pa.types.is_timestamp(kind):
        return pc.floor_temporal(array.cast(pa.timestamp(kind.unit)), unit="day").cast(pa.date32())
    if _is_text(kind):
        encoded = array.cast(pa.string()).dictionary_encode()
        days = pa.array([_iso_day(value) for value in encoded.dictionary.to_pylist()], pa.date32())
        return days.take(encoded.indices)
    raise _unusable(path, "ingestion_date", kind, "dates, timestamps or ISO strings")


def integer_of(rows: pa.Table, path: list[str]) -> pa.Array:
    """A field as int32. Raises AuditInputError for values that are no such numbers."""
    array = _at(rows, path)
    try:
        if _is_text(array.type) or pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
            return array.cast(pa.int32())
        if pa.types.is_null(array.type):
            return array.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise _unusable(path, "position", array.type, "whole numbers under 2^31") from error
    raise _unusable(path, "position", array.type, "whole numbers under 2^31")


def content_ids(texts: pa.Array) -> pa.Array:
    """Ids for rows that have none: the text's SHA-256, with #2, #3 for the second and third row of one text."""
    digests = sha256_hex(texts)
    codes = digests.dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.searchsorted(ordered, ordered, side="left")
    occurrence = np.empty(len(codes), dtype=np.int64)
    occurrence[order] = np.arange(len(codes)) - first + 1
    suffix = pc.if_else(
        pa.array(occurrence > 1),
        pc.binary_join_element_wise("#", pa.array(occurrence).cast(pa.string()), ""),
        "",
    )
    return pc.binary_join_element_wise(digests, suffix, "")


def _path(schema: pa.Schema, name: str) -> list[str] | None:
    if name in schema.names:
        return [name]
    parts = name.split(".")
    if parts[0] not in schema.names:
        return None
    kind = schema.field(parts[0]).type
    for part in parts[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    return parts if len(parts) > 1 else None


def _at(rows: pa.Table, path: list[str]) -> pa.Array:
    array = rows[path[0]].combine_chunks()
    for part in path[1:]:
        array = pc.struct_field(array, part)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _is_text(kind: pa.DataType) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value)


def _iso_day(value: str) -> dt.date | None:
    try:
        moment = dt.datetime.fromisoformat(value.strip())
        return (moment if moment.tzinfo is None else moment.astimezone(dt.UTC)).date()
    except (ValueError, OverflowError):
        return None


def _missing(table: str, field: str, name: str, present: list[str], candidates: list[str]) -> AuditInputError:
    close = difflib.get_close_matches(name, present, n=1)
    listed = candidates or close
    hint = f"candidates are {', '.join(listed)}; " if listed else ""
    return AuditInputError(
        f"index.columns: table {table!r} has no column {name!r} for {field}; {hint}"
        f"columns are {', '.join(present)}: name it under index.columns: {{{field}: ...}}"
    )


def _unusable(path: list[str], field: str, kind: pa.DataType, wanted: str) -> AuditInputError:
    return AuditInputError(
        f"index.columns: column {'.'.join(path)!r} for {field} is of type {kind}, expected {wanted}: "
        f"name another column under index.columns: {{{field}: ...}}"
    )
