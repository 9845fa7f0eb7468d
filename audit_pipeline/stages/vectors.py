"""The stage that compares stored vectors with fresh ones, and what other stages take from it."""

from __future__ import annotations

import pyarrow as pa

from audit_pipeline.encoder.fingerprint import fingerprint
from audit_pipeline.encoder.roles import PASSAGE
from audit_pipeline.encoder.row_fidelity import judge_rows
from audit_pipeline.encoder.truncation_probe import Cut
from audit_pipeline.findings import Finding
from audit_pipeline.index.snapshot import USABLE, TableSnapshot
from audit_pipeline.index.truncation import ReadLimit, truncation_findings, truncation_not_measured
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.miss import Fidelity
from audit_pipeline.stages.index import pinned_snapshot
from audit_pipeline.stages.workspace import Workspace, corpus_stage


@corpus_stage
def role_fingerprint(workspace: Workspace) -> StageResult:
    """A few stored vectors of each batch against fresh encodings of the texts they should carry."""
    snapshot = pinned_snapshot(workspace)
    result = fingerprint(
        snapshot.rows,
        snapshot.vectors,
        snapshot.vector_state == USABLE,
        workspace.encoder,
        workspace.vectors,
        workspace.settings,
        store=workspace.population() if workspace.has_store else None,
        progress=workspace.progress,
    )
    result.findings += truncation(workspace, result)
    return result


def truncation(workspace: Workspace, fingerprinted: StageResult) -> list[Finding]:
    """Texts longer than what is read of them: the encoder's declared limit, or a shorter one that the probes showed."""
    encoder = workspace.encoder
    if encoder is None:
        return [truncation_not_measured("no encoder says how much it reads")]
    limits: list[ReadLimit] = []
    if encoder.max_tokens is not None and not encoder.counts_are_estimates:
        what = f"the {encoder.max_tokens:,} tokens the encoder reads"
        limits.append(ReadLimit(encoder.max_tokens, "tokens", what))
    reach, found = fingerprinted.summary["reach"], fingerprinted.summary["cut"]
    cuts = [(reach["cut"], "that the encoder reads")] if reach is not None and reach["cut"] is not None else []
    cuts += [(found["cut"], "that the vectors encode")] if found is not None and found["adopted"] else []
    for fields, whose in cuts:
        cut = Cut(**fields)
        what = f"{cut} {whose}"
        by_words = ReadLimit(cut.words, "words", what)
        limits.append(by_words if cut.tokens is None else ReadLimit(cut.tokens, "tokens", what))
    if not limits and reach is not None and reach["texts"] and encoder.max_tokens is None:
        return []  # the ends of the longest texts matter: no text is cut
    if not limits:
        return [truncation_not_measured(reach["reason"] if reach and reach["reason"] else "the encoder names no limit")]
    lengths = workspace.population().select(["chunk_id", "source", "batch", "n_tokens", "n_words"])
    return truncation_findings(
        lengths, min(limits, key=lambda limit: limit.length), workspace.settings.limits.truncated
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
        calibration | {"cut": workspace.summary("role_fingerprint")["cut"]},
        embed_text=templates.pop() if len(templates) == 1 else workspace.settings.index.embed_text,
        store=workspace.population() if workspace.has_store else None,
    )
    return Fidelity(judged.states, judged.fresh)
