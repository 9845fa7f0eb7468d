"""The findings of the role fingerprint, in words. What a vector carries is judged elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.arms import describe_arm, split_arm
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.calibration import NOISE_LOSS, Calibration
from audit_pipeline.encoder.cells import Cell, Cells
from audit_pipeline.encoder.cut_rows import CutFound
from audit_pipeline.encoder.fidelity import (
    CUT,
    MISALIGNED,
    NOT_IDENTIFIABLE,
    ROLE_MISMATCH,
    UNCUT,
    VECTOR_DRIFT,
    Explanation,
    RowStates,
    Sample,
)
from audit_pipeline.encoder.protocol import Encoder
from audit_pipeline.encoder.stretches import stretch_of, undated_cells
from audit_pipeline.findings import MAX_EXAMPLES, Finding
from audit_pipeline.plural import counted
from audit_pipeline.proportions import wilson
from audit_pipeline.scopes import cells_in, merge_cells

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


@dataclass(frozen=True)
class _Context:
    cells: Cells
    sample: Sample
    states: RowStates
    ids: list[str]
    all_cells: set[Cell]
    undated: set[Cell] = field(default_factory=set)
    """Cells without dates, whose defects are placed by rows where they fill a stretch."""
    is_unfaithful: Callable[[int], bool] | None = None

    def scoped(self, rows: np.ndarray, make: Callable[[dict[str, Any], np.ndarray, int], Finding]) -> list[Finding]:
        """One finding for each smallest set of cells that holds the rows: make(scope, its rows, rows compared)."""
        cell_of = [self.cells.cells[code] for code in self.sample.cells]
        defective = {cell_of[row] for row in rows}
        findings = []
        for scope in merge_cells(defective, self.all_cells):
            within = cells_in(scope, self.all_cells)
            covered = {cell for cell in self.all_cells if cell in within}
            inside = np.array([cell in covered for cell in cell_of])
            of_scope = rows[inside[rows]]
            stretch = self._stretch(covered, inside, of_scope)
            named = scope if stretch is None else {**scope, "rows": stretch}
            if stretch is not None:
                # The scope is the stretch, so what was compared of it counts, and no row outside it.
                within_rows = (self.sample.rows >= stretch[0]) & (self.sample.rows <= stretch[1])
                inside, of_scope = inside & within_rows, of_scope[within_rows[of_scope]]
            findings.append(make(named, of_scope, int(inside.sum())))
        return findings

    def _stretch(self, covered: set[Cell], inside: np.ndarray, defective: np.ndarray) -> list[int] | None:
        """[first, last] row of the table between which the defect lies, where it fills one stretch of these cells."""
        if self.is_unfaithful is None or not covered <= self.undated:
            return None
        codes = [code for code, cell in enumerate(self.cells.cells) if cell in covered]
        compared = np.flatnonzero(inside)
        own_rows = np.flatnonzero(np.isin(self.cells.codes, codes))
        return stretch_of(own_rows, self.sample.rows[compared], np.isin(compared, defective), self.is_unfaithful)

    def examples(self, rows: np.ndarray) -> list[str]:
        return sorted(self.ids[row] for row in rows)[:MAX_EXAMPLES]

    def in_state(self, state: str) -> np.ndarray:
        return np.array([row for row, s in enumerate(self.states.state) if s == state], dtype=np.int64)


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
    context = _Context(cells, sample, states, ids, cells.measured(sample), undated, is_unfaithful)
    findings = _template_found(context, adopted)
    findings += _role_mismatches(context, calibration, settings)
    findings += _misaligned(context, misalignment)
    drifted = context.in_state(VECTOR_DRIFT)
    if len(drifted):
        unknown_text = _unknown_text(context, drifted, misalignment, settings)
        findings += [unknown_text] if unknown_text else _drifted(context, drifted, settings)
    return findings + _unsettled(context) + _cells_without_rows(context)


def cut_findings(
    cells: Cells, sample: Sample, states: RowStates, found: CutFound | None, rows: pa.Table
) -> list[Finding]:
    """What follows from vectors that encode a part of long texts: the writer's way, or the fault of a few cells."""
    if found is None:
        return []
    ids = rows["chunk_id"].take(pa.array(sample.rows)).to_pylist()
    context = _Context(cells, sample, states, ids, cells.measured(sample))
    which = {"cut": found.cut.kept, "tokens": found.cut.tokens, "words": found.cut.words}
    findings = []
    if found.adopted:
        setting = f"Set encoder.max_tokens to {found.cut.tokens} to audit" if found.cut.tokens else "Audit"
        findings.append(
            Finding(
                code="embedded_text_found",
                severity="info",
                message=(
                    f"The vectors encode only {found.cut} of longer texts ({found.cut_rows} of {found.long_rows} long "
                    "rows compared): the writer's runtime cut them."
                ),
                remedy=f"{setting} the vectors as they are; or split the texts, or encode them with a longer limit.",
                share=found.cut_rows / found.long_rows,
                n_compared=found.long_rows,
                evidence=which,
            )
        )

    def make(scope: dict[str, Any], of_scope: np.ndarray, n: int) -> Finding:
        whole = "the whole of their text, where the rest of the corpus encodes only"
        part = f"only {found.cut} of their text, where the rest of the corpus encodes all of it"
        return Finding(
            code="vector_drift",
            severity="error",
            message=(
                f"{len(of_scope)} of {n} rows compared hold the encoding of "
                f"{f'{whole} {found.cut}' if found.adopted else part}."
            ),
            remedy="Encode these rows again with the limit of the rest; look for a change of runtime or its settings.",
            share=len(of_scope) / n,
            n_compared=n,
            scope=scope,
            evidence=which | {"stored_cos": 1 - float(np.median(context.states.loss[of_scope]))},
            examples=context.examples(of_scope),
        )

    return findings + context.scoped(context.in_state(UNCUT if found.adopted else CUT), make)


