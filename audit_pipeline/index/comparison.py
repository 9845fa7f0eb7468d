"""Rows of the table against rows of the source store, as flags per batch. What is told of them is in row_findings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.arrays import among, one_array
from audit_pipeline.corpus.batches import cells_of
from audit_pipeline.corpus.reasons import ID_COLLISION
from audit_pipeline.index.placeholders import blank_texts, placeholder_rows
from audit_pipeline.index.snapshot import USABLE, VECTOR_STATES, WRONG_DIMENSION
from audit_pipeline.index.text_drift import drifts_of
from audit_pipeline.scopes import Cell


@dataclass(frozen=True)
class Flagged:
    """Rows with one fault: ``ids`` and ``batches`` (k,) strings, ``detail`` (k,) strings or None.

    ``amount`` (k,) int64 says how much of it there is, null where that cannot be said.
    """

    ids: pa.Array
    batches: pa.Array
    detail: pa.Array | None = None
    amount: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, kept: pa.Array) -> Flagged:
        detail = None if self.detail is None else self.detail.filter(kept)
        amount = None if self.amount is None else self.amount.filter(kept)
        return Flagged(self.ids.filter(kept), self.batches.filter(kept), detail, amount)


@dataclass(frozen=True)
class Comparison:
    """Faults of a set of table rows, and of the store rows that should be among them.

    ``compared`` says whether there was a store to compare ids and texts with. ``cells`` are all batches of both
    sides with their (raw source, period).
    """

    cells: dict[str, Cell]
    table_rows: dict[str, int]
    store_rows: dict[str, int]
    compared: bool
    missing: Flagged  # detail: not_in_table, or id_collision where their id holds another row's content
    collided: Flagged  # rejected for such an id, and not in the table
    orphans: Flagged
    duplicates: Flagged  # each repeated id once a batch
    invalid: Flagged  # detail: the vector state
    wrong_dimension: Flagged
    drifted: Flagged  # detail: the kind of drift; amount: characters lost
    blank: Flagged
    placeholders: Flagged
    rejected: Flagged  # detail: the reason
    truncated: Flagged
    tokens_known: dict[str, int]  # rows of each batch whose tokens were counted


def compare(
    rows: pa.Table,
    vector_state: np.ndarray,
    store: pa.Table | None,
    rejected: pa.Table | None,
    max_tokens: int | None,
    lengths: pa.Table | None = None,
    *,
    zeros_meant: bool = False,
    has_text: bool = True,
) -> Comparison:
    """Compare table rows with the store's rows of the same batches.

    ``rows`` are table rows (``schemas.CHUNKS`` fields), ``vector_state`` (n,) aligned; ``store`` (schemas.CHUNKS)
    is None where there is none to compare with; ``rejected`` (schemas.REJECTED_CHUNKS), of which those without a batch
    only have their ids known: a row that the store has and that was left out is no orphan. Truncation is counted over
    ``lengths`` (default: the store), a table of chunk_id, batch and n_tokens. An id that stands in the table under
    any batch is not missing. Texts are compared byte for byte, through their hashes. ``zeros_meant`` is that of the
    snapshot; without ``has_text`` no text is blank, for the table has none.
    """
    ids, batches = one_array(rows["chunk_id"]), one_array(rows["batch"])
    placeholder = placeholder_rows(rows, vector_state, zeros_meant)
    bad = (vector_state != USABLE) & ~placeholder
    wrong = bad & (vector_state == WRONG_DIMENSION)
    states = pa.array(np.array(VECTOR_STATES, dtype=object)[vector_state], pa.string())
    table = Flagged(ids, batches, states)
    nothing = Flagged(pa.array([], pa.string()), pa.array([], pa.string()), pa.array([], pa.string()))
    missing = orphans = drifted = nothing
    left_out = nothing.ids
    if rejected is not None:
        left_out = one_array(rejected["chunk_id"]).drop_null()
        rejected = rejected.filter(rejected["batch"].is_valid())
    stands = pa.array(np.zeros(len(rejected) if rejected is not None else 0, dtype=bool))
    expected: dict[str, int] = {}
    if store is not None:
        store_ids = one_array(store["chunk_id"])
        absent = pc.invert(among(store_ids, ids))
        replaced = pa.array([], pa.string())
        if rejected is not None and len(rejected) and has_text:
            replaced, stands = _instead(rows, store, rejected)
        lost = pc.or_(absent, among(store_ids, replaced))
        why = pc.if_else(absent, "not_in_table", ID_COLLISION)
        missing = Flagged(store_ids.filter(lost), one_array(store["batch"]).filter(lost), why.filter(lost))
        known = pc.or_(among(ids, store_ids), among(ids, left_out))
        unknown = pc.and_(pc.invert(known), pa.array(~placeholder))
        orphans = table.where(unknown)
        if has_text:
            drifted = _drifted(rows, store)
            drifted = drifted.where(pc.invert(among(drifted.ids, replaced)))
    if store is not None:
        in_table = one_array(rejected["batch"]).filter(stands) if rejected is not None else nothing.batches
        expected = _count(pa.concat_arrays([one_array(store["batch"]), in_table]))
    refused = Flagged(nothing.ids, nothing.batches, nothing.detail)
    if rejected is not None and rejected.num_rows:
        refused = Flagged(
            one_array(rejected["chunk_id"]).fill_null("(none)"),
            one_array(rejected["batch"]),
            one_array(rejected["reason"]),
        )
    measured = lengths if lengths is not None else store
    truncated, tokens_known = _truncated(measured, max_tokens)
    return Comparison(
        cells=_cells(rows, store, rejected),
        table_rows=_count(batches),
        store_rows=expected,
        compared=store is not None,
        missing=missing,
        collided=refused.where(pc.and_not(_equal(refused.detail, ID_COLLISION), stands)),
        orphans=orphans,
        duplicates=_duplicates(ids, batches),
        invalid=table.where(pa.array(bad & ~wrong)),
        wrong_dimension=table.where(pa.array(wrong)),
        drifted=drifted,
        blank=table.where(pc.and_(blank_texts(rows), pa.array(~placeholder & has_text))),
        placeholders=table.where(pa.array(placeholder)),
        rejected=refused,
        truncated=truncated,
        tokens_known=tokens_known,
    )


def integrity_table(comparison: Comparison) -> pa.Table:
    """One row of ``schemas.BATCH_INTEGRITY`` a batch, sorted by batch; null where something was not compared."""
    batches = sorted(comparison.cells)
    measured_tokens = bool(comparison.tokens_known)

    def counts(flagged: Flagged) -> list[int]:
        found = _count(flagged.batches)
        return [found.get(batch, 0) for batch in batches]

    def against_store(values: list[int]) -> list[int | None]:
        return list(values) if comparison.compared else [None] * len(batches)

    missing = [a + b for a, b in zip(counts(comparison.missing), counts(comparison.collided), strict=True)]
    invalid = [a + b for a, b in zip(counts(comparison.invalid), counts(comparison.wrong_dimension), strict=True)]
    return pa.table(
        {
            "batch": batches,
            "source": [comparison.cells[batch][0] for batch in batches],
            "ingestion_date": [comparison.cells[batch][1] for batch in batches],
            "store_rows": against_store([comparison.store_rows.get(batch, 0) for batch in batches]),
            "table_rows": [comparison.table_rows.get(batch, 0) for batch in batches],
            "missing_rows": against_store(missing),
            "orphan_rows": against_store(counts(comparison.orphans)),
            "duplicate_ids": counts(comparison.duplicates),
            "invalid_vectors": invalid,
            "text_drift": against_store(counts(comparison.drifted)),
            "vector_drift": [None] * len(batches),  # an ingest compares all vectors, the role fingerprint a few
            "rejected_rows": against_store(counts(comparison.rejected)),
            "truncated_rows": counts(comparison.truncated) if measured_tokens else [None] * len(batches),
        },
        schema=schemas.BATCH_INTEGRITY,
    )


def _drifted(rows: pa.Table, store: pa.Table) -> Flagged:
    """Table rows whose text is not the store's under the same id. Only these are looked at text by text."""
    differs = _differing(rows, store)
    found = rows.select(["chunk_id", "batch", "text"]).filter(differs)
    place = pc.index_in(one_array(found["chunk_id"]), value_set=one_array(store["chunk_id"]))
    own = one_array(store["text"]).take(place)
    kinds, lost = drifts_of(own, one_array(found["text"]))
    return Flagged(one_array(found["chunk_id"]), one_array(found["batch"]), kinds, lost)


