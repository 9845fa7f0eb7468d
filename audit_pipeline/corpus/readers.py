"""Tabular sources as RAW tables, file by file: parquet and csv. Other formats have readers of their own."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator

import pyarrow as pa

from audit_pipeline.corpus.blocks import block_of, top_columns
from audit_pipeline.corpus.columns import Seen, Where, resolve_columns
from audit_pipeline.corpus.file_systems import hidden
from audit_pipeline.corpus.files import SourceFile
from audit_pipeline.corpus.json_lines import read_json_lines
from audit_pipeline.corpus.markdown_files import read_markdown
from audit_pipeline.errors import AuditInputError, reason_of
from audit_pipeline.source_settings import SourceSettings

_BLOCK_ROWS = 65_536
_CSV_BLOCK_BYTES = 1 << 24


def read_file(entry: SourceSettings, file: SourceFile, seen: Seen) -> Iterator[pa.Table]:
    """All rows of the file as RAW tables of at most 65,536 rows or 16 MiB, in file order.

    ``seen`` is told which chunk fields the file has: jsonl may leave out what is null, and a JSON string may lack a
    key, so only the caller can tell whether a mapped column exists at all. Columns that lack, types that cannot be
    used and damaged files raise AuditInputError.
    """
    where = Where(entry.name, file.origin)
    read = {"parquet": _read_parquet, "jsonl": read_json_lines, "csv": _read_csv, "markdown": read_markdown}[
        entry.format
    ]
    try:
        yield from read(entry, file, where, seen)
    except UnicodeDecodeError as error:
        raise AuditInputError(f"{where}: the names of its columns are not UTF-8: write the file as UTF-8") from error
    except (OSError, EOFError, pa.ArrowException) as error:
        told = hidden(reason_of(error), entry.storage_options)
        raise AuditInputError(f"{where}: cannot be read as {entry.format} ({told}): mend or remove it") from error


def with_folders(schema: pa.Schema, file: SourceFile) -> pa.Schema:
    """The file's columns and those that its key=value folders add."""
    return pa.schema([*schema, *(pa.field(key, pa.string()) for key in file.hive if key not in schema.names)])


def _read_parquet(entry: SourceSettings, file: SourceFile, where: Where, seen: Seen) -> Iterator[pa.Table]:
    import pyarrow.parquet as pq

    with file.filesystem.open_input_file(file.path) as handle:
        parquet = pq.ParquetFile(handle)
        schema = parquet.schema_arrow
        paths = resolve_columns(entry, with_folders(schema, file), where)
        top = sorted(top_columns(paths) & set(schema.names))
        row = 0
        for batch in parquet.iter_batches(batch_size=_BLOCK_ROWS, columns=top):
            yield block_of(pa.table(batch), paths, row, entry, where, seen, file.days, file.hive)
            row += len(batch)


def _read_csv(entry: SourceSettings, file: SourceFile, where: Where, seen: Seen) -> Iterator[pa.Table]:
    from pyarrow import csv

    if file.size == 0 or _is_blank(file):
        return
    delimiter = "\t" if ".tsv" in file.path.lower() else ","
    _refuse_misread(file, where, delimiter)
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    # Read by one thread, Arrow names the row that it cannot read.
    read = csv.ReadOptions(block_size=_CSV_BLOCK_BYTES, use_threads=False)
    with file.open_stream() as stream:
        names = csv.open_csv(stream, parse_options=parse, read_options=read).schema.names
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    paths = resolve_columns(entry, with_folders(schema, file), where)
    top = sorted(top_columns(paths) & set(names))
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
            yield block_of(pa.table(batch), paths, row, entry, where, seen, file.days, file.hive)
            row += len(batch)


def _refuse_misread(file: SourceFile, where: Where, delimiter: str) -> None:
    """Raise AuditInputError for what Arrow reads without a word: UTF-16, and a quote that nothing closes, which takes
    all rows after it into one value.
    """
    import csv

    quotes = 0
    with file.open_stream() as stream:
        start = stream.read(1 << 16)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise AuditInputError(f"{where}: the file is UTF-16: write it as UTF-8")
        while start:
            quotes += start.count(b'"')
            start = stream.read(1 << 20)
    if quotes % 2 == 0:
        return
    longest = csv.field_size_limit(1 << 40)
    try:
        with file.open_stream() as stream:
            text = io.TextIOWrapper(io.BufferedReader(stream), encoding="latin-1", newline="")
            for _ in csv.reader(text, delimiter=delimiter, strict=True):
                pass
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise AuditInputError(
                f"{where}: a quote is opened and never closed: mend the row that it stands in"
            ) from error
    finally:
        csv.field_size_limit(longest)


def _is_blank(file: SourceFile) -> bool:
    """Whether there is nothing but white space, compressed or not."""
    with file.open_stream() as stream:
        while part := stream.read(1 << 16):
            if part.strip():
                return False
    return True
