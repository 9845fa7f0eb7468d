"""Rows whose ids the store gives to a batch that was never brought in: they stay where they are until it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.arrays import among, without
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.corpus.reasons import ID_COLLISION
from audit_pipeline.corpus.scans import StoreRows, content_hash
from audit_pipeline.corpus.text import count_words, sha256_hex
from audit_pipeline.stages.retired import given_up
from audit_pipeline.stages.unsettled import begun
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_table


@dataclass(frozen=True)
class Kept:
    """A batch with the rows that it keeps for now, the keys of the batches that are to have these, and their digest."""

    rows: StoreRows
    waits_for: list[str]
    digest: str


def keep_until_taken(workspace: Workspace, key: str, rows: StoreRows) -> Kept:
    """Take back the rows that this batch holds and validation gives to batches that were never brought in.

    Such a batch may wait for a backfill, or its run may fail: until its own commit takes the rows over, the table has
    them nowhere else. A row is kept with the text that its source has now and the other fields it came in with.
    """
    rejected = rows.rejected
    collided = pc.equal(rejected["reason"], ID_COLLISION).combine_chunks()
    if not pc.any(collided).as_py():
        return Kept(rows, [], "")
    held = _held(workspace, key)
    lost = held["chunk_id"].combine_chunks()
    lost = lost.filter(among(lost, rejected["chunk_id"].filter(collided)))
    lost = without(lost, rows.chunks["chunk_id"])
    theirs = _ids_of_never_brought_in(workspace, key, lost)
    if not theirs:
        return Kept(rows, [], "")
    ids = pa.chunked_array(list(theirs.values()))
    first = _first_of_each(rejected, pc.and_(collided, among(rejected["chunk_id"], ids)))
    kept = held.filter(among(held["chunk_id"], ids)).sort_by("chunk_id")
    texts = rejected["text"].take(first)
    fresh = {"text": texts, "text_sha256": sha256_hex(texts), "n_words": count_words(texts)}
    fresh["n_tokens"] = pa.nulls(len(kept), pa.int32())  # counted anew: the encoder may be another one
    names = schemas.CHUNKS.names
    kept = pa.table([fresh.get(name, kept[name]) for name in names], names=names).cast(schemas.CHUNKS)
    chunks = pa.concat_tables([rows.chunks, kept]).sort_by("chunk_id")
    others = np.setdiff1d(np.arange(len(rejected)), first.to_numpy())
    digest = content_hash(kept, schemas.REJECTED_CHUNKS.empty_table())
    return Kept(StoreRows(chunks, rejected.take(pa.array(others))), sorted(theirs), digest)


def _held(workspace: Workspace, key: str) -> pa.Table:
    """The rows that are this batch's in the table, as they were last read: also those of a run that died later."""
    from audit_pipeline.index.batch_rows import ids_of_batch

    now, known, held = begun(workspace, key), workspace.manifest(key), schemas.CHUNKS.empty_table()
    if now is not None and now.generation is not None:
        path = workspace.state.batch(key) / now.generation / "chunks.parquet"
        index = workspace.settings.index
        there = ids_of_batch(workspace.index_uri, index.table, key, storage_options=index.storage_options)
        written = read_table(path) if path.exists() else held
        held = written.filter(among(written["chunk_id"], there))
    if known is not None:
        last = read_table(workspace.generation(known) / "chunks.parquet")
        gone = pc.or_(*(among(last["chunk_id"], ids) for ids in (given_up(workspace, key), held["chunk_id"])))
        held = pa.concat_tables([held, last.filter(pc.invert(gone))])
    return held


def _ids_of_never_brought_in(workspace: Workspace, key: str, ids: pa.Array) -> dict[str, pa.Array]:
    """Key -> those of the ids that it has, of batches of the store that no ingest has finished."""
    scan, period = workspace.scan(), parse_batch_key(key)[0]
    found: dict[str, pa.Array] = {}
    for other, info in scan.batches.items():
        if not len(ids):
            break
        # An id belongs to its earliest row, so no later batch can have it.
        if other == key or info.period > period or scan.unread_for(info.slug) is not None:
            continue
        if workspace.manifest(other) is not None:
            continue
        theirs = among(ids, workspace.store.read_batch(other).chunks["chunk_id"])
        if pc.any(theirs).as_py():
            found[other] = ids.filter(theirs)
            ids = ids.filter(pc.invert(theirs))
    return found


def _first_of_each(rejected: pa.Table, which: pa.Array) -> pa.Array:
    """Places of the first row by text of each id among ``which`` rows, in order of ids."""
    places = pa.array(np.flatnonzero(which.to_numpy(zero_copy_only=False)))
    some = rejected.take(places)
    order = pa.table({"id": some["chunk_id"], "sha256": sha256_hex(some["text"]), "place": places})
    order = order.sort_by([("id", "ascending"), ("sha256", "ascending"), ("place", "ascending")])
    ids = order["id"].to_numpy(zero_copy_only=False)
    return order["place"].combine_chunks().filter(pa.array(np.append(True, ids[1:] != ids[:-1])))
