"""The role fingerprint: which prompt, text and model the stored vectors of each batch carry. It opens no table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.arms import split_arm
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.text import is_blank
from audit_pipeline.encoder.alignment import MOST_SOUGHT, first_misaligned_row, seek, seek_owners
from audit_pipeline.encoder.calibration import (
    CALIBRATION_ROWS,
    NOISE_LOSS,
    Calibration,
    EncodeFunction,
    batch_dependence,
    calibrate,
    cosine_loss,
)
from audit_pipeline.encoder.cells import Cells, CellVerdict, adopt_template, arms_of_rows
from audit_pipeline.encoder.cut_findings import cut_findings
from audit_pipeline.encoder.cut_rows import CutFound, find_cut
from audit_pipeline.encoder.cutting import Scissors
from audit_pipeline.encoder.fidelity import MISALIGNED, VECTOR_DRIFT, RowStates, Sample, judge
from audit_pipeline.encoder.fingerprint_findings import Misalignment, findings_of
from audit_pipeline.encoder.lacking import encoder_unstable, not_measured, without_vector, wrong_dimension
from audit_pipeline.encoder.protocol import Encoder
from audit_pipeline.encoder.roles import accepted_arms, arms_of, prompt_not_applied
from audit_pipeline.encoder.sampling import draw_sample, longest_rows, sample_rows
from audit_pipeline.encoder.stretches import parts_of
from audit_pipeline.encoder.template import embedded_texts, without_fields
from audit_pipeline.encoder.truncation_probe import Reach, reach_of_encoder
from audit_pipeline.encoder.vector_store import VectorStore
from audit_pipeline.results import Progress, StageResult, no_progress

FINGERPRINT = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),  # ordinal in the table
        pa.field("batch", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),  # see encoder.fidelity
        pa.field("loss", pa.float64(), nullable=False),  # 1 - cos to the configured arm's encoding
        pa.field("arm", pa.string()),  # the arm the vector carries; null where none was found
        pa.field("template", pa.string()),  # the template where it is not the configured one
        pa.field("shift", pa.int64()),  # misaligned rows: the vector is that of the text this many rows further
    ]
)
"""Internal table of the sampled rows, sorted by chunk_id and row."""

BATCH_ARMS = pa.schema(
    [
        pa.field("batch", pa.string(), nullable=False),
        pa.field("arm", pa.string()),
        pa.field("prompt", pa.string()),  # null where no arm was found: nothing may be encoded for this batch
        pa.field("embed_text", pa.string()),  # the template its rows carry; null: the bare text
    ]
)
"""Internal table, a row a batch: how to encode a text so that it is comparable with the batch's vectors."""


