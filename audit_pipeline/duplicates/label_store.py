"""The file of labels that people fill and audits read: the same rows as Parquet, CSV or JSON Lines. No rule here."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from audit_pipeline.duplicates.label_files import Row, read_rows, write_rows, write_text
from audit_pipeline.duplicates.label_import import COLUMNS
from audit_pipeline.errors import AuditInputError
from audit_pipeline.state import replacing

SUFFIXES = (".parquet", ".csv", ".jsonl")


def read_labels(path: Path) -> list[Row]:
    """The rows of a labels file. Raises AuditInputError for one that cannot be read or is none."""
    if path.suffix not in SUFFIXES:
        raise AuditInputError(f"{path}: labels are kept as .parquet, .csv or .jsonl: name such a file")
    return read_rows(path)


def write_labels(path: Path, labels: Sequence[Row]) -> None:
    """Write the labels as labels.pairs reads them; a file that already holds them is left alone.

    Raises AuditInputError for a name that is no labels file.
    """
    if path.suffix not in SUFFIXES:
        raise AuditInputError(f"{path}: labels are kept as .parquet, .csv or .jsonl: name such a file")
    names = [*COLUMNS, *sorted({name for row in labels for name in row} - set(COLUMNS))]
    if path.suffix == ".parquet":
        _write_parquet(path, labels, names)
        return
    text = write_rows(labels, names, "csv" if path.suffix == ".csv" else "jsonl", None)
    if not path.exists() or path.read_bytes() != text.encode("utf-8"):
        write_text(path, text)


def _write_parquet(path: Path, labels: Sequence[Row], names: list[str]) -> None:
    import pyarrow.parquet as pq

    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    table = pa.Table.from_pylist([{name: row.get(name, "") for name in names} for row in labels], schema=schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    if path.exists() and path.read_bytes() == buffer.getvalue():
        return
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getvalue())
