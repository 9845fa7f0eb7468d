"""The stages of one batch of a managed index, from the source store to the table. Nothing corpus-wide here."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import among
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.corpus.sampling import stratify
from audit_pipeline.corpus.scans import BatchInfo
from audit_pipeline.encoder.calibration import NOISE_LOSS, cosine_loss
from audit_pipeline.errors import AuditInputError, BatchInputError
from audit_pipeline.index.snapshot import USABLE
from audit_pipeline.stages.grid import EMPTY, place_of, refuse_other_grain
from audit_pipeline.stages.pins import pinned_generation, pins_locked
from audit_pipeline.stages.provenance import PROVENANCE, provenance_as_configured
from audit_pipeline.stages.retired import remembered, retired_slugs, yield_to_retired
from audit_pipeline.stages.texts import embedded, with_tokens
from audit_pipeline.stages.unsettled import (
    begin_writing,
    end_writing,
    is_written,
    mark_lost,
    mark_taken,
    settle,
    unsettled_keys,
)
from audit_pipeline.stages.waiting import Kept, keep_until_taken
from audit_pipeline.stages.workspace import BatchManifest, Workspace
from audit_pipeline.state import read_json, read_table, remove_folder, write_json, write_table

FILES = ("chunks.parquet", "rejected.parquet", "probes.parquet", "signatures.parquet", "integrity.parquet", PROVENANCE)
FAULTS = ("missing_rows", "orphan_rows", "duplicate_ids", "invalid_vectors", "text_drift", "vector_drift")


def ingest_chunks(workspace: Workspace, key: str) -> dict[str, int] | None:
    """Validated rows of the batch into a new generation; None for a cell that never held anything."""
    refuse_other_grain(workspace.settings, workspace.state)
    scan = workspace.scan()  # first: it reads the store, and the rows must be those whose content hash it has
    period, source_slug = parse_batch_key(key)
    known, info = workspace.manifest(key), scan.batches.get(key)
    if source_slug in retired_slugs(workspace):
        kept = remembered(workspace, key)
        if kept is None:
            return None
        info, yields_to, still = kept.info, kept.yields_to, Kept(kept.rows, {}, "")
        rows = kept.rows
    else:
        if info is None and known is None and key not in unsettled_keys(workspace):
            return None
        still = keep_until_taken(workspace, key, workspace.store.read_batch(key))
        yielded = yield_to_retired(workspace, key, still.rows)
        rows, yields_to = yielded.rows, yielded.yields_to
    _refuse_ids_of_unread(workspace, key, rows.chunks["chunk_id"])
    chunks = with_tokens(workspace, rows.chunks)
    generation = generation_of(workspace, info, yields_to, still.digest)
    folder = workspace.state.batch(key) / generation
    write_table(folder / "chunks.parquet", chunks)
    write_table(folder / "rejected.parquet", rows.rejected)
    pending = BatchManifest(
        key=key,
        source=info.source if info else known.source if known else scan.slugs.get(source_slug, source_slug),
        ingestion_date=period.isoformat(),
        rows=len(rows.chunks),
        rejected=len(rows.rejected),
        content_hash=info.content_hash if info else EMPTY,
        settings_hash=workspace.settings_hash,
        generation=generation,
        yields_to=yields_to,
        waits_for=still.waits_for,
        place=place_of(workspace.settings),
    )
    write_json(workspace.state.batch(key) / "pending.json", asdict(pending))
    return {"rows": len(chunks), "rejected": len(rows.rejected)}


def _refuse_ids_of_unread(workspace: Workspace, key: str, ids: pa.ChunkedArray) -> None:
    """Raise BatchInputError where the batch would take rows away from a source that cannot be read just now."""
    scan = workspace.scan()
    for manifest in workspace.manifests() if scan.unread else ():
        if manifest.key == key or scan.unread_for(parse_batch_key(manifest.key)[1]) is None:
            continue
        if pc.any(among(ids, workspace.held_ids(manifest))).as_py():
            raise BatchInputError(
                f"{workspace.settings.name}: batch {key} has ids of batch {manifest.key}, whose source cannot be read: "
                "mend that source first"
            )


def ingest_probes(workspace: Workspace, key: str) -> int:
    """The batch's rows by length band in hash order; nothing is encoded."""
    table = stratify(pending_chunks(workspace, key), workspace.settings.sample.seed)
    write_table(pending_folder(workspace, key) / "probes.parquet", table)
    return len(table)


