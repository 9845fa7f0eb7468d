"""The batches of an index taken together: what is not in it, what failed, what may not be written. No row is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import among, without
from audit_pipeline.corpus.batches import parse_batch_key, slug
from audit_pipeline.corpus.reasons import BEFORE_START, ID_COLLISION
from audit_pipeline.corpus.scans import StoreScan
from audit_pipeline.corpus.text import is_blank
from audit_pipeline.encoder.fidelity import MISALIGNED, ROLE_MISMATCH, VECTOR_DRIFT
from audit_pipeline.findings import Finding
from audit_pipeline.plural import counted, some
from audit_pipeline.stages.changes import BatchChange, changed_batches
from audit_pipeline.stages.ingest import FAULTS, integrity_faults, pending_chunks, pending_folder, pending_generation
from audit_pipeline.stages.limits import CheckOutcome
from audit_pipeline.stages.retired import retired_slugs
from audit_pipeline.stages.texts import embedded
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_json, read_table, write_json

BATCH_CHECKS = {
    "covers_all_batches": "The table holds every batch of the source store, each as the store has it now.",
    "no_failed_batches": "No batch was left half done by its last ingest or stands faulty in the table.",
}
"""Check on the whole of the batches -> what passes it; the second one belongs to a managed index."""

WHICH = "which"
"""The figure that lists what a check on the batches failed on: keys with reasons, or sources that cannot be read."""
_LISTED = 50
_CODE_OF_STATE = {ROLE_MISMATCH: "role_mismatch", MISALIGNED: "misaligned_vectors", VECTOR_DRIFT: "vector_drift"}
OF_SAMPLED_VECTORS = frozenset(_CODE_OF_STATE.values())
"""Counts of these codes are of the vectors that were encoded anew, a few of each batch."""


@dataclass(frozen=True)
class ObservedBatch:
    """One batch of an index as it stands, as the last audit found it.

    ``faults`` counts by finding code, empty for none: all rows of the batch, of its vectors those that were encoded
    anew. ``error`` is whether a finding of one of these codes is an error.
    """

    key: str
    rows: int
    faults: dict[str, int]
    error: bool


def batch_check(
    workspace: Workspace, name: str, under_way: Set[str] = frozenset(), waiting: Set[str] = frozenset()
) -> CheckOutcome:
    """The outcome of one of BATCH_CHECKS. ``under_way`` are keys of batches that a run has in hand or is to take up:
    what they lack is on its way and no failure. Nor is what is ``waiting`` for a backfill, since the settings say so.
    """
    if name == "covers_all_batches":
        return covers_all_batches(workspace, under_way, waiting)
    return no_failed_batches(workspace, under_way)


def covers_all_batches(
    workspace: Workspace, under_way: Set[str] = frozenset(), waiting: Set[str] = frozenset()
) -> CheckOutcome:
    """Batches of the source store that the table lacks, or has in an older state."""
    if not workspace.has_store:
        return CheckOutcome(True, error=False, text="not measured: no sources to tell")
    if workspace.settings.index.managed:
        scan = workspace.scan(again=True)
        behind = {change.key: change.reason for change in changed_batches(workspace, scan)}
        unread = {name: str(error) for name, error in scan.unread.items()}
        if unread:
            text = f"{counted(len(unread), 'source')} cannot be read: {next(iter(unread.values()))}"
            figures = {
                "behind": len(behind),
                "n": len(scan.batches),
                WHICH: [f"source {name} (cannot be read)" for name in unread],
            }
            return CheckOutcome(False, error=True, text=text, figures=figures)
        left = sorted(waiting & behind.keys())
        for key in left:
            del behind[key]
        outcome = _named("behind the source store", behind, under_way, len(scan.batches))
        if not left:
            return outcome
        text = f"{outcome.text}; {counted(len(left), 'batch', 'batches')} left to a backfill: {some(left)}"
        figures = {"left to a backfill": len(left), "which are left to a backfill": left[:_LISTED]}
        return replace(outcome, text=text, figures={**outcome.figures, **figures})
    rows = workspace.table("corpus_integrity", "batch_integrity").to_pylist()
    absent = {row["batch"]: "not in the table" for row in rows if row["store_rows"] and not row["table_rows"]}
    return _named("not in the table", absent, under_way, sum(bool(row["store_rows"]) for row in rows))


def no_failed_batches(workspace: Workspace, under_way: Set[str] = frozenset()) -> CheckOutcome:
    """Batches whose last ingest did not finish, and those that it found faulty in the table."""
    failed = {}
    unfinished, whole = _unfinished(workspace), workspace.manifests()
    left = dict.fromkeys(unfinished - mended_batches(workspace, unfinished), "not finished")
    for manifest in whole:
        started = (workspace.state.batch(manifest.key) / "pending.json").exists()
        if not started or manifest.key in unfinished:
            continue
        with suppress(FileNotFoundError):  # a run has begun with the batch since, and not come to its end
            if faults := integrity_faults(workspace, manifest.key):
                failed[manifest.key] = ", ".join(faults)
    # A batch that is faulty in the table is so until a run has mended it, so it counts though one is under way.
    return _named("failed", failed | left, under_way - failed.keys(), len(whole))


def unfinished_findings(workspace: Workspace) -> list[Finding]:
    """not_measured: batches whose last ingest was stopped, or is at work. The audit judges the table by what it had at
    its beginning, so it would pass over what these hold by now.
    """
    pinned = {pin.key: pin.generation for pin in workspace.pins()}
    begun = _unfinished(workspace)
    unfinished = {key for key in begun if pending_generation(workspace, key) != pinned.get(key)}
    left = sorted(unfinished - mended_batches(workspace, unfinished))
    if not left:
        return []
    absent = sum(key not in pinned for key in left)
    kept = {0: "which the table has as before", len(left): "which the table does not have"}.get(
        absent, f"of which the table has {len(left) - absent:,} as before and {absent:,} not at all"
    )
    return [
        Finding(
            "not_measured",
            "info",
            f"Not measured: {counted(len(left), 'batch', 'batches')} whose last ingest had not finished, {kept}: "
            f"{some(left)}.",
            "Where no run of it is at work any more, read in Dagster which check or error stopped it, mend that, then "
            "audit-pipeline run.",
            n_compared=0,
            evidence={"batches": left[:_LISTED]},
        )
    ]


def batches_to_bring_in(workspace: Workspace, scan: StoreScan | None = None) -> list[BatchChange]:
    """The batches that an ingest would change, and those that one would show sound again, by key.

    The table needs nothing of the latter, whose reason is restored: their last ingest was stopped, and the store has
    them as the table does by now. But what stopped them stands failed on their partitions until a run passes there.
    """
    scan = scan or workspace.scan()
    changes = changed_batches(workspace, scan)
    # Only what the store holds now: of a retired source, or a day to come, a run would read nothing and empty it.
    found = {key: info for key, info in scan.batches.items() if scan.unread_for(info.slug) is None}
    stopped = (_stopped_later(workspace) & found.keys()) - {change.key for change in changes}
    restored = [BatchChange(key, "restored", found[key].rows) for key in stopped]
    return sorted(changes + restored, key=lambda change: change.key)


def mended_batches(workspace: Workspace, unfinished: Set[str] | None = None) -> set[str]:
    """Batches whose last ingest was stopped and that the table has all the same: the store has them again as it does.

    ``unfinished`` are keys of those whose last ingest did not finish (default: looked for). A batch of a source that
    cannot be read is not among them.
    """
    unfinished = _unfinished(workspace) if unfinished is None else unfinished
    if not unfinished or not workspace.has_store:
        return set()
    scan = workspace.scan(again=True)
    behind = {change.key for change in changed_batches(workspace, scan)}
    return {key for key in unfinished - behind if scan.unread_for(parse_batch_key(key)[1]) is None}


def _unfinished(workspace: Workspace) -> set[str]:
    """Keys of the batches whose chunks were read last for a generation that is not their current one."""
    current = {manifest.key: manifest.generation for manifest in workspace.manifests()}
    begun = {workspace.state.key_of(path.parent): path for path in workspace.state.batches.glob("*/pending.json")}
    return {key for key, path in begun.items() if read_json(path)["generation"] != current.get(key)}


def _stopped_later(workspace: Workspace) -> set[str]:
    """Those of the unfinished batches that came in before. A look for them is made every minute, and there may be many
    thousands: only where the files' times leave it open are they read.
    """
    found = set()
    for begun in workspace.state.batches.glob("*/pending.json"):
        finished = begun.with_name("batch.json")
        if not finished.exists() or begun.stat().st_mtime_ns < finished.stat().st_mtime_ns:
            continue
        if read_json(begun)["generation"] != read_json(finished)["generation"]:
            found.add(workspace.state.key_of(begun.parent))
    return found


def _named(what: str, batches: dict[str, str], under_way: Set[str], of: int) -> CheckOutcome:
    bad = [f"{key} ({reason})" for key, reason in sorted(batches.items()) if key not in under_way]
    coming = sorted(key for key in batches if key in under_way)
    text = f"{counted(len(bad), 'batch', 'batches')} {what}: {some(bad)}" if bad else f"none {what}"
    figures: dict[str, Any] = {"batches": len(bad), "under way": len(coming), "n": of}
    if bad:
        figures[WHICH] = bad[:_LISTED]
    if coming:
        text += f"; {counted(len(coming), 'batch', 'batches')} under way: {some(coming)}"
        figures["which are under way"] = coming[:_LISTED]
    return CheckOutcome(not bad, error=True, text=text, figures=figures)


def rows_that_would_vanish(workspace: Workspace, key: str) -> dict[str, int]:
    """Counts where to go on would delete rows that the store still has; empty where all is well.

    Either no row of the batch can be used any more, though it still has rows: a column that was renamed does that. Or
    rows that it held stand in the store with a date that cannot be used, and so in no batch: a date written another
    way does that, or a clock set back. Rows that the store holds no more, or in another batch, may go: where another
    source brings all ids of a batch with an earlier date, each of its rows is rejected, and none is lost.
    """
    known = workspace.manifest(key)
    if known is None or not known.rows or parse_batch_key(key)[1] in retired_slugs(workspace):
        return {}
    chunks = pending_chunks(workspace, key)
    rejected = read_table(pending_folder(workspace, key) / "rejected.parquet", ["reason", "chunk_id"])
    held = workspace.held_ids(known)
    lost = without(held, chunks["chunk_id"])
    # Rows that it keeps for another batch to take are none of its own, and what another batch has of it is no loss.
    emptied = not pc.any(among(chunks["chunk_id"], workspace.store.read_batch(key).chunks["chunk_id"])).as_py()
    theirs = pc.and_(pc.equal(rejected["reason"], ID_COLLISION), among(rejected["chunk_id"], held))
    unusable = len(rejected) - (pc.sum(theirs).as_py() or 0)
    if unusable and emptied and len(_in_no_other_batch(workspace, key, lost)):
        return {"rejected": len(rejected), "rows_in_table": known.rows}
    undated = _rows_without_a_day(workspace, key, lost, emptied=emptied)
    return {"rows_without_a_day": undated, "rows_in_table": known.rows} if undated else {}


def _rows_without_a_day(workspace: Workspace, key: str, lost: pa.Array, *, emptied: bool) -> int:
    """How many of the ids that a batch holds no more the store has in no batch, since their date cannot be used.

    They are known by their ids. Rows without one may be those of a batch of which nothing is left, if they are as many.
    Rows before the start date are left out because the settings say so: those may go.
    """
    unplaced = workspace.store.unplaced()
    unplaced = unplaced.filter(pc.not_equal(unplaced["reason"], BEFORE_START))
    if not len(unplaced):
        return 0
    stranded = lost.filter(among(lost, unplaced["chunk_id"].drop_null()))
    stranded = _in_no_other_batch(workspace, key, stranded)
    source = parse_batch_key(key)[1]
    nameless = unplaced.filter(pc.fill_null(is_blank(unplaced["chunk_id"]), True))["source"].to_pylist()
    may_be_its = sum(raw is None or slug(raw) == source for raw in nameless)
    if emptied and may_be_its >= len(lost):
        return len(lost)
    return len(stranded)


def _in_no_other_batch(workspace: Workspace, key: str, ids: pa.Array) -> pa.Array:
    """Those of a batch's ids that no other batch of the store has a row of: what stands in one has only moved."""
    scan = workspace.scan()
    for other, info in scan.batches.items() if len(ids) else ():
        if other != key and scan.unread_for(info.slug) is None:
            ids = without(ids, workspace.store.read_batch(other).chunks["chunk_id"])
    return ids


