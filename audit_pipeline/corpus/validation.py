"""Which rows of the source store become chunks and which are rejected, and why. Reading them is in readers.py."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import one_array
from audit_pipeline.corpus.batches import Grain, batch_keys
from audit_pipeline.corpus.reasons import (
    BEFORE_START,
    DATE_OUT_OF_RANGE,
    DUPLICATE_ROW,
    EMPTY_TEXT,
    ID_COLLISION,
    MISSING_ID,
    MISSING_TEXT,
    NOT_YET,
    OWNED_BY,
    REASONS,
)
from audit_pipeline.corpus.text import count_words, is_blank, sha256_hex
from audit_pipeline.schemas import CHUNKS, REJECTED_CHUNKS

DAYS_AHEAD = 7
"""A date so far after today is awaited: of a load for tomorrow, of another time zone. A later one is a wrong date."""


@dataclass(frozen=True)
class Validated:
    """``chunks`` (schemas.CHUNKS, n_tokens null) sorted by batch and id; ``rejected`` (schemas.REJECTED_CHUNKS)."""

    chunks: pa.Table
    rejected: pa.Table


def validate(raw: pa.Table, *, grain: Grain, today: dt.date, start_date: dt.date | None = None) -> Validated:
    """The chunks and the rejected rows of a RAW table (see columns.py) that holds the whole store.

    An id that stands on several rows stays with the earliest by (ingestion_date, source, content), so that the order
    of rows and files does not matter. Rejected rows keep their batch where source and date are usable. Raises
    AuditInputError where two sources share a slug.
    """
    raw = raw.combine_chunks() if raw.num_rows == 0 else raw
    dates, sources = one_array(raw["ingestion_date"]), one_array(raw["source"])
    out_of_range = pc.fill_null(pc.greater(dates, pa.scalar(today, pa.date32())), False)
    if start_date is not None:
        out_of_range = pc.or_(out_of_range, pc.fill_null(pc.less(dates, pa.scalar(start_date, pa.date32())), False))
    batches = batch_keys(sources, pc.if_else(out_of_range, pa.scalar(None, pa.date32()), dates), grain)
    raw = raw.append_column("batch", batches)
    reasons = _row_reasons(raw, out_of_range, today, start_date)
    good = pc.is_null(reasons.field(0))
    rejected = [_rejected(raw, reasons, pc.invert(good))]
    kept = raw.filter(good)
    kept = kept.append_column("text_sha256", sha256_hex(kept["text"]))
    repeats = _repeat_reasons(kept)
    if repeats is not None:
        unique = pc.is_null(repeats.field(0))
        rejected.append(_rejected(kept, repeats, pc.invert(unique)))
        kept = kept.filter(unique)
    kept = kept.sort_by([("batch", "ascending"), ("chunk_id", "ascending")])
    kept = kept.append_column("n_words", count_words(kept["text"]))
    kept = kept.append_column("n_tokens", pa.nulls(len(kept), pa.int32()))
    order = [("batch", "ascending"), ("origin", "ascending"), ("row", "ascending")]
    lost = pa.concat_tables(rejected).sort_by(order)
    unknown = set(pc.unique(lost["reason"]).to_pylist()) - REASONS
    if unknown:
        raise ValueError(f"rows rejected for what is no reason: {sorted(unknown)}")
    return Validated(kept.select(CHUNKS.names).cast(CHUNKS), lost)


def _row_reasons(raw: pa.Table, out_of_range: pa.Array, today: dt.date, start_date: dt.date | None) -> pa.StructArray:
    """(reason, detail) of each row by itself, null where it is good. The first test that holds names the row."""
    problem, detail = one_array(raw["problem"]), one_array(raw["detail"])
    ids, texts = one_array(raw["chunk_id"]), raw["text"]
    tests: list[tuple[str, pa.Array, str]] = [
        (DATE_OUT_OF_RANGE, out_of_range, f"the date is after today, {today.isoformat()}"),
        (MISSING_ID, pc.fill_null(is_blank(ids), True), "the id is null or empty"),
        (MISSING_TEXT, one_array(texts.is_null()), "the text is null"),
        (EMPTY_TEXT, pc.fill_null(is_blank(texts), False), "the text is empty or white space only"),
    ]
    for code, holds, message in reversed(tests):
        mask = pc.and_(holds, pc.is_null(problem)) if code != DATE_OUT_OF_RANGE else holds
        detail = pc.if_else(mask, pa.scalar(message, pa.string()), detail)
        problem = pc.if_else(mask, pa.scalar(code, pa.string()), problem)
    dates = one_array(raw["ingestion_date"])
    last = today + dt.timedelta(days=DAYS_AHEAD)
    soon = pc.fill_null(pc.and_(out_of_range, pc.and_(pc.greater(dates, today), pc.less_equal(dates, last))), False)
    waits = pc.binary_join_element_wise(
        "dated ", pc.cast(dates, pa.string()), f", after today, {today.isoformat()}", ""
    )
    detail = pc.if_else(soon, waits, detail)
    problem = pc.if_else(soon, pa.scalar(NOT_YET), problem)
    if start_date is not None:
        early = pc.fill_null(pc.less(dates, pa.scalar(start_date, pa.date32())), False)
        detail = pc.if_else(early, pa.scalar(f"the date is before start_date, {start_date.isoformat()}"), detail)
        problem = pc.if_else(early, pa.scalar(BEFORE_START), problem)
    return pa.StructArray.from_arrays([problem, detail], ["reason", "detail"])


def _repeat_reasons(kept: pa.Table) -> pa.StructArray | None:
    """(reason, detail) of rows whose id an earlier row holds; None where every id is unique."""
    ids = one_array(kept["chunk_id"])
    counts = ids.value_counts()
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated) == 0:
        return None
    ordinals = np.flatnonzero(pc.is_in(ids, value_set=repeated).to_numpy(zero_copy_only=False))
    some = kept.select(
        [
            "chunk_id",
            "ingestion_date",
            "source",
            "text_sha256",
            "doc_id",
            "heading",
            "position",
            "origin",
            "row",
            "batch",
        ]
    ).take(pa.array(ordinals))
    some = some.append_column("ordinal", pa.array(ordinals)).sort_by(
        [(name, "ascending") for name in some.column_names[:9]]
    )
    sorted_ids = one_array(some["chunk_id"]).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.concatenate([[True], sorted_ids[1:] != sorted_ids[:-1]]))
    owner = np.repeat(starts, np.diff(np.append(starts, len(sorted_ids))))
    later = owner != np.arange(len(owner))
    owners = some.take(pa.array(owner))
    same = {
        name: _equal(one_array(some[name]), one_array(owners[name]))
        for name in ("batch", "text_sha256", "doc_id", "heading", "position")
    }
    same_row = np.logical_and.reduce(list(same.values()))
    with_text = np.where(same["text_sha256"], "the same text", "another text")
    detail = pc.if_else(
        pa.array(same_row),
        pa.scalar("the same row stands in this batch already"),
        pc.binary_join_element_wise(OWNED_BY, one_array(owners["batch"]), " with ", pa.array(with_text), ""),
    )
    reason = pc.if_else(pa.array(same_row), pa.scalar(DUPLICATE_ROW), pa.scalar(ID_COLLISION))
    position = np.full(len(kept), -1, dtype=np.int64)
    position[some["ordinal"].to_numpy()[later]] = np.flatnonzero(later)
    where = pa.array(position, mask=position < 0)
    return pa.StructArray.from_arrays([reason.take(where), detail.take(where)], ["reason", "detail"])


def _equal(left: pa.Array, right: pa.Array) -> np.ndarray:
    both_null = pc.and_(left.is_null(), right.is_null())
    return pc.or_(pc.fill_null(pc.equal(left, right), False), both_null).to_numpy(zero_copy_only=False)


def _rejected(rows: pa.Table, reasons: pa.StructArray, which: pa.Array) -> pa.Table:
    table = rows.drop_columns(["detail"]).append_column("reason", reasons.field(0))
    table = table.append_column("detail", reasons.field(1)).filter(which)
    return table.select(REJECTED_CHUNKS.names).cast(REJECTED_CHUNKS)
