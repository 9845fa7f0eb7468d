"""Which column of an unknown table holds which field, guessed from names and values. Known layouts need no guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.column_settings import ColumnPath
from audit_pipeline.corpus.batches import slug
from audit_pipeline.corpus.dates import days_of, holds_dates
from audit_pipeline.corpus.paths import as_strings, is_text, joined
from audit_pipeline.index.vectors import is_vector_type
from audit_pipeline.plural import some

_TEXT = "text content chunk_text chunk page_content body passage document_text document code markdown".split()
_VECTOR = "vector embedding embeddings emb vec".split()
_ID = "chunk_id id _id uuid uid pk key node_id point_id".split()
_DATE = "ingestion_date ingested_at created_at createdAt created inserted_at loaded_at date timestamp".split()
_SOURCE = "source category collection namespace tenant tenant_id workspace dataset type".split()
_DOCUMENT = "doc_id document_id docId source_id file_path filepath filename file path url uri source title".split()
_HEADING = "heading title section header".split()
_POSITION = "position chunk_index chunk_idx chunk_number order index split_id seq".split()
_MOST_SOURCES = 50
_UNDERSTOOD = 0.9
_LONGEST_ID = 100  # characters on average


@dataclass
class Guesses:
    """The guessed place of each field, and what each guess rests on. None: the default name is not to be used."""

    columns: dict[str, ColumnPath | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, path: ColumnPath | None, reason: str) -> None:
        self.columns[name] = path
        self.reasons[name] = reason


def guess_columns(schema: pa.Schema, rows: pa.Table) -> Guesses:
    """Guesses for a table of this schema; ``rows`` are its columns without the vectors."""
    guesses = Guesses()
    vectors = [column.name for column in schema if is_vector_type(column.type)]
    if vectors:
        others = [name for name in vectors if name != _first(_VECTOR, vectors)]
        reason = "the only list of floats" if not others else f"lists of floats too: {', '.join(others)}"
        guesses.take("vector", _first(_VECTOR, vectors), reason)
    texts = [column.name for column in schema if is_text(column.type)]
    text = next((name for name in _TEXT if name in texts), None)
    if text is not None:
        guesses.take("text", text, "its name")
    elif texts:
        longest = max(texts, key=lambda name: (_mean_length(rows[name]), name))
        guesses.take("text", longest, f"the longest strings, {_mean_length(rows[longest]):.0f} characters on average")
    else:
        guesses.take("text", None, "there is no column of strings")
    scalars = [column.name for column in schema if _is_scalar(column.type) and column.name != guesses.columns["text"]]
    _guess_source_and_document(guesses, rows, scalars)
    position = next((n for n in _POSITION if n in scalars and pa.types.is_integer(schema.field(n).type)), None)
    if position is not None:
        guesses.take("position", position, "its name and whole numbers")
    heading = _first(_HEADING, [name for name in scalars if is_text(schema.field(name).type)], strict=True)
    if heading is not None:
        guesses.take("heading", heading, "its name")
    _guess_id(guesses, rows, scalars)
    _guess_date(guesses, rows, [column.name for column in schema if holds_dates(column.type)])
    return guesses


def _guess_id(guesses: Guesses, rows: pa.Table, scalars: Sequence[str]) -> None:
    n = rows.num_rows
    for name in _ID:
        if name in scalars and not rows[name].null_count and pc.count_distinct(rows[name]).as_py() == n:
            return guesses.take("chunk_id", name, "its name; every row has another value")
    document, position = guesses.columns.get("doc_id"), guesses.columns.get("position")
    if isinstance(document, str) and isinstance(position, str):
        parts = [as_strings(rows[name].combine_chunks()) for name in (document, position)]
        whole = joined(parts)
        if not whole.null_count and pc.count_distinct(whole).as_py() == n:
            return guesses.take("chunk_id", [document, position], "together they differ in every row")
    if "chunk_id" in rows.column_names:
        return guesses.take("chunk_id", "chunk_id", "its name, although values repeat or lack")
    others = [name for name in scalars if _may_be_an_id(name, rows[name])]
    if others:
        reason = (
            f"ids are made of the texts; name {some(others)} instead if its values stay when rows are written again"
        )
    else:
        reason = "no column differs in every row: ids are made of the texts"
    guesses.reasons["chunk_id"] = reason
    return None


def _guess_date(guesses: Guesses, rows: pa.Table, candidates: Sequence[str]) -> None:
    for name in (name for name in _DATE if name in candidates):
        understood = _dates_understood(rows[name])
        if understood:
            return guesses.take("ingestion_date", name, f"its name; {understood:,} dates understood")
    if "ingestion_date" in rows.column_names:
        return guesses.take("ingestion_date", None, "column 'ingestion_date' holds hardly any date")
    taken = guesses.columns.values()
    others = [name for name in candidates if name not in taken and _says_dates(rows[name])]
    if others:
        reason = f"all rows are one batch; name {some(others)} if its dates are those of ingestion"
    else:
        reason = "no column holds dates: all rows are one batch"
    guesses.reasons["ingestion_date"] = reason
    return None


def _dates_understood(column: pa.ChunkedArray) -> int:
    """How many values are days, 0 where too many of them are none."""
    array = column.combine_chunks()
    _, lost = days_of(array)
    there = len(array) - array.null_count
    understood = there - int(lost.sum())
    return understood if there and understood / there >= _UNDERSTOOD else 0


def _says_dates(column: pa.ChunkedArray) -> bool:
    """Whether a column of any name holds dates. A number may be one by chance, so digits alone say nothing."""
    kind = column.type
    if is_text(kind):
        return not pc.any(pc.utf8_is_digit(column)).as_py() and bool(_dates_understood(column))
    return (pa.types.is_date(kind) or pa.types.is_timestamp(kind)) and bool(_dates_understood(column))


def _guess_source_and_document(guesses: Guesses, rows: pa.Table, scalars: Sequence[str]) -> None:
    """A column with few values is the source; one with many, whatever its name, is the document."""
    for name in (name for name in _SOURCE if name in scalars):
        values = pc.unique(as_strings(rows[name].combine_chunks())).to_pylist()
        if len(values) <= min(_MOST_SOURCES, max(1, rows.num_rows // 4)) and len({*map(slug, values)}) == len(values):
            guesses.take("source", name, f"its name and {len(values):,} distinct values")
            break
    document = _first([name for name in _DOCUMENT if name != guesses.columns.get("source")], scalars, strict=True)
    if document is not None:
        guesses.take("doc_id", document, "its name")
    if "source" not in guesses.columns:
        if "source" in scalars:
            guesses.take("source", None, "column 'source' has too many values to be batches")
        else:
            guesses.reasons["source"] = "no column with few values: the table's name"


def _may_be_an_id(name: str, column: pa.ChunkedArray) -> bool:
    """It differs in every row; but so may a row's number, a path or a hash, which the next ingest may give anew."""
    if name in _DATE or name in _POSITION or column.null_count or pa.types.is_floating(column.type):
        return False
    if is_text(column.type) and _mean_length(column) > _LONGEST_ID:
        return False
    return int(pc.count_distinct(column).as_py()) == len(column)


def _is_scalar(kind: pa.DataType) -> bool:
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return is_text(kind) or numbers or pa.types.is_fixed_size_binary(kind)


def _first(wanted: Sequence[str], present: Sequence[str], *, strict: bool = False) -> str | None:
    found = next((name for name in wanted if name in present), None)
    return found if found is not None or strict or not present else present[0]


def _mean_length(column: pa.ChunkedArray) -> float:
    return float(pc.mean(pc.utf8_length(column.slice(0, 1000).cast(pa.string()))).as_py() or 0)
