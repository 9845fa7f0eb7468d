"""The stage that compares what the application really sends and gets with the settings. Nothing is judged here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from audit_pipeline.corpus.observed_queries import read_observed_queries
from audit_pipeline.encoder.calibration import NOISE_LOSS, batch_dependence
from audit_pipeline.encoder.query_side import QuerySide, arms_of_queries, judge_queries
from audit_pipeline.encoder.roles import accepted_arms
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.observed import ObservedLog, run_observed
from audit_pipeline.stages.index import pinned_snapshot
from audit_pipeline.stages.workspace import Workspace, corpus_stage

UNSTABLE = "the encoder's vectors depend on the batch, so no query vector can be compared with a fresh one"


class UnstableEncoderError(Exception):
    """The encoder gives a text another vector in another batch."""


@corpus_stage
def observed_retrieval(workspace: Workspace) -> StageResult:
    """The application's own queries, vectors and answers; an empty result where there is no log of them."""
    settings = workspace.settings
    if settings.labels.observed is None:
        return StageResult()
    snapshot = pinned_snapshot(workspace)
    read = read_observed_queries(Path(settings.labels.observed), settings.sample.total, settings.sample.seed)
    log = ObservedLog.of(read.rows, read.given, snapshot.info.dimension)
    reason = _unmeasurable(workspace, snapshot.info.dimension)
    side = None
    if reason is None and len(log.to_judge):
        try:
            side = _judged(workspace, log)
        except UnstableEncoderError:
            reason = UNSTABLE
    return run_observed(snapshot, log, side, reason, settings, workspace.progress)


def _unmeasurable(workspace: Workspace, dimension: int) -> str | None:
    """Why no query vector can be compared with a fresh encoding; None where it can."""
    if workspace.encoder is None:
        return "no encoder is configured (encoder.kind none)"
    if workspace.encoder.dimension != dimension:
        return f"the encoder gives {workspace.encoder.dimension} dimensions, the table holds {dimension}"
    if any(finding.code == "encoder_unstable" for finding in workspace.findings("role_fingerprint")):
        return UNSTABLE
    return None


def _judged(workspace: Workspace, log: ObservedLog) -> QuerySide:
    encoder = workspace.encoder
    assert encoder is not None
    texts = log.rows["query"].take(pa.array(log.to_judge)).to_pylist()

    def encode(of_texts: list[str], arm: str) -> np.ndarray:
        encoded = workspace.encode(arm, pa.array(of_texts, pa.large_string()), "observed queries")
        workspace.count_cached(encoded)
        return encoded.vectors

    def check_stability(of_texts: list[str]) -> None:
        # The fingerprint has done so where it could compare any row.
        if workspace.summary("role_fingerprint")["calibration"] is None:
            arm = workspace.settings.encoder.query_arm
            if batch_dependence(encoder, workspace.vectors, of_texts, arm) > NOISE_LOSS:
                raise UnstableEncoderError

    arms = arms_of_queries(workspace.settings.encoder, encoder.own_prompts)
    if encoder.is_remote:
        arms = accepted_arms(arms, texts[0], encode)
    sent = log.vectors[log.to_judge]
    return judge_queries(
        texts, sent, arms, encode, prompt_is_text=not encoder.excludes_prompt, stability=check_stability
    )