def ingest_passage_vectors(workspace: Workspace, key: str) -> dict[str, int]:
    """Passage vectors of the batch into the vector store, and their provenance beside the batch."""
    settings = workspace.settings.encoder
    texts = embedded(workspace, pending_chunks(workspace, key))
    encoded = workspace.encode(settings.passage_arm, texts, "passages")
    workspace.count_cached(encoded)
    write_json(pending_folder(workspace, key) / PROVENANCE, provenance_as_configured(workspace))
    return {"texts": len(texts), "encoded": encoded.encoded, "from_cache": encoded.from_cache, "tokens": encoded.tokens}


def ingest_signatures(workspace: Workspace, key: str) -> int:
    """MinHash signatures and normalised text hashes of the batch; a text it held before is not signed again."""
    from audit_pipeline.duplicates.signatures import compute_signatures, earlier_signatures, write_signatures

    settings, manifest = workspace.settings.duplicates, workspace.manifest(key)
    earlier = None
    if manifest is not None:
        earlier = earlier_signatures(workspace.generation(manifest) / "signatures.parquet", settings)
    table = compute_signatures(pending_chunks(workspace, key), settings, workspace.progress, earlier)
    write_signatures(pending_folder(workspace, key) / "signatures.parquet", table)
    return len(table)


def ingest_index_rows(workspace: Workspace, key: str) -> dict[str, int]:
    """The batch's rows in the managed table, replaced in one commit.

    Rows that stand under other batches move, which is written down at those first. Raises AuditInputError where the
    settings have changed since the chunks were made, or another run wrote the batch's rows of another state meanwhile.
    """
    from audit_pipeline.index.managed import replace_batch

    pending = pending_manifest(workspace, key)
    if pending.settings_hash != workspace.settings_hash:
        raise AuditInputError(
            f"{workspace.settings.name}: the chunks of batch {key} were made under other settings: "
            "materialise 'chunks' again"
        )
    chunks = read_table(workspace.generation(pending) / "chunks.parquet")
    settings = workspace.settings
    encoded = workspace.encode(settings.encoder.passage_arm, embedded(workspace, chunks))
    moved: list[pa.Table] = []

    def take(rows: pa.Table) -> None:
        mark_taken(workspace, rows)
        moved.append(rows)

    before = begin_writing(workspace, key, pending.generation)
    report = replace_batch(
        workspace.index_uri,
        settings.index.table,
        chunks,
        encoded.vectors,
        key,
        storage_options=settings.index.storage_options,
        taking=take,
        creating=lambda: mark_lost(workspace, key),
    )
    for rows in moved:
        mark_taken(workspace, rows)  # a batch that was finished meanwhile has forgotten it
    end_writing(workspace, key, pending.generation, before)
    return {"inserted": report.inserted, "updated": report.updated, "deleted": report.deleted}


def check_batch_integrity(workspace: Workspace, key: str) -> dict[str, int]:
    """The batch in the table against the batch in the store: kept beside the batch, counts returned."""
    from audit_pipeline.index.batch_rows import read_batch
    from audit_pipeline.index.integrity import check_batch

    settings = workspace.settings.index
    rows, vectors, vector_state = read_batch(
        workspace.index_uri, settings.table, key, storage_options=settings.storage_options
    )
    encoder = workspace.encoder
    chunks = pending_chunks(workspace, key)
    table = check_batch(
        rows,
        vector_state,
        chunks,
        read_table(pending_folder(workspace, key) / "rejected.parquet"),
        encoder.max_tokens if encoder else None,
        _unfaithful(workspace, chunks, rows, vectors, vector_state),
    )
    write_table(pending_folder(workspace, key) / "integrity.parquet", table)
    return _counts(table)