def unusable_vectors(workspace: Workspace, key: str) -> dict[str, int]:
    """How many of the batch's fresh vectors have NaN or infinite values, or only zeros; empty where none has."""
    texts = embedded(workspace, pending_chunks(workspace, key))
    if not len(texts):
        return {}
    vectors = workspace.encode(workspace.settings.encoder.passage_arm, texts).vectors
    finite = np.isfinite(vectors).all(axis=1)
    counts = {"not_finite": int((~finite).sum()), "zero": int((~vectors[finite].any(axis=1)).sum())}
    return {kind: count for kind, count in counts.items() if count}


def observed_batches(workspace: Workspace) -> list[ObservedBatch]:
    """Every batch of an index as it stands by key, as the published audit found it.

    What of a batch's rows is a fault the findings say: counts of what they pass over, or only note, are none.
    """
    findings = read_json(workspace.state.report / "audit.json")["findings"]
    loud = {one["code"]: one["severity"] for one in reversed(findings) if one["severity"] != "info"}
    vectors: Counter[tuple[str, str]] = Counter()
    if workspace.has_table("role_fingerprint", "fingerprint"):
        sampled = workspace.table("role_fingerprint", "fingerprint", ["batch", "state"]).to_pylist()
        vectors.update(
            (row["batch"], _CODE_OF_STATE[row["state"]]) for row in sampled if row["state"] in _CODE_OF_STATE
        )
    batches = []
    for row in sorted(workspace.table("corpus_integrity", "batch_integrity").to_pylist(), key=lambda row: row["batch"]):
        counts = {code: row[code] for code in FAULTS if row[code]}
        counts |= {code: count for (batch, code), count in vectors.items() if batch == row["batch"]}
        faults = {code: count for code, count in counts.items() if code in loud}
        if row["table_rows"]:
            error = any(loud[code] == "error" for code in faults)
            batches.append(ObservedBatch(row["batch"], row["table_rows"], faults, error))
    return batches


def not_reported(workspace: Workspace, batches: list[ObservedBatch]) -> list[ObservedBatch]:
    """Those that are not as they were last reported: each report is an event that Dagster keeps for ever."""
    path = workspace.state.audit / "reported.json"
    known: dict[str, Any] = read_json(path) if path.exists() else {}
    return [one for one in batches if known.get(one.key) != _told(one)]


def remember_reported(workspace: Workspace, batches: list[ObservedBatch]) -> None:
    """Keep what has been reported of every batch."""
    write_json(workspace.state.audit / "reported.json", {one.key: _told(one) for one in batches})


def _told(batch: ObservedBatch) -> list[Any]:
    return [batch.rows, batch.faults]
