"""The stage that compares stored vectors with fresh ones, and what other stages take from it."""

from __future__ import annotations

from audit_pipeline.encoder.fingerprint import fingerprint
from audit_pipeline.index.snapshot import USABLE
from audit_pipeline.results import StageResult
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
