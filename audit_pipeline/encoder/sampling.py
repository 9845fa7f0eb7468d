"""Which rows of each batch are re-encoded, and the texts they should carry. No vector is judged here."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.text import count_words
from audit_pipeline.encoder.fidelity import Sample
from audit_pipeline.encoder.known_templates import template_columns
from audit_pipeline.encoder.template import embedded_texts, template_fields
from audit_pipeline.encoder.truncation_probe import LEAST_WORDS, LONG_ROWS


def sample_rows(
    chunk_ids: pa.Array, cells: np.ndarray, eligible: np.ndarray, per_cell: int, total: int, seed: int
) -> np.ndarray:
    """Ordinals of the sampled rows, ascending: of each cell the eligible rows with the smallest hash(seed, chunk_id).

    ``total`` caps the sum: first fewer rows of each cell, then, with more cells than ``total``, fewer cells.
    """
    rows = np.flatnonzero(eligible)
    if not len(rows):
        return rows
    prefix = hashlib.blake2b(f"fingerprint:{seed}:".encode(), digest_size=8)
    hashes = np.empty(len(rows), dtype=np.uint64)
    for i, chunk_id in enumerate(chunk_ids.take(pa.array(rows)).to_pylist()):
        digest = prefix.copy()
        digest.update(chunk_id.encode())
        hashes[i] = int.from_bytes(digest.digest(), "big")
    order = np.lexsort((rows, hashes, cells[rows]))
    in_order = cells[rows][order]
    starts = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    allowed = min(per_cell, max(1, total // len(starts)))
    picked = order[place < allowed]
    if len(picked) > total:
        picked = picked[np.argsort(hashes[picked], kind="stable")[:total]]
    return np.sort(rows[picked])


def longest_rows(chunk_ids: pa.Array, texts: pa.Array, eligible: np.ndarray) -> np.ndarray:
    """Ordinals of the eligible rows with the most words, ascending; none where no text is long enough to be cut."""
    words = np.where(eligible, count_words(texts).to_numpy(zero_copy_only=False), 0)
    if not len(words):
        return np.empty(0, dtype=np.int64)
    least = max(LEAST_WORDS, int(np.partition(words, -min(LONG_ROWS, len(words)))[-min(LONG_ROWS, len(words))]))
    candidates = np.flatnonzero(words >= least)
    ids = chunk_ids.take(pa.array(candidates)).to_pylist()
    # Ties go by id, so that the order of the rows decides nothing.
    ranked = sorted(zip(-words[candidates], ids, candidates, strict=True))[:LONG_ROWS]
    return np.sort(np.array([row for _, _, row in ranked], dtype=np.int64))


def draw_sample(
    rows: pa.Table,
    vectors: np.ndarray,
    ordinals: np.ndarray,
    cells: np.ndarray,
    store: pa.Table | None,
    embed_text: str | None,
    strata: np.ndarray | None = None,
) -> Sample:
    """The sampled rows with the texts they should have been encoded from: the store's, else the table's own.

    ``cells`` and ``strata`` (n,) are those of all rows; without strata the cells are the strata.
    """
    table_rows = rows.take(pa.array(ordinals))
    fields = _with_store_values(table_rows, store, embed_text)
    return Sample(
        rows=ordinals,
        cells=cells[ordinals],
        strata=(cells if strata is None else strata)[ordinals],
        stored=np.asarray(vectors[ordinals]),
        texts=embedded_texts(fields, embed_text).to_pylist(),
        table_texts=embedded_texts(table_rows, embed_text).to_pylist(),
        fields=fields,
    )


def fields_of(embed_text: str | None) -> list[str]:
    """Row fields that the embedded text is made of."""
    if embed_text is None:
        return ["text"]
    if "{" not in embed_text:
        return [embed_text]
    return [name for _, name in template_fields(embed_text) if name is not None]


def _with_store_values(table_rows: pa.Table, store: pa.Table | None, embed_text: str | None) -> pa.Table:
    wanted = dict.fromkeys([*fields_of(embed_text), *template_columns(table_rows)])
    columns = {name: table_rows[name].combine_chunks() for name in wanted if name in table_rows.column_names}
    if store is not None:
        at = pc.index_in(table_rows["chunk_id"].combine_chunks(), value_set=store["chunk_id"].combine_chunks())
        known = pc.is_valid(at)
        for name in columns:
            if name in store.column_names:
                value = store[name].combine_chunks().take(at)
                columns[name] = pc.if_else(known, value.cast(columns[name].type), columns[name])
    return pa.table(columns)
