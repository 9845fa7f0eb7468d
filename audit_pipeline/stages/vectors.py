"""Stored vectors against fresh ones, and what other stages take from it. No vector is judged here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.encoder.cutting import Cut, Scissors
from audit_pipeline.encoder.fingerprint import fingerprint
from audit_pipeline.encoder.roles import PASSAGE
from audit_pipeline.encoder.row_fidelity import judge_rows
from audit_pipeline.encoder.template import embedded_texts
from audit_pipeline.findings import Finding
from audit_pipeline.index.lengths import at_usual_length
from audit_pipeline.index.snapshot import USABLE, TableSnapshot
from audit_pipeline.index.truncation import ReadLimit, truncation_findings, truncation_not_measured
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.miss import Fidelity
from audit_pipeline.retrieval.rows_ahead import ReadPart
from audit_pipeline.stages.index import pinned_snapshot
from audit_pipeline.stages.workspace import Workspace, corpus_stage

if TYPE_CHECKING:
    from audit_pipeline.encoder.protocol import Encoder


UNFAITHFUL = ("role_mismatch", "vector_drift", "misaligned_vectors")


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
    lengths = workspace.population(["chunk_id", "source", "ingestion_date", "batch", "n_tokens", "n_words"])
    return truncation_findings(
        lengths, min(limits, key=lambda limit: limit.length), workspace.settings.limits.truncated
    )


def roles_of_batches(workspace: Workspace) -> dict[str, str]:
    """The arm found for each batch; batches whose arm was not found are left out."""
    arms = workspace.table("role_fingerprint", "batch_arms")
    return {row["batch"]: row["arm"] for row in arms.to_pylist() if row["arm"] is not None}


def suspected_rows(workspace: Workspace, snapshot: TableSnapshot) -> np.ndarray | None:
    """(n,) bool: rows of batches whose vectors were not all found to be as configured; None where all were."""
    if not any(finding.code in UNFAITHFUL for finding in workspace.findings("role_fingerprint")):
        return None
    arms = workspace.table("role_fingerprint", "batch_arms").to_pylist()
    others = pa.array([row["batch"] for row in arms if row["arm"] != PASSAGE], pa.string())
    return pc.is_in(snapshot.rows["batch"], value_set=others).to_numpy(zero_copy_only=False)


def read_part_of(workspace: Workspace, snapshot: TableSnapshot) -> ReadPart | None:
    """What is read of a row's embedded text where that is not all of it; None where no limit is known in tokens."""
    encoder = workspace.encoder
    if encoder is None:
        return None
    cut = _shortest_cut(workspace, encoder)
    if cut is None:
        return None
    scissors, template = Scissors(encoder, workspace.settings.encoder.passage_arm), workspace.settings.index.embed_text
    seen: dict[tuple[int, bool], str | None] = {}

    def read(row: int, text: str | None) -> str | None:
        key = (row, text is None)
        if key not in seen:
            fields = snapshot.rows.slice(row, 1)
            if text is not None:
                fields = fields.set_column(fields.column_names.index("text"), "text", pa.array([text], pa.string()))
            piece = scissors.cut_text(embedded_texts(fields, template)[0].as_py() or "", cut)
            seen[key] = None if piece is None else piece.text
        return seen[key]

    return read


def adopted_cut(workspace: Workspace) -> Cut | None:
    """The cut that the writer of the vectors was found to make in nearly all batches; None where there is none."""
    found = workspace.summary("role_fingerprint")["cut"]
    return Cut(**found["cut"]) if found is not None and found["adopted"] else None


def _shortest_cut(workspace: Workspace, encoder: Encoder) -> Cut | None:
    reach, adopted = workspace.summary("role_fingerprint")["reach"], adopted_cut(workspace)
    cuts = [Cut(**reach["cut"])] if reach is not None and reach["cut"] is not None else []
    cuts += [adopted] if adopted is not None else []
    if not cuts and encoder.max_tokens is not None and not encoder.counts_are_estimates:
        cuts = [Cut("head", encoder.max_tokens, 0, 0)]
    return min(cuts, key=lambda cut: cut.tokens or cut.words) if cuts else None


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
    if not judged.fresh:
        return Fidelity(judged.states)
    rows = snapshot.row_of(pa.array(judged.fresh, pa.string()))
    fresh = at_usual_length(snapshot, rows, np.stack(list(judged.fresh.values())))
    return Fidelity(judged.states, dict(zip(judged.fresh, fresh, strict=True)))
