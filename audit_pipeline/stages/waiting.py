"""Rows that the store gives to a batch that has not come in as it is there: they stay where they are until it has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.arrays import among, one_array
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.corpus.reasons import ID_COLLISION
from audit_pipeline.corpus.scans import BatchInfo, StoreRows, StoreScan, content_hash
from audit_pipeline.corpus.text import count_words, sha256_hex
from audit_pipeline.stages.retired import given_up
from audit_pipeline.stages.unsettled import begun, is_settled
from audit_pipeline.stages.workspace import BatchManifest, Workspace
from audit_pipeline.state import read_table


@dataclass(frozen=True)
class Kept:
    """A batch with the rows that it keeps for now, and their digest.

    ``waits_for`` has the batches that are to have them: key -> the content hash that it had.
    """

    rows: StoreRows
    waits_for: dict[str, str]
    digest: str


def keep_until_taken(workspace: Workspace, key: str, rows: StoreRows) -> Kept:
    """Take back the rows that this batch holds and the store has in batches that are yet to come in with them.

    Such a batch may wait for a backfill, be left out, or its run may fail: until its own commit takes the rows over,
    the table has them nowhere else. A row is kept as it came in, but with the text that this batch's source has now
    where the row stands there too, and was rejected since its id is the other batch's. One that its source has no more
    goes all the same where the other batch waits for a backfill, perhaps for ever, with another text of that id.
    """
    held, rejected = _held(workspace, key), rows.rejected
    lost = held.filter(pc.invert(among(held["chunk_id"], rows.chunks["chunk_id"])))
    collided = pc.equal(rejected["reason"], ID_COLLISION).combine_chunks()
    theirs = _ids_of_batches_to_come(workspace, key, lost, rejected["chunk_id"].filter(collided))
    if not theirs:
        return Kept(rows, {}, "")
    kept = held.filter(among(held["chunk_id"], pa.chunked_array(list(theirs.values())))).sort_by("chunk_id")
    first = _first_of_each(rejected, pc.and_(collided, among(rejected["chunk_id"], kept["chunk_id"])))
    place = pc.index_in(one_array(kept["chunk_id"]), value_set=one_array(rejected["chunk_id"].take(first)))
    texts = pc.coalesce(one_array(rejected["text"].take(first)).take(place), one_array(kept["text"]))
    fresh = {"text": texts, "text_sha256": sha256_hex(texts), "n_words": count_words(texts)}
    fresh["n_tokens"] = pa.nulls(len(kept), pa.int32())  # counted anew: the encoder may be another one
    names = schemas.CHUNKS.names
    kept = pa.table([fresh.get(name, kept[name]) for name in names], names=names).cast(schemas.CHUNKS)
    chunks = pa.concat_tables([rows.chunks, kept]).sort_by("chunk_id")
    others = np.setdiff1d(np.arange(len(rejected)), first.to_numpy())
    digest = content_hash(kept, schemas.REJECTED_CHUNKS.empty_table())
    waits_for = {other: workspace.scan().batches[other].content_hash for other in sorted(theirs)}
    return Kept(StoreRows(chunks, rejected.take(pa.array(others))), waits_for, digest)


def waits_in_vain(workspace: Workspace, manifest: BatchManifest, scan: StoreScan) -> bool:
    """Whether a batch that this one keeps rows for has come in, or is not as it was: the rows may be kept no longer."""
    for key, content in manifest.waits_for.items():
        info = scan.batches.get(key)
        as_before = info.content_hash == content if info else scan.unread_for(parse_batch_key(key)[1]) is not None
        if not as_before or (info is not None and _has_come_in(workspace, info)):
            return True
    return False


def _has_come_in(workspace: Workspace, info: BatchInfo) -> bool:
    """Whether the table has a batch as the store has it."""
    manifest = workspace.manifest(info.key)
    return manifest is not None and manifest.content_hash == info.content_hash and is_settled(workspace, manifest)


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


def _ids_of_batches_to_come(
    workspace: Workspace, key: str, lost: pa.Table, collided: pa.ChunkedArray
) -> dict[str, pa.Array]:
    """Key -> ids of the ``lost`` rows that it has, of batches of the store that have not come in as they are there."""
    scan, wait = workspace.scan(), workspace.settings.automation.history == "wait"
    found: dict[str, pa.Array] = {}
    for other, info in scan.batches.items() if len(lost) else ():
        if other == key or scan.unread_for(info.slug) is not None or _has_come_in(workspace, info):
            continue
        chunks = workspace.store.read_batch(other).chunks
        theirs = among(lost["chunk_id"], chunks["chunk_id"])
        if wait and workspace.manifest(other) is None:
            same = among(lost["text_sha256"], chunks["text_sha256"])
            theirs = pc.and_(theirs, pc.or_(same, among(lost["chunk_id"], collided)))
        if pc.any(theirs).as_py():
            found[other] = one_array(lost["chunk_id"].filter(theirs))
            lost = lost.filter(pc.invert(theirs))
    return found


def _first_of_each(rejected: pa.Table, which: pa.Array) -> pa.Array:
    """Places of the first row by text of each id among ``which`` rows, in order of ids."""
    places = pa.array(np.flatnonzero(which.to_numpy(zero_copy_only=False)))
    some = rejected.take(places)
    order = pa.table({"id": some["chunk_id"], "sha256": sha256_hex(some["text"]), "place": places})
    order = order.sort_by([("id", "ascending"), ("sha256", "ascending"), ("place", "ascending")])
    ids = order["id"].to_numpy(zero_copy_only=False)
    return order["place"].combine_chunks().filter(pa.array(np.append(True, ids[1:] != ids[:-1])[: len(ids)]))
