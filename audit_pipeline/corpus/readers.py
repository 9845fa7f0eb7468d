"""Tabular sources (parquet, jsonl, csv) as RAW tables, file by file. Docstrings have a reader of their own."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import CHUNK_COLUMNS, SourceSettings
from audit_pipeline.corpus.columns import REQUIRED, Where, resolve_columns, to_raw
from audit_pipeline.corpus.files import SourceFile
from audit_pipeline.errors import AuditInputError

_BLOCK_ROWS = 65_536
_CSV_BLOCK_BYTES = 1 << 24


def read_file(entry: SourceSettings, file: SourceFile, seen: set[str]) -> Iterator[pa.Table]:
    """All rows of the file as RAW tables of at most 65,536 rows or 16 MiB, in file order.

    The chunk fields that the file has are added to ``seen``: jsonl may leave out what is null, so only the caller can
    tell whether a mapped column exists at all. Columns that lack, types that cannot be used and damaged files raise
    AuditInputError.
    """
    where = Where(entry.name, file.origin)
    read = {"parquet": _read_parquet, "jsonl": _read_jsonl, "csv": _read_csv}[entry.format]
    try:
        yield from read(entry, file, where, seen)
    except (OSError, EOFError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise AuditInputError(f"{where}: cannot be read as {entry.format} ({reason}): mend or remove it") from error


def _read_parquet(entry: SourceSettings, file: SourceFile, where: Where, seen: set[str]) -> Iterator[pa.Table]:
    import pyarrow.parquet as pq

    with file.filesystem.open_input_file(file.path) as handle:
        parquet = pq.ParquetFile(handle)
        present = [*parquet.schema_arrow.names, *(key for key in file.hive if key not in parquet.schema_arrow.names)]
        paths = resolve_columns(entry, present, where)
        seen.update(paths)
        top = sorted({path[0] for path in paths.values()} & set(parquet.schema_arrow.names))
        row = 0
        for batch in parquet.iter_batches(batch_size=_BLOCK_ROWS, columns=top):
            yield _block(pa.table(batch), paths, row, entry, file, where)
            row += len(batch)


def _read_csv(entry: SourceSettings, file: SourceFile, where: Where, seen: set[str]) -> Iterator[pa.Table]:
    from pyarrow import csv

    if file.size == 0:
        return
    delimiter = "\t" if ".tsv" in file.path.lower() else ","
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    read = csv.ReadOptions(block_size=_CSV_BLOCK_BYTES)
    with file.open_stream() as stream:
        names = csv.open_csv(stream, parse_options=parse, read_options=read).schema.names
    present = [*names, *(key for key in file.hive if key not in names)]
    paths = resolve_columns(entry, present, where)
    seen.update(paths)
    top = sorted({path[0] for path in paths.values()} & set(names))
    # Bytes, so that one bad byte costs one row and not the file, and "007" stays an id.
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(top, pa.binary()),
        include_columns=top,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        check_utf8=False,
    )
    row = 0
    with file.open_stream() as stream:
        for batch in csv.open_csv(stream, parse_options=parse, read_options=read, convert_options=convert):
            yield _block(pa.table(batch), paths, row, entry, file, where)
            row += len(batch)


def _read_jsonl(entry: SourceSettings, file: SourceFile, where: Where, seen: set[str]) -> Iterator[pa.Table]:
    """Line by line with the json module: Arrow's reader turns texts that look like times into times, and gives up
    on a file that holds both 7 and "7" as ids or one bad byte.
    """
    blocks: list[tuple[np.ndarray, dict[str, pa.Array], np.ndarray]] = []
    present: dict[str, None] = dict.fromkeys(file.hive)
    wanted = {field: entry.columns.get(field, field) for field in CHUNK_COLUMNS}
    with file.open_stream() as stream:
        lines = io.BufferedReader(stream, buffer_size=1 << 20)
        for block in _json_blocks(lines, where):
            rows = np.array([row for row, _, _ in block], dtype=np.int64)
            invalid = np.array([bad for _, _, bad in block], dtype=bool)
            columns: dict[str, pa.Array] = {}
            for _, record, _ in block:
                present.update(dict.fromkeys(record))
            for field, name in wanted.items():
                columns[field], lone = _json_column([record for _, record, _ in block], name, file, field, where)
                invalid |= lone
            blocks.append((rows, columns, invalid))
    if not blocks:
        return
    # A line may leave out what is null, so an optional column that no line of this file has is no error.
    absent = [
        field
        for field, name in entry.columns.items()
        if field not in REQUIRED and name not in present and name.split(".")[0] not in present
    ]
    known = resolve_columns(_without(entry, absent), list(present), where)
    seen.update(known)
    names = {field: ".".join(path) for field, path in known.items()}
    for rows, columns, invalid in blocks:
        table = to_raw({field: columns[field] for field in known}, names, rows, entry, where, file.date)
        if invalid.any():
            bad = pc.is_in(table["row"], value_set=pa.array(rows[invalid]))
            table = _mark_invalid_utf8(table, bad)
        yield table


def _mark_invalid_utf8(table: pa.Table, bad: pa.ChunkedArray) -> pa.Table:
    for name, value in (("problem", "invalid_utf8"), ("detail", "the line is not valid UTF-8")):
        marked = pc.if_else(bad, pa.scalar(value, pa.string()), table[name])
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), marked)
    return table


def _without(entry: SourceSettings, fields: list[str]) -> SourceSettings:
    return entry.model_copy(update={"columns": {k: v for k, v in entry.columns.items() if k not in fields}})


def _json_blocks(lines: Any, where: Where) -> Iterator[list[tuple[int, dict[str, Any], bool]]]:
    """(line number from 0, record, holds invalid UTF-8) in blocks; blank lines are passed over."""
    block: list[tuple[int, dict[str, Any], bool]] = []
    for row, line in enumerate(lines):
        if row == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        invalid = False
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text, invalid = line.decode("utf-8", "replace"), True
        try:
            record = json.loads(text)
        except ValueError as error:
            raise AuditInputError(f"{where}: line {row + 1} is not JSON ({error}): mend or remove it") from error
        if not isinstance(record, dict):
            raise AuditInputError(f"{where}: line {row + 1} is not a JSON object: write one object a line")
        block.append((row, record, invalid))
        if len(block) == _BLOCK_ROWS:
            yield block
            block = []
    if block:
        yield block


def _json_column(
    records: list[dict[str, Any]], name: str, file: SourceFile, field: str, where: Where
) -> tuple[pa.Array, np.ndarray]:
    """(strings, rows with a lone surrogate) of one field; numbers as JSON writes them."""
    inner = name.split(".")
    default = file.hive.get(name)
    values: list[str | None] = []
    for record in records:
        value = record.get(name, default)
        if value is None and len(inner) > 1 and name not in record:
            value = record
            for part in inner:
                value = value.get(part) if isinstance(value, dict) else None
        if value is None or isinstance(value, str):
            values.append(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            values.append(str(int(value)) if float(value).is_integer() else str(value))
        else:
            kind = {"dict": "object", "list": "array", "bool": "boolean"}.get(type(value).__name__, "value")
            raise AuditInputError(
                f"{where}: column {name!r} for {field} holds a JSON {kind}, expected a string: "
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


def _encodes(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _block(
    table: pa.Table, paths: dict[str, list[str]], row: int, entry: SourceSettings, file: SourceFile, where: Where
) -> pa.Table:
    fields: dict[str, pa.Array | pa.ChunkedArray] = {}
    for field, path in paths.items():
        if path[0] in table.column_names:
            fields[field] = _struct_field(table[path[0]], path, field, where)
        else:
            fields[field] = pa.repeat(pa.scalar(file.hive[path[0]], pa.string()), len(table))
    names = {field: ".".join(path) for field, path in paths.items()}
    rows = np.arange(row, row + len(table), dtype=np.int64)
    return to_raw(fields, names, rows, entry, where, file.date)


def _struct_field(column: pa.ChunkedArray, path: list[str], field: str, where: Where) -> pa.Array | pa.ChunkedArray:
    values: Any = column
    for depth, part in enumerate(path[1:], start=1):
        inner = [values.type.field(i).name for i in range(values.type.num_fields)] if _is_struct(values.type) else []
        if part not in inner:
            raise AuditInputError(
                f"{where}: no column {'.'.join(path)!r} for {field}; {'.'.join(path[:depth])!r} holds "
                f"{', '.join(inner) or 'no fields'}: correct columns: {{{field}: ...}}"
            )
        values = pc.struct_field(values, part)
    return values


def _is_struct(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind)
