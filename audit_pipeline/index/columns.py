"""From a table's own columns to the chunk fields: names resolved, types cast. Vectors are in vectors.py."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.column_settings import CHUNK_COLUMNS, ColumnPath
from audit_pipeline.corpus.dates import UTC, days_of, holds_dates
from audit_pipeline.corpus.paths import as_strings, is_text, joined
from audit_pipeline.corpus.text import sha256_hex
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.paths import OtherTables, Path, find_path
from audit_pipeline.index.vectors import is_vector_type
from audit_pipeline.spelling import did_you_mean


@dataclass(frozen=True)
class ColumnPaths:
    """Where each chunk field and the vector stand; absent fields lack. Several paths are the parts of one name.

    ``further`` are row fields beside the chunk fields that a template may name, ``named`` the fields whose place the
    settings say.
    """

    fields: dict[str, tuple[Path, ...]]
    vector: str
    further: dict[str, Path] = field(default_factory=dict)
    named: frozenset[str] = frozenset()

    @property
    def absent(self) -> tuple[str, ...]:
        return tuple(name for name in CHUNK_COLUMNS if name not in self.fields)

    @property
    def selected(self) -> list[str]:
        """Top-level columns to read, each once."""
        parts = [path.column for paths in self.fields.values() for path in paths]
        return list(dict.fromkeys([*parts, *(path.column for path in self.further.values()), self.vector]))


def resolve_columns(
    schema: pa.Schema,
    named: Mapping[str, ColumnPath | None],
    table: str,
    *,
    usual: Mapping[str, Sequence[str]] | None = None,
    others: OtherTables | None = None,
    further: Sequence[str] = (),
) -> ColumnPaths:
    """Paths of the fields the table holds; a default name that the table lacks is absent, as is one named null.

    ``usual`` are a layout's names for fields that the settings do not name: the first that the table holds, none for
    a field that the layout does not have. ``further`` are the further row fields that ``index.embed_text`` names.
    Raises AuditInputError where a named column lacks, where there is no text that was expected, or no vector column.
    """
    usual = usual or {}
    fields: dict[str, tuple[Path, ...]] = {}
    for chunk_field in CHUNK_COLUMNS:
        given = named.get(chunk_field, chunk_field)
        if given is None:
            continue
        if chunk_field not in named and chunk_field in usual:
            candidates = [find_path(schema, name, others) for name in usual[chunk_field]]
            found = next((path for path in candidates if path is not None), None)
            if found is not None:
                fields[chunk_field] = (found,)
            elif chunk_field == "text" and usual["text"]:
                raise _missing(table, "text", usual["text"][0], schema.names, _texts(schema))
            continue
        names = [given] if isinstance(given, str) else given
        paths = [find_path(schema, name, others) for name in names]
        if None not in paths:
            fields[chunk_field] = tuple(path for path in paths if path is not None)
        elif chunk_field in named or chunk_field == "text":
            candidates_of_text = _texts(schema) if chunk_field == "text" else []
            raise _missing(table, chunk_field, names[paths.index(None)], schema.names, candidates_of_text)
    vector = _vector_column(schema, named.get("vector"), usual.get("vector", ("vector",)), table)
    for chunk_field, paths_of_field in fields.items():
        for path in paths_of_field:
            if path.column == vector:
                raise _unusable(path, chunk_field, schema.field(vector).type, "strings, numbers or dates")
    return ColumnPaths(
        fields, vector, _further(schema, further, table, others), frozenset(name for name in named if named[name])
    )


def text_of(rows: pa.Table, paths: Sequence[Path], field: str) -> pa.Array:
    """A field as strings, several parts joined; for the text only strings are taken. Raises AuditInputError."""
    arrays = []
    for path in paths:
        array = path.values(rows)
        if field == "text" and not (is_text(array.type) or pa.types.is_null(array.type)):
            raise _unusable(path, field, array.type, "strings")
        try:
            arrays.append(as_strings(array))
        except TypeError as error:
            raise _unusable(path, field, array.type, "strings or numbers") from error
    return arrays[0] if len(arrays) == 1 else joined(arrays)


def date_of(rows: pa.Table, path: Path, zone: ZoneInfo = UTC) -> tuple[pa.Array, np.ndarray]:
    """(date32 days in the zone, values not understood) as ``corpus.dates.days_of``. Raises AuditInputError."""
    array = path.values(rows)
    if not holds_dates(array.type):
        raise _unusable(path, "ingestion_date", array.type, "dates, timestamps, strings or epoch numbers")
    return days_of(array, zone)


def integer_of(rows: pa.Table, path: Path) -> pa.Array:
    """A field as int32. Raises AuditInputError for values that are no such numbers."""
    array = path.values(rows)
    try:
        if is_text(array.type) or pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
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


def _vector_column(schema: pa.Schema, named: ColumnPath | None, usual: Sequence[str], table: str) -> str:
    candidates = [column.name for column in schema if is_vector_type(column.type)]
    vector = str(named) if named is not None else next((name for name in usual if name in schema.names), usual[0])
    if vector not in schema.names:
        raise _missing(table, "vector", vector, schema.names, candidates)
    if not is_vector_type(schema.field(vector).type):
        raise AuditInputError(
            f"index.columns: column {vector!r} of table {table!r} is {schema.field(vector).type}, "
            f"expected a list of floats (candidates: {', '.join(candidates) or '(none)'}): name the vector column"
        )
    return vector


def _further(schema: pa.Schema, names: Sequence[str], table: str, others: OtherTables | None) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name in names:
        path = find_path(schema, name, others)
        if path is None:
            known = [*CHUNK_COLUMNS, *schema.names]
            raise AuditInputError(
                f"index.embed_text: table {table!r} has no column {name!r}{did_you_mean(name, known)}: "
                f"use one of {', '.join(known)}"
            )
        found[name] = path
    return found


def _texts(schema: pa.Schema) -> list[str]:
    return [column.name for column in schema if is_text(column.type)]


def _missing(table: str, field: str, name: str, present: list[str], candidates: list[str]) -> AuditInputError:
    close = difflib.get_close_matches(name, present, n=1)
    listed = candidates or close
    hint = f"candidates are {', '.join(listed)}; " if listed else ""
    return AuditInputError(
        f"index.columns: table {table!r} has no column {name!r} for {field}; {hint}"
        f"columns are {', '.join(present)}: name it under index.columns: {{{field}: ...}}"
    )


def _unusable(path: Path, field: str, kind: pa.DataType, wanted: str) -> AuditInputError:
    return AuditInputError(
        f"index.columns: column {str(path)!r} for {field} is of type {kind}, expected {wanted}: "
        f"name another column under index.columns: {{{field}: ...}}"
    )