def fingerprint(
    rows: pa.Table,
    vectors: np.ndarray,
    usable: np.ndarray,
    encoder: Encoder | None,
    vector_store: VectorStore,
    settings: IndexAuditSettings,
    *,
    store: pa.Table | None = None,
    progress: Progress = no_progress,
) -> StageResult:
    """Compare a few stored vectors of each batch with fresh encodings of the texts they should carry.

    A batch without dates is sampled all along the table, and a finding there names the rows that it fills.
    ``rows`` are the table's rows in table order with chunk_id, text, batch, and source and heading where they exist;
    ``vectors`` (n, d) float32; ``usable`` (n,) bool; ``store`` the source store's chunks. The longest rows are always
    among those compared: a runtime that cuts texts shows there alone. Returns summary keys ``roles`` (a row a batch,
    as in audit.json), ``calibration``, ``reach`` (how much the encoder reads) and ``cut`` (how much the vectors
    encode); tables ``fingerprint`` and ``batch_arms``.
    Raises AuditInputError where ``index.embed_text`` names a field that the rows do not have.
    """
    cells = Cells.of(rows)
    if encoder is None:
        return _nothing_measured(cells, [not_measured("no encoder is configured (encoder.kind none)")])
    findings = [
        finding
        for finding in [prompt_not_applied(encoder.own_prompts, encoder.prompts_never_applied, encoder.name)]
        if finding is not None
    ]
    if encoder.dimension != vectors.shape[1]:
        return _nothing_measured(cells, [*findings, wrong_dimension(encoder, vectors.shape)])
    embed_text = settings.index.embed_text
    texts = embedded_texts(rows, embed_text)
    eligible = usable & ~is_blank(texts).to_numpy(zero_copy_only=False)
    per_batch, total = settings.sample.fingerprint_per_batch, settings.sample.total
    strata = parts_of(rows, cells.codes, per_batch, total)
    chunk_ids = rows["chunk_id"].combine_chunks()
    ordinals = sample_rows(chunk_ids, strata, eligible, per_batch, total, settings.sample.seed)
    if not len(ordinals):
        return _nothing_measured(cells, [*findings, not_measured("no row has both a usable vector and a text")])
    longest = longest_rows(chunk_ids, texts, eligible)
    sample = draw_sample(rows, vectors, np.union1d(ordinals, longest), cells.codes, store, embed_text, strata)
    prompt = settings.encoder.passage_arm

    def encode(of_texts: list[str], of_prompt: str) -> np.ndarray:
        return vector_store.get_or_encode(encoder, of_prompt, of_texts).vectors

    # A text without a token the model knows has no direction: nothing stored can be compared with that.
    compared = np.isfinite(cosine_loss(sample.stored, encode(sample.texts, prompt)))
    if not compared.all():
        findings.append(without_vector(encoder, int(np.sum(~compared)), len(compared)))
        sample = sample.only(compared)
        ordinals = np.intersect1d(ordinals, sample.rows)
        if not len(ordinals):
            return _nothing_measured(cells, findings)
    calibration_texts = _calibration_texts(sample, ordinals)
    dependence = batch_dependence(encoder, vector_store, calibration_texts, prompt)
    if dependence > NOISE_LOSS:
        unstable = encoder_unstable(encoder, dependence, len(calibration_texts))
        reason = "the encoder's vectors depend on the batch, so no stored vector can be compared with a fresh one"
        return _nothing_measured(cells, [*findings, unstable, not_measured(reason)])

    arms = arms_of(settings.encoder, encoder.own_prompts)
    if encoder.is_remote:
        arms = accepted_arms(arms, calibration_texts[0], encode)
    progress("role fingerprint: arms", 0, 3)
    calibration = calibrate(calibration_texts, arms, encode)
    progress("role fingerprint: batches", 1, 3)
    states = judge(sample, arms, embed_text, calibration, encode)
    adopted = adopt_template(sample, states, embed_text, prompt)
    scissors = Scissors(encoder, prompt)
    reach = reach_of_encoder(sample.texts, states.fresh, scissors, encode, encoder.max_tokens, dependence)
    cut = find_cut(sample, states, adopted or embed_text, calibration, scissors, encode)
    progress("role fingerprint: unexplained rows", 2, 3)
    misalignment = seek_misaligned(sample, states, calibration, vectors, usable, texts, prompt, encode)
    progress("role fingerprint", 3, 3)
    verdicts = cells.verdicts(sample, states, calibration, settings.encoder, adopted or embed_text)

    def is_unfaithful(row: int) -> bool:
        one = rows.slice(row, 1)
        bare = without_fields(one, adopted or embed_text)[0]
        forms = [adopted or embed_text, None] if bare else [adopted or embed_text]
        fresh = [encode(embedded_texts(one, form).to_pylist(), prompt) for form in forms]
        stored = np.asarray(vectors[row : row + 1])
        return all(bool(cosine_loss(stored, vector)[0] > calibration.tolerance) for vector in fresh)

    findings += findings_of(cells, sample, states, misalignment, calibration, settings, adopted, rows, is_unfaithful)
    findings += cut_findings(cells, sample, states, cut, rows)
    return StageResult(
        tables={
            "fingerprint": _fingerprint_table(rows, cells, sample, states, misalignment),
            "batch_arms": _arms_table(verdicts),
        },
        summary={
            "roles": [verdict.role_row() for verdict in verdicts],
            "calibration": _calibration_summary(calibration, dependence),
            **_lengths_summary(reach, cut),
        },
        findings=findings,
    )


