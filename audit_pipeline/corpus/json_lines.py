"""JSON lines as RAW tables. Files of columns are in readers.py, what becomes of the values in columns.py."""

from __future__ import annotations

import codecs
import io
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.column_settings import CHUNK_COLUMNS
from audit_pipeline.corpus.casts import Where
from audit_pipeline.corpus.columns import REQUIRED, Part, Seen, missing_column, names_of, to_raw
from audit_pipeline.corpus.files import SourceFile
from audit_pipeline.corpus.paths import spelt_path
from audit_pipeline.corpus.reasons import INVALID_UTF8
from audit_pipeline.errors import AuditInputError
from audit_pipeline.source_settings import SourceSettings

_LINES_AT_ONCE = 65_536
_BYTES_AT_ONCE = 1 << 24  # vectors that stand in the lines are ten times as large once they are Python's floats
_LONGEST_LINE = 1 << 28  # no row is as long; a line without an end would be read whole


def read_json_lines(entry: SourceSettings, file: SourceFile, where: Where, seen: Seen) -> Iterator[pa.Table]:
    """Line by line with the json module: Arrow's reader turns texts that look like times into times, and gives up
    on a file that holds both 7 and "7" as ids or one bad byte.
    """
    blocks: list[tuple[np.ndarray, dict[str, list[Part]], np.ndarray]] = []
    present: dict[str, None] = dict.fromkeys(file.hive)
    wanted = {field: named for field in CHUNK_COLUMNS if (named := entry.columns.get(field, field)) is not None}
    reached: set[str] = set()
    with file.open_stream() as stream:
        lines = io.BufferedReader(stream, buffer_size=1 << 20)
        for block in _json_blocks(lines, where):
            rows = np.array([row for row, _, _ in block], dtype=np.int64)
            invalid = np.array([bad for _, _, bad in block], dtype=bool)
            records = [record for _, record, _ in block]
            for record in records:
                present.update(dict.fromkeys(record))
            fields: dict[str, list[Part]] = {}
            for field, named in wanted.items():
                fields[field] = []
                for name in names_of(named):
                    values, lone = _json_column(records, name, file, field, where, reached)
                    fields[field].append(Part(values, () if name in present else spelt_path(name).keys))
                    invalid |= lone
            blocks.append((rows, fields, invalid))
    if not blocks:
        return
    # A line may leave out what is null, so an optional column that no line of this file has is no error.
    known = {
        field: name
        for field, name in wanted.items()
        if field in REQUIRED or all(part in present or spelt_path(part).column in present for part in names_of(name))
    }
    for field in REQUIRED:
        for name in names_of(known[field]):
            if name not in present and spelt_path(name).column not in present:
                raise missing_column(field, name, pa.schema([(key, pa.string()) for key in present]), where)
    names = {field: ", ".join(names_of(named)) for field, named in known.items()}
    for rows, fields, invalid in blocks:
        table = to_raw({field: fields[field] for field in known}, names, rows, entry, where, file.days)
        found = {field: fields[field] for field, named in known.items() if set(names_of(named)) <= reached}
        seen.note(found, table)
        if invalid.any():
            bad = pc.is_in(table["row"], value_set=pa.array(rows[invalid]))
            table = _mark_invalid_utf8(table, bad)
        yield table


def _mark_invalid_utf8(table: pa.Table, bad: pa.ChunkedArray) -> pa.Table:
    for name, value in (("problem", INVALID_UTF8), ("detail", "the line is not valid UTF-8")):
        marked = pc.if_else(bad, pa.scalar(value, pa.string()), table[name])
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), marked)
    return table


def _json_blocks(lines: Any, where: Where) -> Iterator[list[tuple[int, dict[str, Any], bool]]]:
    """(line number from 0, record, holds invalid UTF-8) in blocks; blank lines are passed over."""
    block: list[tuple[int, dict[str, Any], bool]] = []
    size = 0
    for row, line in enumerate(iter(lambda: lines.readline(_LONGEST_LINE + 1), b"")):
        if row == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")
            _refuse_other_forms(line, where)
        if len(line) > _LONGEST_LINE:
            raise AuditInputError(
                f"{where}: line {row + 1} is longer than {_LONGEST_LINE >> 20} MiB: write one object a line"
            )
        if not line.strip():
            continue
        invalid = False
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text, invalid = line.decode("utf-8", "replace"), True
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise AuditInputError(f"{where}: line {row + 1} is not JSON ({error}): mend or remove it") from error
        if not isinstance(record, dict):
            raise AuditInputError(f"{where}: line {row + 1} is not a JSON object: write one object a line")
        block.append((row, record, invalid))
        size += len(line)
        if len(block) == _LINES_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield block
            block, size = [], 0
    if block:
        yield block


def _refuse_other_forms(first: bytes, where: Where) -> None:
    """Raise AuditInputError where the first line shows that the file is no UTF-8 or one JSON value over many lines."""
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise AuditInputError(f"{where}: the file is UTF-16: write it as UTF-8")
    start = first.strip()
    if start[:1] == b"[" or start == b"{":
        kind = "array" if start[:1] == b"[" else "object"
        raise AuditInputError(
            f"{where}: the file is one JSON {kind}, not lines of objects: write one object a line (jq -c)"
        )


def _json_column(
    records: list[dict[str, Any]], name: str, file: SourceFile, field: str, where: Where, reached: set[str]
) -> tuple[pa.Array, np.ndarray]:
    """(strings, rows with a lone surrogate) of one column; numbers as JSON writes them.

    Of a path into a JSON string these are the strings. A name that some record holds is added to ``reached``.
    """
    default = file.hive.get(name)
    inner = spelt_path(name).parts
    values: list[str | None] = []
    for record in records:
        if name in record or name in file.hive:
            found, value = True, record.get(name, default)
        else:
            found, value = _within(record, inner, file)
        if found:
            reached.add(name)
        if value is None or isinstance(value, str):
            values.append(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            values.append(str(value))
        elif isinstance(value, float):
            # Python's json writes a gap of pandas as NaN.
            values.append(None if math.isnan(value) else str(int(value)) if value.is_integer() else str(value))
        else:
            kind = {"dict": "object", "list": "array", "bool": "boolean"}.get(type(value).__name__, "value")
            wanted = "a string of JSON (a dot without $ goes into an object)" if spelt_path(name).keys else "a string"
            raise AuditInputError(
                f"{where}: column {name!r} for {field} holds a JSON {kind}, expected {wanted}: "
                f"convert it, or name another column under columns: {{{field}: ...}}"
            )
    lone = np.zeros(len(values), dtype=bool)
    try:
        return pa.array(values, pa.string()), lone
    except UnicodeEncodeError:
        for ordinal, value in enumerate(values):
            if value is not None and not _encodes(value):
                lone[ordinal] = True
                values[ordinal] = value.encode("utf-8", "replace").decode("utf-8")
        return pa.array(values, pa.string()), lone


def _within(record: dict[str, Any], parts: tuple[str, ...], file: SourceFile) -> tuple[bool, Any]:
    """(whether the record holds the place, its value)."""
    value: Any = record
    for depth, part in enumerate(parts):
        if depth == 0 and part not in record and part in file.hive:
            value = file.hive[part]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return False, None
    return True, value


def _encodes(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