def _unfaithful(
    workspace: Workspace, chunks: pa.Table, rows: pa.Table, vectors: np.ndarray, vector_state: np.ndarray
) -> int:
    """Rows of the batch whose vector is not what the settings make of their text, of all that have both.

    The batch's encodings lie in the vector store, so each row is compared and nothing is encoded.
    """
    place = pc.index_in(rows["chunk_id"].combine_chunks(), value_set=chunks["chunk_id"].combine_chunks())
    place = pc.fill_null(place, -1).to_numpy()
    both = np.flatnonzero((place >= 0) & (vector_state == USABLE))
    if not len(both):
        return 0
    right = workspace.encode(workspace.settings.encoder.passage_arm, embedded(workspace, chunks)).vectors
    if right.shape[1] != vectors.shape[1]:
        return len(both)
    return int(np.sum(~(cosine_loss(vectors[both], right[place[both]]) <= NOISE_LOSS)))


def integrity_faults(workspace: Workspace, key: str) -> dict[str, int]:
    """What is wrong with the batch in the table, by name; empty where nothing is."""
    counts = _counts(read_table(pending_folder(workspace, key) / "integrity.parquet"))
    return {name: counts[name] for name in FAULTS if counts.get(name)}


def rejection_reasons(workspace: Workspace, key: str) -> dict[str, int]:
    """Rejected rows of the batch by reason."""
    reasons = pc.value_counts(read_table(pending_folder(workspace, key) / "rejected.parquet", ["reason"])["reason"])
    return {row["values"]: row["counts"] for row in reasons.to_pylist()}


def _counts(integrity: pa.Table) -> dict[str, int]:
    rows = integrity.to_pylist()
    return {name: value for name, value in (rows[0] if rows else {}).items() if isinstance(value, int)}


def finish_batch(workspace: Workspace, key: str) -> BatchManifest:
    """Declares the batch's pending generation current, and removes the files of others but for the last audit's.

    Raises BatchInputError where its rows are not those that were committed last, or not all its files are there.
    """
    folder, known = workspace.state.batch(key), workspace.manifest(key)
    pending = pending_manifest(workspace, key)
    files = workspace.generation(pending)
    whole = all((files / name).exists() for name in FILES)
    if not whole or not is_written(workspace, key, pending.generation):
        raise BatchInputError(
            f"{workspace.settings.name}: the table does not have batch {key} as its chunks were last read: "
            "run it again from 'chunks'"
        )
    manifest = replace(pending, ingests=known.ingests + 1 if known else 1)
    with pins_locked(workspace.state):
        workspace.write_manifest(manifest)
        settle(workspace, manifest)
        needed = {manifest.generation, pinned_generation(workspace.state, key)}
        for other in folder.iterdir():
            if other.is_dir() and other.name not in needed:
                remove_folder(other)
    return manifest


def generation_of(workspace: Workspace, info: BatchInfo | None, yields_to: Sequence[str] = (), kept: str = "") -> str:
    """Folder name of one state of a batch: equal content and settings give equal names, so a re-run is idempotent."""
    content = " ".join([info.content_hash if info else EMPTY, *yields_to, *filter(None, [kept])])
    return hashlib.sha256(f"{content} {workspace.settings_hash}".encode()).hexdigest()[:16]


def pending_generation(workspace: Workspace, key: str) -> str:
    """The generation that ingest_chunks wrote last."""
    return str(_pending(workspace, key)["generation"])


def pending_manifest(workspace: Workspace, key: str) -> BatchManifest:
    """What ingest_chunks last read of the batch: the manifest it has once it is finished."""
    pending = _pending(workspace, key)
    if "content_hash" not in pending:  # of an earlier version, which left this to the end
        raise _no_chunks(workspace, key)
    return BatchManifest(**pending)


def _pending(workspace: Workspace, key: str) -> dict[str, Any]:
    path = workspace.state.batch(key) / "pending.json"
    if not path.exists():
        raise _no_chunks(workspace, key)
    found: dict[str, Any] = read_json(path)
    return found


def _no_chunks(workspace: Workspace, key: str) -> AuditInputError:
    return AuditInputError(f"{workspace.settings.name}: batch {key} has no chunks yet: materialise 'chunks' first")


def pending_folder(workspace: Workspace, key: str) -> Path:
    """Folder of the generation that is being made."""
    return workspace.state.batch(key) / pending_generation(workspace, key)


def pending_chunks(workspace: Workspace, key: str) -> pa.Table:
    """Chunks of the generation that is being made."""
    return read_table(pending_folder(workspace, key) / "chunks.parquet")
