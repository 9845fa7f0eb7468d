"""Batches whose rows in the table may not be those of their manifest. What an ingest writes stands in ingest.py.

A commit to the table and the files of a batch cannot change in one step. So what is about to be done is written down
before the commit: whatever dies in between, the batch is known as not up to date, and an ingest, which changes nothing
that is right, makes it whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock

from audit_pipeline.corpus.arrays import among
from audit_pipeline.errors import BatchInputError
from audit_pipeline.stages.workspace import BatchManifest, Workspace
from audit_pipeline.state import read_json, write_json


@dataclass(frozen=True)
class Unsettled:
    """What has been done to a batch's rows since it was last finished.

    ``generation`` is the one whose commit was last begun (None: two at once, or unknown), ``written`` whether that
    commit was done; ``taken`` are ids that commits of other batches have made theirs, or were about to.
    """

    generation: str | None
    written: bool
    taken: list[str]


def begin_writing(workspace: Workspace, key: str, generation: str) -> Unsettled:
    """Write down that this generation's rows are about to be committed; what stood there before."""
    with _locked(workspace, key):
        now = _read(workspace, key) or Unsettled(None, False, [])
        again = now.generation == generation and now.written
        _write(workspace, key, Unsettled(generation, again, now.taken))
        return now


def end_writing(workspace: Workspace, key: str, generation: str, before: Unsettled) -> None:
    """Write down that the commit is done. Raises BatchInputError where another run wrote other rows meanwhile."""
    with _locked(workspace, key):
        now, manifest = _read(workspace, key), workspace.manifest(key)
        if now is None and manifest is not None and manifest.generation == generation:
            return  # another run has written and finished the same
        if now is not None and now.generation == generation:
            taken = sorted(set(now.taken) - set(before.taken))  # this commit took back what had been taken till then
            _write(workspace, key, Unsettled(generation, True, taken))
            return
        _write(workspace, key, Unsettled(None, False, now.taken if now else []))
    raise BatchInputError(
        f"{workspace.settings.name}: batch {key} was written by two runs at once, from two states of its source: "
        "run it again"
    )


def mark_taken(workspace: Workspace, rows: pa.Table) -> None:
    """Write down at the batches that ``rows`` (batch, chunk_id) stand under that another batch takes these over."""
    for key in pc.unique(rows["batch"]).to_pylist():
        ids = rows.filter(pc.equal(rows["batch"], key))["chunk_id"].to_pylist()
        if not workspace.state.batch(key).is_dir():
            continue  # no ingest of this state folder knows the batch
        with _locked(workspace, key):
            manifest = workspace.manifest(key)
            now = _read(workspace, key) or Unsettled(manifest.generation if manifest else None, True, [])
            _write(workspace, key, replace(now, taken=sorted({*now.taken, *ids})))


def mark_lost(workspace: Workspace, key: str) -> None:
    """Write down at all batches but this one that the table, which is about to be made anew, has none of their rows.

    Once it has the first batch, nothing else tells that the others are gone.
    """
    for manifest in workspace.manifests():
        if manifest.key == key or not manifest.rows:
            continue
        with _locked(workspace, manifest.key):
            now = _read(workspace, manifest.key) or Unsettled(manifest.generation, False, [])
            _write(workspace, manifest.key, replace(now, written=False))


def begun(workspace: Workspace, key: str) -> Unsettled | None:
    """What is written down of a batch, None where it is settled."""
    return _read(workspace, key)


def is_written(workspace: Workspace, key: str, generation: str) -> bool:
    """Whether the last commit of the batch was that of this generation."""
    now, manifest = _read(workspace, key), workspace.manifest(key)
    if now is None:
        return manifest is not None and manifest.generation == generation
    return now.written and now.generation == generation


def settle(workspace: Workspace, manifest: BatchManifest) -> None:
    """Forget what was written down of a batch whose manifest says it all."""
    with _locked(workspace, manifest.key):
        if is_settled(workspace, manifest):
            _path(workspace, manifest.key).unlink(missing_ok=True)


def is_settled(workspace: Workspace, manifest: BatchManifest) -> bool:
    """Whether the batch's rows in the table are those of its manifest, as far as any ingest has touched them."""
    now = _read(workspace, manifest.key)
    if now is None:
        return True
    if not now.written or now.generation != manifest.generation:
        return False
    return not now.taken or not _holds(workspace, manifest, now.taken)


def unsettled_keys(workspace: Workspace) -> set[str]:
    """The batches of which something is written down; not all of them are behind."""
    return {workspace.state.key_of(path.parent) for path in workspace.state.batches.glob("*/unsettled.json")}


def _holds(workspace: Workspace, manifest: BatchManifest, ids: Iterable[str]) -> bool:
    held = workspace.held_ids(manifest)
    return bool(pc.any(among(held, pa.array(ids, held.type))).as_py())


def _locked(workspace: Workspace, key: str) -> AbstractContextManager[object]:
    folder = workspace.state.batch(key)
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / ".unsettled.lock")


def _path(workspace: Workspace, key: str) -> Path:
    return workspace.state.batch(key) / "unsettled.json"


def _read(workspace: Workspace, key: str) -> Unsettled | None:
    path = _path(workspace, key)
    return Unsettled(**read_json(path)) if path.exists() else None


def _write(workspace: Workspace, key: str, now: Unsettled) -> None:
    write_json(_path(workspace, key), asdict(now))
