"""The stage that compares stored vectors with fresh ones, and what other stages take from it."""

from __future__ import annotations

import pyarrow as pa

from audit_pipeline.encoder.fingerprint import fingerprint
from audit_pipeline.encoder.roles import PASSAGE
from audit_pipeline.encoder.row_fidelity import judge_rows
from audit_pipeline.index.snapshot import USABLE, TableSnapshot
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.miss import Fidelity
from audit_pipeline.stages.index import pinned_snapshot
from audit_pipeline.stages.workspace import Workspace, corpus_stage


@corpus_stage
def role_fingerprint(workspace: Workspace) -> StageResult:
    """A few stored vectors of each batch against fresh encodings of the texts they should carry."""
    snapshot = pinned_snapshot(workspace)
    return fingerprint(
        snapshot.rows,
        snapshot.vectors,
        snapshot.vector_state == USABLE,
        workspace.encoder,
        workspace.vectors,
        workspace.settings,
        store=workspace.population() if workspace.has_store else None,
        progress=workspace.progress,
    )


def roles_of_batches(workspace: Workspace) -> dict[str, str]:
    """The arm found for each batch; batches whose arm was not found are left out."""
    arms = workspace.table("role_fingerprint", "batch_arms")
    return {row["batch"]: row["arm"] for row in arms.to_pylist() if row["arm"] is not None}


def fidelity_of(workspace: Workspace, snapshot: TableSnapshot, chunk_ids: list[str]) -> Fidelity:
    """The vector checks of these chunks' rows, with the fingerprint's tolerance; empty where it has none."""
    calibration = workspace.summary("role_fingerprint")["calibration"]
    encoder = workspace.encoder
    # Where the writer embeds more than it stores, every row differs from what can be encoded here: no row is at fault.
    unknown_text = any(finding.code == "embedded_text_unknown" for finding in workspace.findings("role_fingerprint"))
    if calibration is None or encoder is None or unknown_text:
        return Fidelity()
    ordinals = snapshot.row_of(pa.array(chunk_ids, pa.string()))
    arms = workspace.table("role_fingerprint", "batch_arms").to_pylist()
    templates = {row["embed_text"] for row in arms if row["arm"] == PASSAGE}
    judged = judge_rows(
        snapshot.rows,
        snapshot.vectors,
        snapshot.vector_state == USABLE,
        ordinals[ordinals >= 0],
        encoder,
        workspace.vectors,
        workspace.settings,
        calibration,
        embed_text=templates.pop() if len(templates) == 1 else workspace.settings.index.embed_text,
        store=workspace.population() if workspace.has_store else None,
    )
    return Fidelity(judged.states, judged.fresh)
