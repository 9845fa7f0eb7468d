"""Rows whose id belongs to a source that is retired: its rows stay, whatever another source brings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.batches import parse_batch_key, slug
from audit_pipeline.corpus.scans import StoreRows
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
        theirs = pc.and_not(pc.is_in(ids, value_set=_ids(workspace, manifest.key)), pc.is_in(ids, value_set=own))
        if not pc.any(theirs).as_py():
            continue
        detail = f"the id belongs to a row of batch {manifest.key}, whose source is retired"
        rejected.append(_rejected(chunks.filter(theirs), key, detail))
        chunks = chunks.filter(pc.invert(theirs))
        yields_to.add(source)
    return Yielded(StoreRows(chunks, pa.concat_tables(rejected)), sorted(yields_to))


def _ids(workspace: Workspace, key: str) -> pa.Array:
    manifest = workspace.manifest(key)
    assert manifest is not None  # asked of batches that were ingested
    return read_table(workspace.generation(manifest) / "chunks.parquet", ["chunk_id"])["chunk_id"].combine_chunks()


def _rejected(chunks: pa.Table, key: str, detail: str) -> pa.Table:
    """Of a usable row no file is known any more: it is named by its place in the batch."""
    n = len(chunks)
    columns = {
        "row": pa.array(np.arange(n)),
        "origin": pa.array([f"batch {key}"] * n, pa.string()),
        **{name: chunks[name] for name in ("chunk_id", "source", "batch", "text")},
        "reason": pa.array(["id_collision"] * n, pa.string()),
        "detail": pa.array([detail] * n, pa.string()),
    }
    names = schemas.REJECTED_CHUNKS.names
    return pa.table([columns[name] for name in names], names=names).cast(schemas.REJECTED_CHUNKS)