def seek_misaligned(
    sample: Sample,
    states: RowStates,
    calibration: Calibration,
    vectors: np.ndarray,
    usable: np.ndarray,
    texts: pa.Array,
    prompt: str,
    encode: EncodeFunction,
) -> Misalignment:
    """Look for the texts of unexplained rows among all stored vectors, and mark the rows that are out of step."""
    shifts = np.full(len(sample.rows), np.nan)
    unexplained = np.array([i for i, state in enumerate(states.state) if state == VECTOR_DRIFT], dtype=np.int64)
    if not len(unexplained):
        return Misalignment(shifts, None, None, own_first=0, sought=0)
    tolerance = max(calibration.tolerance, NOISE_LOSS)

    def loss_of_rows(rows: np.ndarray) -> np.ndarray:
        own = encode(texts.take(pa.array(rows)).to_pylist(), prompt)
        return cosine_loss(np.asarray(vectors[rows]), own)

    # Every k-th unexplained row: they are in table order, so all cells and stretches of the table are among them.
    chosen = unexplained[:: -(-len(unexplained) // MOST_SOUGHT)]
    sought = seek(states.fresh[chosen], sample.rows[chosen], vectors, usable, tolerance, loss_of_rows)
    shifts[chosen] = sought.shift
    known = shifts[~np.isnan(shifts)].astype(np.int64)
    usual = int(np.bincount(known - known.min()).argmax() + known.min()) if len(known) else None

    def holds_shifted(rows: np.ndarray) -> np.ndarray:
        """(k,) bool: the row's vector is that of the text ``usual`` rows further."""
        assert usual is not None
        of = rows + usual
        inside = (of >= 0) & (of < len(vectors)) & usable[rows]
        held = np.zeros(len(rows), dtype=bool)
        if inside.any():
            further = encode(texts.take(pa.array(of[inside])).to_pylist(), prompt)
            held[inside] = cosine_loss(np.asarray(vectors[rows[inside]]), further) <= tolerance
        return held

    first_row = None
    if usual is not None:
        rest = unexplained[np.isnan(shifts[unexplained])]
        shifts[rest[holds_shifted(sample.rows[rest])]] = usual
        in_step = sorted(sample.rows[np.flatnonzero(shifts == usual)].tolist())
        before = [int(r) for r, s in zip(sample.rows, shifts, strict=True) if np.isnan(s) and r < in_step[0]]
        first_row = first_misaligned_row(
            max(before, default=-1), in_step[0], lambda row: bool(holds_shifted(np.array([row]))[0])
        )
    alone = chosen[np.isnan(shifts[chosen])]
    owners = seek_owners(sample.rows[alone], vectors, usable, tolerance, loss_of_rows)
    shifts[alone[owners >= 0]] = (owners - sample.rows[alone])[owners >= 0]
    for row in np.flatnonzero(~np.isnan(shifts)):
        states.state[row] = MISALIGNED
    return Misalignment(shifts, usual, first_row, int(sought.own_first.sum()), len(chosen))


def _calibration_texts(sample: Sample, ordinals: np.ndarray) -> list[str]:
    """Evenly spread distinct texts of the rows ``ordinals``; in table order, so all parts of the table are there."""
    drawn = np.isin(sample.rows, ordinals)
    distinct = list(dict.fromkeys(text for text, kept in zip(sample.texts, drawn, strict=True) if kept))
    return distinct[:: -(-len(distinct) // CALIBRATION_ROWS)]


def _nothing_measured(cells: Cells, findings: list[Any]) -> StageResult:
    return StageResult(
        tables={"fingerprint": FINGERPRINT.empty_table(), "batch_arms": _arms_table(cells.not_measured())},
        summary={"roles": [verdict.role_row() for verdict in cells.not_measured()], "calibration": None}
        | _lengths_summary(None, None),
        findings=findings,
    )


def _lengths_summary(reach: Reach | None, cut: CutFound | None) -> dict[str, Any]:
    return {"reach": asdict(reach) if reach is not None else None, "cut": asdict(cut) if cut is not None else None}


def _arms_table(verdicts: list[CellVerdict]) -> pa.Table:
    return pa.Table.from_pylist([verdict.arm_row() for verdict in verdicts], schema=BATCH_ARMS)


def _calibration_summary(calibration: Calibration, dependence: float) -> dict[str, Any]:
    return {
        "n": calibration.n,
        "tolerance": calibration.tolerance,
        "batch_dependence": dependence,
        "arms": [
            {
                "name": arm.name,
                "prompt": split_arm(arm.prompt)[0],
                "request": split_arm(arm.prompt)[1],
                "loss_median": arm.median,
                "loss_p5": arm.p5,
                "distinguishable": arm.distinguishable,
            }
            for arm in calibration.arms
        ],
    }


def _fingerprint_table(
    rows: pa.Table, cells: Cells, sample: Sample, states: RowStates, misalignment: Misalignment
) -> pa.Table:
    arms = arms_of_rows(states)
    table = pa.table(
        {
            "chunk_id": rows["chunk_id"].combine_chunks().take(pa.array(sample.rows)),
            "row": sample.rows,
            "batch": [cells.keys[code] for code in sample.cells],
            "state": states.state,
            "loss": states.loss,
            "arm": pa.array([arm for arm, _ in arms], pa.string()),
            "template": pa.array([template for _, template in arms], pa.string()),
            "shift": pa.array(misalignment.shifts, from_pandas=True).cast(pa.int64()),
        }
    ).cast(FINGERPRINT)
    return table.sort_by([("chunk_id", "ascending"), ("row", "ascending")])
