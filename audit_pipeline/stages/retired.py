"""The rows of a source that is retired: they stay as they were last read, whatever another source brings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.arrays import among, without
from audit_pipeline.corpus.batches import parse_batch_key, slug
from audit_pipeline.corpus.reasons import ID_COLLISION, OWNED_BY
from audit_pipeline.corpus.scans import BatchInfo, StoreRows, content_hash
from audit_pipeline.stages.unsettled import begun
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_table


@dataclass(frozen=True)
class Yielded:
    """A batch without the rows whose ids a retired source holds, and the slugs of the sources it yields to."""

    rows: StoreRows
    yields_to: list[str]


def retired_slugs(workspace: Workspace) -> set[str]:
    """Slugs of the sources of which the settings say that nothing comes any more."""
    return {slug(source.name) for source in workspace.settings.sources if source.retired}


def yield_to_retired(workspace: Workspace, key: str, rows: StoreRows) -> Yielded:
    """Reject the rows of a batch whose id stands in a batch of a retired source, as ``id_collision``.

    Validation cannot see them, since nothing is read of such a source. An id that this batch holds already stays its
    own: it was taken over before the source was retired, and the table has it nowhere else.
    """
    retired, known = retired_slugs(workspace), workspace.manifest(key)
    chunks, rejected, yields_to = rows.chunks, [rows.rejected], set()
    own = _ids(workspace, key) if known is not None and retired else pa.array([], pa.string())
    for manifest in workspace.manifests() if retired else ():
        source = parse_batch_key(manifest.key)[1]
        if source not in retired or manifest.key == key or not manifest.rows:
            continue
        ids = chunks["chunk_id"]
        held = without(_ids(workspace, manifest.key), given_up(workspace, manifest.key))
        theirs = pc.and_not(among(ids, held), among(ids, own))
        if not pc.any(theirs).as_py():
            continue
        detail = f"{OWNED_BY}{manifest.key}, whose source is retired"
        rejected.append(_rejected(chunks.filter(theirs), key, detail))
        chunks = chunks.filter(pc.invert(theirs))
        yields_to.add(source)
    return Yielded(StoreRows(chunks, pa.concat_tables(rejected)), sorted(yields_to))


@dataclass(frozen=True)
class Remembered:
    """A batch of a retired source: its rows as they were last read, and the slugs of the sources it yields to."""

    rows: StoreRows
    info: BatchInfo
    yields_to: list[str]


def remembered(workspace: Workspace, key: str) -> Remembered | None:
    """A batch of a retired source without the rows that other batches took over; None for any other batch, and where
    nothing of it is kept.
    """
    generation, known = last_read(workspace, key), workspace.manifest(key)
    if generation is None or parse_batch_key(key)[1] not in retired_slugs(workspace):
        return None
    folder = workspace.state.batch(key) / generation
    chunks, rejected = read_table(folder / "chunks.parquet"), read_table(folder / "rejected.parquet")
    gone = among(chunks["chunk_id"], given_up(workspace, key))
    chunks = chunks.filter(pc.invert(gone))
    place = chunks.schema.get_field_index("n_tokens")  # counted anew: the encoder may be another one
    chunks = chunks.set_column(place, chunks.schema.field(place), pa.nulls(len(chunks), pa.int32()))
    period, source_slug = parse_batch_key(key)
    as_declared = known is not None and generation == known.generation and not pc.any(gone).as_py()
    info = BatchInfo(
        key=key,
        source=known.source if known else workspace.scan().slugs.get(source_slug, source_slug),
        slug=source_slug,
        period=period,
        rows=len(chunks),
        rejected=len(rejected),
        content_hash=known.content_hash if known and as_declared else content_hash(chunks, rejected),
    )
    return Remembered(StoreRows(chunks, rejected), info, known.yields_to if known and as_declared else [])


def last_read(workspace: Workspace, key: str) -> str | None:
    """The generation whose rows the table has of a batch, or had last; None where its files are not there.

    A commit that was begun is taken for done: a retired source keeps what it brought.
    """
    now, known = begun(workspace, key), workspace.manifest(key)
    for generation in (now.generation if now else None, known.generation if known else None):
        if generation is not None and (workspace.state.batch(key) / generation / "rejected.parquet").exists():
            return generation
    return None


def given_up(workspace: Workspace, key: str) -> pa.Array:
    """The ids that other batches took over from this one, and that the table does not have under it any more."""
    from audit_pipeline.index.batch_rows import ids_of_batch

    now, settings = begun(workspace, key), workspace.settings.index
    taken = pa.array(now.taken if now else [], pa.string())
    if not len(taken):
        return taken
    there = ids_of_batch(workspace.index_uri, settings.table, key, storage_options=settings.storage_options)
    return without(taken, there)


def _ids(workspace: Workspace, key: str) -> pa.Array:
    manifest = workspace.manifest(key)
    assert manifest is not None  # asked of batches that were ingested
    return workspace.held_ids(manifest)


def _rejected(chunks: pa.Table, key: str, detail: str) -> pa.Table:
    """Of a usable row no file is known any more: it is named by its place in the batch."""
    n = len(chunks)
    columns = {
        "row": pa.array(np.arange(n)),
        "origin": pa.array([f"batch {key}"] * n, pa.string()),
        **{name: chunks[name] for name in ("chunk_id", "source", "batch", "text")},
        "reason": pa.array([ID_COLLISION] * n, pa.string()),
        "detail": pa.array([detail] * n, pa.string()),
    }
    names = schemas.REJECTED_CHUNKS.names
    return pa.table([columns[name] for name in names], names=names).cast(schemas.REJECTED_CHUNKS)
