"""The rows of a table as chunks: fields cast, ids and batches made up where it has none. Reading is in reading.py."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.batches import Grain, batch_keys
from audit_pipeline.corpus.dates import UTC
from audit_pipeline.corpus.paths import FieldPath, as_strings, joined
from audit_pipeline.corpus.text import count_words, sha256_hex
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.columns import ColumnPaths, content_ids, date_of, integer_of, text_of
from audit_pipeline.index.paths import refuse_lost_keys
from audit_pipeline.index.snapshot import UnreadDates

Derive = Callable[[pa.Table], pa.Array]


@dataclass(frozen=True)
class Naming:
    """What stands in for fields that a table lacks.

    ``source`` is one name for all rows, or one a row; ``undated`` the batch date of rows without a date; ``prefix``
    is put before the ids, where rows of several tables stand together; in the ``zone`` times fall on their day.
    """

    source: str | pa.Array
    undated: dt.date
    grain: Grain
    prefix: pa.Array | None = None
    zone: ZoneInfo = UTC


def chunk_rows(
    columns: pa.Table, paths: ColumnPaths, naming: Naming, derived: Mapping[str, Derive]
) -> tuple[pa.Table, UnreadDates | None, int]:
    """(rows with the fields of ``schemas.CHUNKS`` and those that a template may name, dates not understood, rows whose
    id is null although the table has ids).

    Fields the table lacks are null, or made up as ``naming`` says; rows without an id get one from their text.
    """
    n = columns.num_rows
    fields: dict[str, pa.Array] = {}
    for field in ("chunk_id", "text", "source", "doc_id", "heading"):
        found = paths.fields.get(field)
        fields[field] = pa.nulls(n, pa.string()) if found is None else text_of(columns, found, field)
        if found is not None and field in paths.named:
            for path in found:
                if isinstance(path, FieldPath) and path.keys:
                    refuse_lost_keys(path, columns, as_strings(path.values(columns)), field)
    fields["text"] = fields["text"].fill_null("")
    nameless = fields["chunk_id"].null_count if "chunk_id" in paths.fields else 0
    if fields["chunk_id"].null_count:
        fields["chunk_id"] = pc.coalesce(fields["chunk_id"], content_ids(fields["text"]))
    if naming.prefix is not None:
        fields["chunk_id"] = joined([naming.prefix, fields["chunk_id"]])
    if "source" not in paths.fields:
        whole = isinstance(naming.source, str)
        fields["source"] = pa.repeat(pa.scalar(naming.source, pa.string()), n) if whole else naming.source
    date, position = paths.fields.get("ingestion_date"), paths.fields.get("position")
    unread = None
    fields["ingestion_date"] = pa.nulls(n, pa.date32())
    if date is not None:
        fields["ingestion_date"], lost = date_of(columns, date[0], naming.zone)
        if lost.any():
            examples = pc.unique(as_strings(date[0].values(columns)).filter(pa.array(lost))).sort().slice(0, 3)
            unread = UnreadDates(str(date[0]), int(lost.sum()), n, tuple(examples.to_pylist()))
    fields["position"] = pa.nulls(n, pa.int32())
    if position is not None:
        try:
            fields["position"] = integer_of(columns, position[0])
        except AuditInputError:
            # A column that only happens to have the default name holds no positions.
            if "position" in paths.named:
                raise
    fields["batch"] = batch_keys(
        fields["source"], fields["ingestion_date"].fill_null(pa.scalar(naming.undated, pa.date32())), naming.grain
    )
    fields["text_sha256"] = sha256_hex(fields["text"])
    fields["n_words"] = count_words(fields["text"])
    fields["n_tokens"] = pa.nulls(n, pa.int32())
    rows = pa.table([fields[field.name] for field in schemas.CHUNKS], schema=schemas.CHUNKS)
    for name, path in paths.further.items():
        rows = rows.append_column(name, as_strings(path.values(columns)))
    for name, derive in derived.items():
        if name not in rows.column_names:
            rows = rows.append_column(name, derive(columns))
    return rows, unread, nameless
