"""From the columns of one file to the chunk fields. Types are cast in casts, rows are judged in validation."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.column_settings import CHUNK_COLUMNS, ColumnPath
from audit_pipeline.corpus.casts import Where, array_of, decoded, to_date, to_position, to_string
from audit_pipeline.corpus.dates import Days, are_ambiguous
from audit_pipeline.corpus.paths import (
    FieldPath,
    find_field,
    joined,
    json_values,
    keys_of_json,
    spelt_path,
)
from audit_pipeline.corpus.reasons import BAD_DATE, INVALID_UTF8
from audit_pipeline.errors import AuditInputError
from audit_pipeline.source_settings import SourceSettings

REQUIRED = ("chunk_id", "text")
_WRITTEN = "write 03/04/2026 as 2026-04-03 or 2026-03-04"

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


Paths = tuple[FieldPath, ...]


@dataclass(frozen=True)
class Part:
    """Values of one column that is a chunk field or a part of it; with ``keys`` they are JSON strings that hold it."""

    values: pa.Array | pa.ChunkedArray
    keys: tuple[str, ...] = ()


class Seen:
    """Which chunk fields an entry's files hold, and for the others what their JSON holds instead.

    ``undated`` are the files without a column of dates.
    """

    def __init__(self) -> None:
        self.fields: set[str] = set()
        self.undated: set[str] = set()
        self._keys: dict[str, set[str]] = {}

    def note(self, fields: Mapping[str, Sequence[Part]], raw: pa.Table) -> None:
        """Take down the fields of a block. What stands in JSON is there once a row has it."""
        if "ingestion_date" not in fields:
            self.undated.update(raw["origin"].unique().to_pylist())
        for field, parts in fields.items():
            lost = [part for part in parts if part.keys and not self._holds(part, raw[field], alone=len(parts) == 1)]
            if not lost:
                self.fields.add(field)
            for part in lost:
                self._keys.setdefault(field, set()).update(_keys_of(part))

    def hint(self, field: str) -> str:
        """What there is to name instead of a field that was not seen, for a message."""
        if field not in self._keys:
            return ""
        return f"; its JSON holds {', '.join(sorted(self._keys[field])) or 'no object'}"

    @staticmethod
    def _holds(part: Part, values: pa.ChunkedArray, *, alone: bool) -> bool:
        if not len(values):
            return True
        return values.null_count < len(values) if alone else part.keys[0] in _keys_of(part)


def _keys_of(part: Part) -> list[str]:
    array = array_of(part.values)
    return keys_of_json(decoded(array)[0] if not pa.types.is_null(array.type) else array)


def names_of(path: ColumnPath) -> list[str]:
    """The columns that a mapping names: one, or the parts of a composite."""
    return [path] if isinstance(path, str) else path


def name_of(paths: Paths) -> str:
    """The columns of a field, for messages."""
    return ", ".join(map(str, paths))


def resolve_columns(entry: SourceSettings, schema: pa.Schema, where: Where) -> dict[str, Paths]:
    """Chunk field -> its places in the data, the parts of a composite in order; a default that lacks is left out.

    Raises AuditInputError where a required or a mapped column lacks, or two columns have the name.
    """
    found: dict[str, Paths] = {}
    for field in CHUNK_COLUMNS:
        named = entry.columns.get(field, field)
        if named is None:
            continue
        paths: list[FieldPath] = []
        for name in names_of(named):
            path = find_field(schema, name)
            if path is not None:
                if schema.names.count(path.column) > 1:
                    raise AuditInputError(
                        f"{where}: {schema.names.count(path.column)} columns are called {path.column!r}, so {field} is "
                        f"not decided: rename one, or name another column under columns: {{{field}: ...}}"
                    )
                paths.append(path)
            elif field in REQUIRED or field in entry.columns:
                raise missing_column(field, name, schema, where)
        if len(paths) == len(names_of(named)):
            found[field] = tuple(paths)
    return found


def missing_column(field: str, name: str, schema: pa.Schema, where: Where) -> AuditInputError:
    """The error for a column that the data lacks, with what it holds instead."""
    spelt, present = spelt_path(name), schema.names
    told = f"{where}: no column {name!r} for {field}"
    if spelt.column in present:
        kind = schema.field(spelt.column).type
        if pa.types.is_struct(kind):
            inner = ", ".join(kind.field(i).name for i in range(kind.num_fields)) or "no fields"
            return AuditInputError(f"{told}; {spelt.column!r} holds {inner}: correct columns: {{{field}: ...}}")
        wanted = "strings of JSON" if spelt.keys else "a struct"
        return AuditInputError(
            f"{told}; {spelt.column!r} is of type {kind}, not {wanted}: correct columns: {{{field}: ...}}"
        )
    close = difflib.get_close_matches(name, present, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    remedy = f"name it under columns: {{{field}: ...}}"
    return AuditInputError(f"{told}; {hint}columns are {', '.join(present) or '(none)'}: {remedy}")


def to_raw(
    fields: Mapping[str, Sequence[Part]],
    names: dict[str, str],
    rows: np.ndarray,
    entry: SourceSettings,
    where: Where,
    days: Days,
) -> pa.Table:
    """The RAW table of one block of a file: each chunk field cast, dates and sources filled by the entry's rules.

    ``fields`` holds the parts of the chunk fields that the data has (one, or several of a composite), ``names`` their
    columns' names for messages, ``rows`` (n,) the rows' ordinals in the file. Rows of other sources than the entry's
    are still there. Raises AuditInputError for a type that cannot be used.
    """
    n = len(rows)
    problem: list[tuple[str, np.ndarray, str]] = []  # reason, (n,) bool, detail
    columns: dict[str, pa.Array] = {}
    for field in ("chunk_id", "text", "source", "doc_id", "heading"):
        if field in fields:
            columns[field], invalid = _whole_string(fields[field], field, names[field], where)
            if invalid.any():
                problem.append((INVALID_UTF8, invalid, f"column {names[field]!r} is not valid UTF-8"))
        else:
            columns[field] = pa.nulls(n, pa.string())
    columns["position"] = (
        to_position(_one_part(fields["position"], "position", names, where), names["position"], where)
        if "position" in fields
        else pa.nulls(n, pa.int32())
    )
    if "ingestion_date" in fields:
        dates = _one_part(fields["ingestion_date"], "ingestion_date", names, where)
        columns["ingestion_date"], bad = to_date(dates, names["ingestion_date"], where, days.zone)
        if entry.ingestion_date is not None:
            null = columns["ingestion_date"].is_null().to_numpy(zero_copy_only=False) & ~bad
            day = pa.scalar(entry.ingestion_date, pa.date32())
            columns["ingestion_date"] = pc.if_else(pa.array(null), day, columns["ingestion_date"])
        else:
            bad = columns["ingestion_date"].is_null().to_numpy(zero_copy_only=False)
        if bad.any():
            name = names["ingestion_date"]
            either = are_ambiguous(dates, bad)
            problem.append((BAD_DATE, either, f"column {name!r} does not show which part is the month: {_WRITTEN}"))
            problem.append((BAD_DATE, bad, f"column {name!r} holds no date"))
    else:
        columns["ingestion_date"] = pa.repeat(pa.scalar(entry.ingestion_date or days.own, pa.date32()), n)
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


def _one_part(parts: Sequence[Part], field: str, names: dict[str, str], where: Where) -> pa.Array:
    array = array_of(parts[0].values)
    if not parts[0].keys:
        return array
    return json_values(to_string(array, field, names[field], where)[0], parts[0].keys)


def _whole_string(parts: Sequence[Part], field: str, name: str, where: Where) -> tuple[pa.Array, np.ndarray]:
    """(strings, rows that are not valid UTF-8) of one column, or of a composite's parts joined as in the table."""
    arrays, not_valid = [], np.zeros(len(parts[0].values), dtype=bool)
    for part in parts:
        array, invalid = to_string(array_of(part.values), field, name, where)
        arrays.append(json_values(array, part.keys) if part.keys else array)
        not_valid |= invalid
    return (arrays[0] if len(arrays) == 1 else joined(arrays)), not_valid