def _differing(rows: pa.Table, store: pa.Table) -> pa.Array:
    """(rows,) bool: the text is another than the store's under the same id."""
    place = pc.index_in(one_array(rows["chunk_id"]), value_set=one_array(store["chunk_id"]))
    own_hash = one_array(store["text_sha256"]).take(place)
    return pc.fill_null(pc.not_equal(own_hash, one_array(rows["text_sha256"])), False)


def _instead(rows: pa.Table, store: pa.Table, rejected: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Where two rows of the store have one id, the table may hold the rejected one: then it is the other that is lost.

    (ids of the store's rows that another stands for, (rejected,) bool of those that stand in the table).
    """
    repeated = _equal(one_array(rejected["reason"]), ID_COLLISION).to_numpy(zero_copy_only=False)
    found = rows.select(["chunk_id", "text"]).filter(
        pc.and_(_differing(rows, store), among(rows["chunk_id"], rejected["chunk_id"]))
    )
    held = set(zip(found["chunk_id"].to_pylist(), found["text"].to_pylist(), strict=True))
    stands = np.zeros(len(rejected), dtype=bool)
    for place in np.flatnonzero(repeated):
        pair = (rejected["chunk_id"][int(place)].as_py(), rejected["text"][int(place)].as_py())
        if pair in held:
            stands[place] = True
            held.discard(pair)
    return pc.unique(one_array(rejected["chunk_id"]).filter(pa.array(stands))), pa.array(stands)


def _duplicates(ids: pa.Array, batches: pa.Array) -> Flagged:
    counts = ids.value_counts()
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    held = among(ids, repeated)
    pairs = pa.table({"id": ids.filter(held), "batch": batches.filter(held)}).group_by(["id", "batch"]).aggregate([])
    pairs = pairs.sort_by([("id", "ascending"), ("batch", "ascending")])
    return Flagged(one_array(pairs["id"]), one_array(pairs["batch"]))


def _truncated(lengths: pa.Table | None, max_tokens: int | None) -> tuple[Flagged, dict[str, int]]:
    none = Flagged(pa.array([], pa.string()), pa.array([], pa.string()))
    if lengths is None or max_tokens is None:
        return none, {}
    known = pc.is_valid(lengths["n_tokens"])
    over = pc.fill_null(pc.greater(lengths["n_tokens"], max_tokens), False)
    truncated = lengths.select(["chunk_id", "batch"]).filter(over)
    tokens_known = _count(one_array(lengths["batch"].filter(known)))
    return Flagged(one_array(truncated["chunk_id"]), one_array(truncated["batch"])), tokens_known


def _cells(rows: pa.Table, store: pa.Table | None, rejected: pa.Table | None) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for table in (rejected, rows, store):
        if table is None:
            continue
        for batch, (source, day) in cells_of(table).items():
            cells[batch] = (source, day or cells.get(batch, (None, None))[1])
    return cells


def _count(values: pa.Array) -> dict[str, int]:
    counts = values.drop_null().value_counts()
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


def _equal(values: pa.Array | None, wanted: str) -> pa.Array:
    return pa.array([], pa.bool_()) if values is None else pc.fill_null(pc.equal(values, wanted), False)
