"""The findings of the role fingerprint, in words. What a vector carries is judged elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.arms import describe_arm, split_arm
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.calibration import Calibration
from audit_pipeline.encoder.cells import Cells
from audit_pipeline.encoder.compared_rows import ComparedRows
from audit_pipeline.encoder.fidelity import (
    MISALIGNED,
    NOT_IDENTIFIABLE,
    ROLE_MISMATCH,
    VECTOR_DRIFT,
    Explanation,
    RowStates,
    Sample,
)
from audit_pipeline.encoder.lacking import cells_without_rows
from audit_pipeline.encoder.stretches import undated_cells
from audit_pipeline.findings import Finding
from audit_pipeline.proportions import wilson

UNKNOWN_TEXT_SHARE = 0.9
"""Share of cells that no arm explains, from which the question is what the writer embeds, not which rows are wrong."""


@dataclass(frozen=True)
class Misalignment:
    """Outcome of seeking unexplained rows' texts: ``shifts`` (m,) float64, NaN where a row is not misaligned.

    ``usual`` the most frequent shift and ``first_row`` where its run begins (table ordinal), None where there is none;
    ``own_first`` of the ``sought`` fresh vectors have their own row as the nearest.
    """

    shifts: np.ndarray
    usual: int | None
    first_row: int | None
    own_first: int
    sought: int


def findings_of(
    cells: Cells,
    sample: Sample,
    states: RowStates,
    misalignment: Misalignment,
    calibration: Calibration,
    settings: IndexAuditSettings,
    adopted: str | None,
    rows: pa.Table,
    is_unfaithful: Callable[[int], bool],
) -> list[Finding]:
    """Every finding about the sampled rows, each at the smallest set of cells that holds it.

    In cells without dates also at the stretch of rows that it fills; ``is_unfaithful``(row of the table) finds its
    ends at one encoding a step.
    """
    ids = rows["chunk_id"].take(pa.array(sample.rows)).to_pylist()
    undated = {cells.cells[code] for code in np.flatnonzero(undated_cells(rows, cells.codes))}
    context = ComparedRows(cells, sample, states, ids, cells.measured(sample), undated, is_unfaithful)
    findings = _template_found(context, adopted)
    findings += _role_mismatches(context, calibration, settings)
    findings += _misaligned(context, misalignment)
    drifted = context.in_state(VECTOR_DRIFT)
    if len(drifted):
        unknown_text = _unknown_text(context, drifted, misalignment, settings)
        if unknown_text:
            return [*findings, unknown_text, *cells_without_rows(context)]
        findings += _drifted(context, drifted, settings)
    return findings + _unsettled(context) + cells_without_rows(context)


def _template_found(context: ComparedRows, adopted: str | None) -> list[Finding]:
    if adopted is None:
        return []
    deviating = len(context.in_state(ROLE_MISMATCH))
    return [
        Finding(
            code="embedded_text_found",
            severity="info",
            message=f"The writer embeds {adopted!r}, not what index.embed_text says; the audit has adopted it.",
            remedy=f"Set index.embed_text to {adopted!r}.",
            share=1 - deviating / len(context.ids),
            n_compared=len(context.ids),
            evidence={"embed_text": adopted},
        )
    ]


def _role_mismatches(context: ComparedRows, calibration: Calibration, settings: IndexAuditSettings) -> list[Finding]:
    configured = settings.encoder.passage_arm
    by_explanation: dict[Explanation, list[int]] = {}
    for row in context.in_state(ROLE_MISMATCH):
        explanation = context.states.explanation[row]
        assert explanation is not None
        by_explanation.setdefault(explanation, []).append(int(row))
    findings = []
    for explanation in sorted(by_explanation, key=lambda e: e.name):

        def make(scope: dict[str, Any], rows: np.ndarray, n: int, found: Explanation = explanation) -> Finding:
            as_found = describe_arm(found.prompt)
            template = f" of {found.template!r}" if found.template else " of the text"
            configured_template = f" of {settings.index.embed_text!r}" if settings.index.embed_text else " of the text"
            return Finding(
                code="role_mismatch",
                severity="error",
                message=(
                    f"{len(rows)} of {n} rows compared hold the encoding{template} {as_found}; the settings say"
                    f"{configured_template} {describe_arm(configured)} (found: {found.name})."
                ),
                remedy=(
                    "Re-encode these rows as the settings say; or, where the application writes and searches this way "
                    "on purpose, set encoder.passage_prompt and index.embed_text to what was found."
                ),
                share=len(rows) / n,
                n_compared=n,
                scope=scope,
                evidence={
                    "found": found.name,
                    "found_prompt": split_arm(found.prompt)[0],
                    "found_template": found.template,
                    "configured_prompt": split_arm(configured)[0],
                    "loss_configured": float(np.median(context.states.loss[rows])),
                    "loss_found": float(np.median(context.states.found_loss[rows])),
                    "tolerance": calibration.tolerance,
                },
                examples=context.examples(rows),
            )

        findings += context.scoped(np.array(by_explanation[explanation]), make)
    return findings


def _misaligned(context: ComparedRows, misalignment: Misalignment) -> list[Finding]:
    def make(scope: dict[str, Any], rows: np.ndarray, n: int) -> Finding:
        shifts, counts = np.unique(misalignment.shifts[rows].astype(np.int64), return_counts=True)
        usual = int(shifts[np.argmax(counts)])
        start = misalignment.first_row if usual == misalignment.usual else None
        begins = f", from row {start} of the table on" if start is not None else ""
        most, way = int(counts.max()), f"the row {abs(usual)} {'further down' if usual > 0 else 'further up'}"
        whose = f"each of {way}" if most == len(rows) else f"most of them of {way}"
        if 2 * most <= len(rows):
            whose, begins = "no shift in common", ""
        return Finding(
            code="misaligned_vectors",
            severity="error",
            message=(f"{len(rows)} of {n} rows compared hold the vector of another row's text, {whose}{begins}."),
            remedy="Write these rows again with each vector beside its own text; look for a shifted or re-sorted list.",
            share=len(rows) / n,
            n_compared=n,
            scope=scope,
            evidence={"shift": usual, "first_row": start, "shifts": len(shifts)},
            examples=context.examples(rows),
        )

    return context.scoped(context.in_state(MISALIGNED), make)


def _unknown_text(
    context: ComparedRows, drifted: np.ndarray, misalignment: Misalignment, settings: IndexAuditSettings
) -> Finding | None:
    """Nothing explains the corpus, yet texts find their own rows: the writer embeds more than it stores.

    Rows within storage noise decide nothing: of a long text a few words more change the vector by less than that.
    """
    unsettled = context.in_state(NOT_IDENTIFIABLE)
    decided = np.setdiff1d(np.arange(len(context.ids)), unsettled)
    cells, all_cells = (np.unique(context.sample.cells[rows]) for rows in (drifted, decided))
    if len(cells) < UNKNOWN_TEXT_SHARE * len(all_cells) or len(drifted) < UNKNOWN_TEXT_SHARE * len(decided):
        return None
    own_first = wilson(misalignment.own_first, misalignment.sought)
    if own_first.high is None or own_first.high < settings.limits.self_at_1:
        return None
    return Finding(
        code="embedded_text_unknown",
        severity="info",
        message=(
            f"{len(drifted)} of {len(context.ids)} rows compared hold no encoding of the stored text under any known "
            f"prompt or template, yet {misalignment.own_first} of {misalignment.sought} texts have their own row as "
            "the nearest: the writer embeds something other than the text it stores."
        ),
        remedy="Write in index.embed_text what the application embeds (a column, or a template over the row's fields).",
        share=len(drifted) / len(context.ids),
        n_compared=len(context.ids),
        evidence={"loss_median": float(np.median(context.states.loss[drifted])), "own_first": own_first.as_dict()},
        examples=context.examples(drifted),
    )


def _drifted(context: ComparedRows, drifted: np.ndarray, settings: IndexAuditSettings) -> list[Finding]:
    def make(scope: dict[str, Any], rows: np.ndarray, n: int) -> Finding:
        cosine = 1 - float(np.median(context.states.loss[rows]))
        return Finding(
            code="vector_drift",
            severity="error",
            message=(
                f"{len(rows)} of {n} rows compared hold no encoding of their text by {settings.encoder.model} under "
                f"any known prompt or template: median cosine to a fresh encoding {cosine:.3f}."
            ),
            remedy="Re-encode these rows with the configured model; look for a change of model, revision or runtime.",
            share=len(rows) / n,
            n_compared=n,
            scope=scope,
            evidence={"stored_cos": cosine},
            examples=context.examples(rows),
        )

    return context.scoped(drifted, make)


def _unsettled(context: ComparedRows) -> list[Finding]:
    def make(scope: dict[str, Any], rows: np.ndarray, n: int) -> Finding:
        return Finding(
            code="undecided",
            severity="info",
            message=(
                f"{len(rows)} of {n} rows compared are within storage noise of the configured encoding, which is more "
                "than the nearest other prompt would change with this model: their role cannot be told."
            ),
            remedy="Store float32 vectors, or compare on the machine and versions that wrote the table.",
            n_compared=n,
            scope=scope,
            evidence={"check": "role_fingerprint", "loss_median": float(np.median(context.states.loss[rows]))},
            examples=context.examples(rows),
        )

    return context.scoped(context.in_state(NOT_IDENTIFIABLE), make)
