"""The vector checks for chosen rows, such as those of missed probes. A sample per batch is drawn in fingerprint.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.arms import as_arm
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.calibration import ArmLoss, Calibration
from audit_pipeline.encoder.cells import Cells
from audit_pipeline.encoder.cut_rows import mark_cut_rows
from audit_pipeline.encoder.cutting import Cut, Scissors
from audit_pipeline.encoder.fidelity import CUT, FAITHFUL, MISALIGNED, VECTOR_DRIFT, judge
from audit_pipeline.encoder.fingerprint import seek_misaligned
from audit_pipeline.encoder.models import Encoder
from audit_pipeline.encoder.roles import PASSAGE
from audit_pipeline.encoder.sampling import draw_sample
from audit_pipeline.encoder.template import embedded_texts
from audit_pipeline.encoder.vector_store import VectorStore


@dataclass(frozen=True)
class JudgedRows:
    """By chunk_id: ``states`` and ``fresh``, the store's text encoded now.

    A state comes with the arm found, the shift, or the part of its text that a row faithful to the writer's cut holds.
    """

    states: dict[str, tuple[str, str | None]]
    fresh: dict[str, np.ndarray]


def judge_rows(
    rows: pa.Table,
    vectors: np.ndarray,
    usable: np.ndarray,
    ordinals: np.ndarray,
    encoder: Encoder,
    vector_store: VectorStore,
    settings: IndexAuditSettings,
    calibration: Mapping[str, Any],
    *,
    embed_text: str | None,
    store: pa.Table | None = None,
) -> JudgedRows:
    """Judge the rows ``ordinals`` (k,) of the table as the fingerprint judges its sample.

    ``rows``, ``vectors``, ``usable`` and ``store`` as in ``fingerprint``; ``calibration`` is the summary that it left
    (with ``cut``, the cut it found), so that both use one tolerance; ``embed_text`` the template in force.
    """
    chosen = np.unique(ordinals[usable[ordinals]])
    if not len(chosen):
        return JudgedRows({}, {})
    measured = Calibration(
        tuple(
            ArmLoss(arm["name"], as_arm(arm["prompt"], arm["request"]), arm["loss_median"], arm["loss_p5"])
            for arm in calibration["arms"]
        ),
        int(calibration["n"]),
    )
    prompt = settings.encoder.passage_arm
    # The arms that were calibrated: a server may have refused others.
    arms = {PASSAGE: prompt} | {arm.name: arm.prompt for arm in measured.arms}

    def encode(texts: list[str], of_prompt: str) -> np.ndarray:
        return vector_store.get_or_encode(encoder, of_prompt, texts).vectors

    sample = draw_sample(rows, vectors, chosen, Cells.of(rows).codes, store, embed_text)
    states = judge(sample, arms, embed_text, measured, encode)
    cut = calibration["cut"]
    if cut is not None:
        own_texts, scissors = embedded_texts(sample.fields, embed_text).to_pylist(), Scissors(encoder, prompt)
        known = Cut(**cut["cut"])
        mark_cut_rows(sample, states, own_texts, states.loss, known, measured, scissors, encode)
    texts = embedded_texts(rows, embed_text)
    misalignment = seek_misaligned(sample, states, measured, vectors, usable, texts, prompt, encode)
    ids = rows["chunk_id"].take(pa.array(chosen)).to_pylist()
    found: dict[str, tuple[str, str | None]] = {}
    for place, chunk_id in enumerate(ids):
        explanation = states.explanation[place]
        detail = explanation.name if explanation is not None else None
        if states.state[place] == MISALIGNED:
            detail = f"{int(misalignment.shifts[place]):+d}"
        state = states.state[place]
        if state == CUT and cut is not None:
            # What the whole corpus is written like is no fault of a row.
            state, detail = (FAITHFUL, str(known)) if cut["adopted"] else (VECTOR_DRIFT, f"only {known} are encoded")
        found[chunk_id] = (state, detail)
    return JudgedRows(found, dict(zip(ids, states.fresh, strict=True)))
