"""What has arrived since the last look: batches to ingest, sources not seen before. A table's new version is elsewhere.

Nothing is ingested or registered here, and nothing is known of Dagster but that it keeps a cursor between two looks.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.corpus.scans import BatchInfo, StoreScan
from audit_pipeline.plural import counted
from audit_pipeline.stages.batches import batches_to_bring_in
from audit_pipeline.stages.changes import BatchChange
from audit_pipeline.stages.ingest import generation_of
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_json, write_json

MEMORY = "memory"
MOST_AT_ONCE = 200
"""Batches that one look requests; the next looks request the others. Every request is a run that Dagster keeps."""


@dataclass(frozen=True)
class Request:
    """One batch to be brought up to date. A state of a batch has one ``run_key``: it is never asked for twice."""

    change: BatchChange
    cell: str  # batch key and count of ingests
    generation: str
    turn: int

    @property
    def run_key(self) -> str:
        return _run_key(self.cell, self.generation, self.turn)

    @property
    def digest(self) -> str:
        return _digest(self.run_key)


@dataclass(frozen=True)
class Discovery:
    """Outcome of one look at the source store. ``sources`` are slugs of all sources there are or ever were; ``notes``
    say, a sentence each, what could not be read or is left for later; ``asked_before`` are keys of batches that an
    earlier look asked for and that are not up to date yet.
    """

    sources: list[str]
    requests: list[Request]
    notes: list[str]
    cursor: str
    asked_before: list[str]


@dataclass
class _Memory:
    """What one look tells the next: short digests of what was ``requested`` and is not up to date, by source the last
    period it had when it was seen first, and by batch and count of ingests how often each content was ``asked`` for.

    It is kept in the state folder, and the cursor is its name: Dagster keeps the cursor of every look for days. The
    memory of the look before is left there, for where this look's cursor is never kept.
    """

    requested: list[str] = field(default_factory=list)
    history: dict[str, str] = field(default_factory=dict)
    asked: dict[str, dict[str, int]] = field(default_factory=dict)

    def turn(self, cell: str, generation: str) -> int:
        """How often before a batch had come to this content: what it was asked for and is still waited for is not over.

        A content that could not be ingested, went, and comes back is asked for again, which needs another run key.
        """
        times = self.asked.get(cell, {}).get(generation, 0)
        return times - 1 if times and self.waits_for(cell, generation) else times

    def waits_for(self, cell: str, generation: str) -> bool:
        """Whether the content, as it was asked for last, was not up to date at the look before."""
        times = self.asked.get(cell, {}).get(generation, 0)
        return _digest(_run_key(cell, generation, max(times - 1, 0))) in self.requested


def discover(
    workspace: Workspace, cursor: str | None, *, grid_start: dt.date | None = None, most: int = MOST_AT_ONCE
) -> Discovery:
    """The batches to ingest that no earlier look has asked for, the first ``most`` of them by key.

    Batches before ``grid_start`` cannot be asked for yet: the start is remembered, so that the next load of the
    definitions has them.
    """
    memory = _remembered(workspace, cursor)
    scan = workspace.scan(again=True)
    notes = [f"not read: {error}" for error in scan.unread.values()]
    latest: dict[str, dt.date] = {}
    for info in scan.batches.values():
        latest[info.slug] = max(info.period, latest.get(info.slug, info.period))
    memory.history = {source: day.isoformat() for source, day in latest.items()} | memory.history
    # Counted before it is seen what is behind: a batch whose run ends in between would else have come to another count
    # than it was asked for under, and be asked for again.
    manifests = workspace.manifests()
    ingests = {manifest.key: manifest.ingests for manifest in manifests}
    pending = [
        _request(workspace, memory, change, scan.batches.get(change.key), ingests.get(change.key, 0))
        for change in batches_to_bring_in(workspace, scan)
    ]
    outside = [one for one in pending if grid_start is not None and parse_batch_key(one.change.key)[0] < grid_start]
    if outside:
        workspace.state.extend_back_to(min(parse_batch_key(one.change.key)[0] for one in outside))
    waiting = [one for one in pending if _is_history(workspace, one.change, memory)]
    early = [one for one in outside if one not in waiting]
    if early:
        notes.append(
            f"{counted(len(early), 'batch', 'batches')} before {grid_start}, where the grid begins: reload the code "
            "location, then they are asked for"
        )
    notes += _waiting_notes(workspace, waiting)
    hidden = len(outside) - len(early)
    if hidden:
        notes.append(
            f"{hidden:,} of these before {grid_start}, where the grid begins: the UI has them once the code location "
            "is reloaded"
        )
    held = {one.change.key for one in [*early, *waiting]}
    eligible = [one for one in pending if one.change.key not in held]
    before = set(memory.requested)
    new = [one for one in eligible if one.digest not in before]
    asked = new[:most]
    if len(new) > most:
        notes.append(f"{counted(len(new) - most, 'more batch', 'more batches')}: asked for by the next looks")
    asked_now = {one.digest for one in asked}
    unseen = _of_unread(memory, scan)
    memory.requested = [one.digest for one in eligible if one.digest in before | asked_now] + unseen
    memory.asked = {
        cell: times
        for cell, times in memory.asked.items()
        if cell == _cell(of := cell.rpartition(" ")[0], ingests.get(of, 0))
    }
    for one in eligible:
        if one.digest in before | asked_now:
            memory.asked.setdefault(one.cell, {})[one.generation] = one.turn + 1
    known = {parse_batch_key(manifest.key)[1] for manifest in manifests}
    sources = sorted({info.slug for info in scan.batches.values()} | known)
    asked_before = [one.change.key for one in eligible if one.digest in before]
    return Discovery(sources, asked, notes, _remember(workspace, memory, cursor), asked_before)


def waiting_batches(workspace: Workspace) -> frozenset[str]:
    """Keys of the batches that the settings leave to a backfill, as far as a look has seen their source."""
    if workspace.settings.automation.history != "wait" or not workspace.settings.index.managed:
        return frozenset()
    memory = _last_memory(workspace)
    changes = batches_to_bring_in(workspace, workspace.scan(again=True))
    return frozenset(change.key for change in changes if _is_history(workspace, change, memory))


def unasked_batches(workspace: Workspace) -> frozenset[str]:
    """Keys of the batches that a next look will ask for: they arrived since the last one, or were too many for it."""
    memory, scan = _last_memory(workspace), workspace.scan(again=True)
    ingests = {manifest.key: manifest.ingests for manifest in workspace.manifests()}
    behind = [
        _request(workspace, memory, change, scan.batches.get(change.key), ingests.get(change.key, 0))
        for change in batches_to_bring_in(workspace, scan)
    ]
    requested = set(memory.requested)
    return frozenset(
        one.change.key
        for one in behind
        if one.digest not in requested and not _is_history(workspace, one.change, memory)
    )


def _last_memory(workspace: Workspace) -> _Memory:
    """What the last look left; an empty memory where there was none."""
    kept = sorted(_memory_path(workspace, "").parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
    return _Memory(**read_json(kept[-1])) if kept else _Memory()


def _request(
    workspace: Workspace, memory: _Memory, change: BatchChange, info: BatchInfo | None, ingests: int
) -> Request:
    """The counts of ingests and of turns make a batch that returns to a content a new request: run keys hold for ever.

    Where the memory is lost, the first turn's run key is one that Dagster knows, so nothing is run again.
    """
    cell, generation = _cell(change.key, ingests), generation_of(workspace, info)
    return Request(change, cell, generation, memory.turn(cell, generation))


def _of_unread(memory: _Memory, scan: StoreScan) -> list[str]:
    """Digests of what was asked for of sources that cannot be read now: whether it is up to date is not known."""
    if not scan.unread:
        return []
    return [
        _digest(_run_key(cell, generation, times - 1))
        for cell, of_cell in memory.asked.items()
        for generation, times in of_cell.items()
        if memory.waits_for(cell, generation)
        and scan.unread_for(parse_batch_key(cell.rpartition(" ")[0])[1]) is not None
    ]


def _cell(key: str, ingests: int) -> str:
    return f"{key} {ingests}"


def _run_key(cell: str, generation: str, turn: int) -> str:
    return f"{cell} {generation} {turn}" if turn else f"{cell} {generation}"


def _digest(run_key: str) -> str:
    return hashlib.sha256(run_key.encode()).hexdigest()[:10]


def _is_history(workspace: Workspace, change: BatchChange, memory: _Memory) -> bool:
    """Whether a batch stood in its source before the source was first seen, and the settings leave such alone."""
    period, source = parse_batch_key(change.key)
    old = period.isoformat() <= memory.history.get(source, "")
    return workspace.settings.automation.history == "wait" and change.reason == "new" and old


def _waiting_notes(workspace: Workspace, waiting: list[Request]) -> list[str]:
    counts: dict[str, int] = {}
    for one in waiting:
        source = parse_batch_key(one.change.key)[1]
        counts[source] = counts.get(source, 0) + 1
    return [
        f"{counted(count, 'batch', 'batches')} of {source} from before it was first seen: backfill them "
        f"(audit-pipeline backfill --source {source})"
        for source, count in sorted(counts.items())
    ]


def _remembered(workspace: Workspace, cursor: str | None) -> _Memory:
    """The memory that a cursor names; an empty one where it is gone, and so is what its batches were ingested to."""
    given = json.loads(cursor) if cursor else {}
    if MEMORY not in given:
        return _Memory(**given)
    path = _memory_path(workspace, given[MEMORY])
    return _Memory(**read_json(path)) if path.exists() else _Memory()


def _remember(workspace: Workspace, memory: _Memory, cursor: str | None) -> str:
    """The cursor that names this memory; of earlier ones the one that ``cursor`` names is left."""
    name = hashlib.sha256(json.dumps(asdict(memory), sort_keys=True).encode()).hexdigest()[:16]
    path = _memory_path(workspace, name)
    if not path.exists():
        write_json(path, asdict(memory))
    before = json.loads(cursor).get(MEMORY) if cursor else None
    for other in path.parent.glob("*.json"):
        if other.stem not in (name, before):
            other.unlink(missing_ok=True)
    return json.dumps({MEMORY: name})


def _memory_path(workspace: Workspace, name: str) -> Path:
    return workspace.state.audit / "discovery" / f"{name}.json"
