"""Files of pairs to label and of labels, read and written as rows of strings. What a row means is decided elsewhere."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from audit_pipeline.duplicates import label_studio
from audit_pipeline.errors import AuditInputError, reason_of
from audit_pipeline.state import replacing

Format = Literal["csv", "jsonl", "label-studio"]
FORMATS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".json": "label-studio"}
Row = dict[str, str]
OVERFULL = "(more fields than columns)"
"""Key of what stands after the last column of a CSV row."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_SHOWN = ("text_a", "text_b", "reason")
_NEEDED = ("chunk_id_a", "chunk_id_b", "duplicate")


def read_rows(path: Path) -> list[Row]:
    """The rows of a filled-in queue or a labels file: CSV (comma, semicolon or tab), JSON Lines, Parquet, or Label
    Studio's JSON export. Values are stripped; empty ones are "". Raises AuditInputError.
    """
    readers = {
        **dict.fromkeys((".csv", ".tsv", ".txt"), lambda path: read_csv(path)[1]),
        ".jsonl": _jsonl,
        ".json": lambda path: label_studio.rows_of(_text(path), path),
        ".parquet": _parquet,
    }
    if path.suffix not in readers:
        raise AuditInputError(f"{path}: labels are read from .csv, .jsonl, .json (Label Studio) or .parquet: rename it")
    rows = readers[path.suffix](path)
    lacking = [name for name in _NEEDED if rows and not any(name in row for row in rows)]
    if lacking:
        raise AuditInputError(
            f"{path}: no column {lacking[0]!r} in it: keep the columns of the queue, {', '.join(_NEEDED)} at least"
        )
    return rows


def read_csv(path: Path) -> tuple[list[str], list[Row]]:
    """The columns of a CSV file (comma, semicolon or tab, whichever its header has most of) and its rows, stripped.

    A row with more fields than columns has the key OVERFULL, one with fewer lacks the last. Raises AuditInputError.
    """
    text = _text(path)
    if text[:4].lower() == "sep=":  # Excel's own hint
        text = text.partition("\n")[2]
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    csv.field_size_limit(2**31 - 1)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise AuditInputError(f"{path}: is no CSV ({reason_of(error)}): save it as 'CSV UTF-8' again") from error
    if not lines:
        raise AuditInputError(f"{path}: is empty, without even a header: save it as 'CSV UTF-8' again")
    names = [name.strip() for name in lines[0]]
    rows = []
    for values in lines[1:]:
        row = {name: value.strip() for name, value in zip(names, values, strict=False)}
        if any(value.strip() for value in values[len(names) :]):
            row[OVERFULL] = "yes"
        rows.append(row)
    return names, rows


def write_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], kind: Format, path: Path | None) -> str:
    """The rows as text of the format, written to ``path`` where there is one.

    A CSV file begins with a byte order mark and shows text that a spreadsheet would take for a formula behind an
    apostrophe; ids and hashes stay as they are. Beside tasks for Label Studio stands the labelling configuration.
    """
    if kind == "csv":
        text = _as_csv(rows, columns)
    elif kind == "jsonl":
        text = "".join(json.dumps({name: row.get(name) for name in columns}, ensure_ascii=False) + "\n" for row in rows)
    else:
        text = json.dumps(label_studio.tasks_of(rows, columns), ensure_ascii=False, indent=1) + "\n"
    if path is not None:
        write_text(path, ("\ufeff" if kind == "csv" else "") + text)
        if kind == "label-studio":
            write_text(path.with_suffix(".xml"), label_studio.CONFIG)
    return text


def write_text(path: Path, text: str) -> None:
    """Write the file whole or not at all. Raises AuditInputError where it cannot be written."""
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(text.encode("utf-8"))
    except OSError as error:
        raise AuditInputError(f"{path}: cannot be written ({error.strerror}): choose another file") from error


def _as_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = ["" if row.get(name) is None else str(row[name]) for name in columns]
        writer.writerow(
            "'" + value if name in _SHOWN and value.startswith(_FORMULA) else value
            for name, value in zip(columns, values, strict=True)
        )
    return buffer.getvalue()


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise AuditInputError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AuditInputError(f"{path}: is not UTF-8: save it as UTF-8 (in Excel: 'CSV UTF-8')") from error
    if "\0" in text:
        raise AuditInputError(f"{path}: holds NUL characters, as UTF-16 does: save it as UTF-8 (in Excel: 'CSV UTF-8')")
    return text


def _jsonl(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise AuditInputError(f"{path}: line {number} is not JSON: write one object a line") from error
        if not isinstance(row, dict):
            raise AuditInputError(f"{path}: line {number} is no object: write one object a line")
        rows.append({str(name): label_studio.plain(value) for name, value in row.items()})
    return rows


def _parquet(path: Path) -> list[Row]:
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
    except (OSError, ValueError) as error:
        raise AuditInputError(f"{path}: cannot be read ({reason_of(error)}): check the path and the file") from error
    return [{name: label_studio.plain(value) for name, value in row.items()} for row in table.to_pylist()]