def not_measured(reason: str) -> Finding:
    """The vectors were not compared with fresh encodings: never a pass."""
    return Finding(
        code="not_measured",
        severity="info",
        message=f"Stored vectors were not compared with fresh encodings: {reason}.",
        remedy="Give the audit the encoder that wrote the vectors, and rows that hold both a text and a vector.",
        n_compared=0,
        evidence={"check": "role_fingerprint"},
    )


def without_vector(encoder: Encoder, rows: int, n: int) -> Finding:
    """Rows whose text the encoder gives no vector that can be compared: they are left out, and counted."""
    return Finding(
        code="not_measured",
        severity="info",
        message=(
            f"{counted(rows, 'row')} of {n:,} drawn could not be compared: {encoder.name} gives their text no vector "
            "with a direction (no token of it is known, or values are no numbers)."
        ),
        remedy="Look at these texts: they hold nothing that the model reads.",
        n_compared=0,
        evidence={"check": "role_fingerprint", "rows": rows},
    )


def encoder_unstable(encoder: Encoder, loss: float, n: int) -> Finding:
    """The encoder gives a text another vector in another batch."""
    return Finding(
        code="encoder_unstable",
        severity="warning",
        message=(
            f"Encoder {encoder.name} gives the same text another vector in another batch: 1 - cos up to "
            f"{loss:.2g} over {n} texts, where {NOISE_LOSS:g} is allowed."
        ),
        remedy=(
            "Ask whoever runs the server whether its vectors depend on the batch or on the replica that answers."
            if encoder.is_remote
            else "Look for padding or pooling faults in the runtime (attention mask, padding side, quantisation)."
        ),
        n_compared=n,
        evidence={"loss_max": loss, "allowed": NOISE_LOSS},
    )


def wrong_dimension(encoder: Encoder, shape: tuple[int, ...]) -> Finding:
    """The encoder's vectors cannot be compared with the table's at all."""
    return Finding(
        code="dimension_mismatch",
        severity="error",
        message=(
            f"The table's vectors have {shape[1]} dimensions, encoder {encoder.name} gives {encoder.dimension}: "
            "they come from another model, or were cut."
        ),
        remedy="Name in encoder.model the model that wrote the vectors, or re-encode the table.",
        share=1.0,
        n_compared=shape[0],
        evidence={"table_dimension": shape[1], "encoder_dimension": encoder.dimension},
    )


def _template_found(context: _Context, adopted: str | None) -> list[Finding]:
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


def _role_mismatches(context: _Context, calibration: Calibration, settings: IndexAuditSettings) -> list[Finding]:
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


def _misaligned(context: _Context, misalignment: Misalignment) -> list[Finding]:
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
    context: _Context, drifted: np.ndarray, misalignment: Misalignment, settings: IndexAuditSettings
) -> Finding | None:
    """Nothing explains the corpus, yet texts find their own rows: the writer embeds more than it stores."""
    cells = {context.cells.cells[context.sample.cells[row]] for row in drifted}
    if len(cells) < UNKNOWN_TEXT_SHARE * len(context.all_cells):
        return None
    if len(drifted) < UNKNOWN_TEXT_SHARE * len(context.ids):
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


def _drifted(context: _Context, drifted: np.ndarray, settings: IndexAuditSettings) -> list[Finding]:
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


def _unsettled(context: _Context) -> list[Finding]:
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


def _cells_without_rows(context: _Context) -> list[Finding]:
    every = set(context.cells.cells)
    missing = every - context.all_cells
    return [
        Finding(
            code="not_measured",
            severity="info",
            message="No row was compared with a fresh encoding here: none is usable, or sample.total is too small.",
            remedy="Raise sample.total, and mend rows without text or vector.",
            n_compared=0,
            scope=scope,
            evidence={"check": "role_fingerprint"},
        )
        for scope in merge_cells(missing, every)
    ]
