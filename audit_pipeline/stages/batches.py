"""The batches of an index taken together: what is not in it, what failed, what may not be written. No row is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit_pipeline.encoder.fidelity import MISALIGNED, ROLE_MISMATCH, VECTOR_DRIFT
from audit_pipeline.plural import counted
from audit_pipeline.stages.ingest import FAULTS, changed_batches, integrity_faults, pending_chunks, pending_folder
from audit_pipeline.stages.limits import CheckOutcome
from audit_pipeline.stages.texts import embedded
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_json, read_table, write_json

BATCH_CHECKS = {
    "covers_all_batches": "The table holds every batch of the source store, each as the store has it now.",
    "no_failed_batches": "No batch was left half done by its last ingest or stands faulty in the table.",
}
"""Check on the whole of the batches -> what passes it; the second one belongs to a managed index."""

_NAMED = 5
_CODE_OF_STATE = {ROLE_MISMATCH: "role_mismatch", MISALIGNED: "misaligned_vectors", VECTOR_DRIFT: "vector_drift"}


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


def batch_check(workspace: Workspace, name: str) -> CheckOutcome:
    """The outcome of one of BATCH_CHECKS."""
    return covers_all_batches(workspace) if name == "covers_all_batches" else no_failed_batches(workspace)


def covers_all_batches(workspace: Workspace) -> CheckOutcome:
    """Batches of the source store that the table lacks, or has in an older state."""
    if not workspace.has_store:
        return CheckOutcome(True, error=False, text="not measured: no sources to tell", figures={"n": 0})
    if workspace.settings.index.managed:
        scan = workspace.scan(again=True)
        behind = {change.key: change.reason for change in changed_batches(workspace, scan)}
        unread = {name: str(error) for name, error in scan.unread.items()}
        if unread:
            text = f"{counted(len(unread), 'source')} cannot be read: {next(iter(unread.values()))}"
            return CheckOutcome(False, error=True, text=text, figures={"behind": len(behind), "n": len(scan.batches)})
        return _named("behind the source store", behind, len(scan.batches))
    rows = workspace.table("corpus_integrity", "batch_integrity").to_pylist()
    absent = {row["batch"]: "not in the table" for row in rows if row["store_rows"] and not row["table_rows"]}
    return _named("not in the table", absent, sum(bool(row["store_rows"]) for row in rows))


def no_failed_batches(workspace: Workspace) -> CheckOutcome:
    """Batches whose last ingest did not finish, and those that it found faulty in the table."""
    manifests = {workspace.state.batch(manifest.key): manifest for manifest in workspace.manifests()}
    failed = {}
    for folder in sorted(path.parent for path in workspace.state.batches.glob("*/pending.json")):
        manifest = manifests.get(folder)
        if manifest is None or read_json(folder / "pending.json")["generation"] != manifest.generation:
            failed[manifest.key if manifest else workspace.state.key_of(folder)] = "not finished"
        elif faults := integrity_faults(workspace, manifest.key):
            failed[manifest.key] = ", ".join(faults)
    return _named("failed", failed, len(manifests))


def _named(what: str, batches: dict[str, str], of: int) -> CheckOutcome:
    some = ", ".join(f"{key} ({reason})" for key, reason in sorted(batches.items())[:_NAMED])
    more = f" and {len(batches) - _NAMED} more" if len(batches) > _NAMED else ""
    text = f"{counted(len(batches), 'batch', 'batches')} {what}: {some}{more}" if batches else f"none {what}"
    return CheckOutcome(not batches, error=True, text=text, figures={"batches": len(batches), "n": of})


def batch_would_vanish(workspace: Workspace, key: str) -> dict[str, int]:
    """Counts where no row of the batch can be used any more, though it still has rows; empty where all is well.

    A column that was renamed does that. To go on would delete all that the table holds of the batch.
    """
    known = workspace.manifest(key)
    rejected = read_table(pending_folder(workspace, key) / "rejected.parquet", ["reason"])
    if known is None or not known.rows or len(pending_chunks(workspace, key)) or not len(rejected):
        return {}
    return {"rejected": len(rejected), "rows_in_table": known.rows}


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
