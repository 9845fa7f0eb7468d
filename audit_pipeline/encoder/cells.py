"""Batches as cells of source x date: their codes, and the verdict on each from its rows. No finding is worded here."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.batches import cells_of, display_source, parse_batch_key
from audit_pipeline.encoder.calibration import Calibration
from audit_pipeline.encoder.fidelity import (
    CUT,
    FAITHFUL,
    NOT_IDENTIFIABLE,
    ROLE_MISMATCH,
    TEXT_DRIFT,
    UNCUT,
    Explanation,
    RowStates,
    Sample,
)
from audit_pipeline.encoder.roles import PASSAGE
from audit_pipeline.encoder.template import without_fields
from audit_pipeline.encoder_settings import EncoderSettings

ADOPTED_SHARE = 0.9
"""Share of all cells that a template must explain to be taken for what the writer embeds."""

IN_CONFIGURED_ARM = (FAITHFUL, TEXT_DRIFT, CUT, UNCUT)
"""States of rows whose vector is in the configured arm, whatever text it encodes."""

Cell = tuple[str | None, dt.date | None]
"""(source as displayed, first day of the period; None where no row of it has a date)."""


@dataclass(frozen=True)
class CellVerdict:
    """What the vectors of one batch carry. ``role`` is an arm's name or not_applicable, not_identifiable, unknown."""

    batch: str
    cell: Cell
    role: str
    arm: str | None
    prompt: str | None
    embed_text: str | None
    loss: float | None  # median over the rows, to what was found
    margin: float | None  # how much more the hardest wrong arm would cost
    n: int

    def role_row(self) -> dict[str, Any]:
        source, period = self.cell
        return {
            "source": source,
            "ingestion_date": None if period is None else period.isoformat(),
            "role": self.role,
            "loss": self.loss,
            "margin": self.margin,
            "n": self.n,
        }

    def arm_row(self) -> dict[str, Any]:
        return {"batch": self.batch, "arm": self.arm, "prompt": self.prompt, "embed_text": self.embed_text}


@dataclass(frozen=True)
class Cells:
    """The batches of a table: ``keys`` sorted, their ``cells``, and ``codes`` (n,) the batch of each row."""

    keys: list[str]
    cells: list[Cell]
    codes: np.ndarray

    @classmethod
    def of(cls, rows: pa.Table) -> Cells:
        """From a table's columns batch and, where it has them, source and ingestion_date."""
        keys = sorted(rows["batch"].unique().to_pylist())
        codes = pc.index_in(rows["batch"].combine_chunks(), value_set=pa.array(keys, pa.string())).to_numpy(
            zero_copy_only=False
        )
        if "source" not in rows.column_names:
            return cls(keys, [(slug, day) for day, slug in map(parse_batch_key, keys)], codes)
        found = cells_of(rows)
        cells: list[Cell] = [(display_source(found[key][0]), found[key][1]) for key in keys]
        return cls(keys, cells, codes)

    def measured(self, sample: Sample) -> set[Cell]:
        """Cells of which at least one row was compared."""
        return {self.cells[code] for code in np.unique(sample.cells)}

    def verdicts(
        self,
        sample: Sample,
        states: RowStates,
        calibration: Calibration,
        settings: EncoderSettings,
        embed_text: str | None,
    ) -> list[CellVerdict]:
        """One verdict a batch, in the order of the keys; by the majority of the batch's rows."""
        rows_of: dict[int, list[int]] = {}
        for row, code in enumerate(sample.cells):
            rows_of.setdefault(int(code), []).append(row)
        return [
            self._verdict(code, rows_of.get(code, []), states, calibration, settings, embed_text)
            for code in range(len(self.keys))
        ]

    def not_measured(self) -> list[CellVerdict]:
        """The verdicts of a fingerprint that could not be taken."""
        return [self._unknown(code, "not_measured", None, 0) for code in range(len(self.keys))]

    def _verdict(
        self,
        code: int,
        rows: list[int],
        states: RowStates,
        calibration: Calibration,
        settings: EncoderSettings,
        embed_text: str | None,
    ) -> CellVerdict:
        if not rows:
            return self._unknown(code, "not_measured", None, 0)
        loss = float(np.median(states.found_loss[rows]))
        found = Counter((states.state[row], states.explanation[row]) for row in rows)
        # Ties go to the name first in the alphabet, so that the verdict does not depend on the order of rows.
        (state, explanation), _ = min(found.items(), key=lambda item: (-item[1], repr(item[0])))
        margin = None if calibration.cheapest is None else calibration.cheapest - loss
        if state in IN_CONFIGURED_ARM:
            role = self._faithful_role(calibration, settings)
            prompt, template = settings.passage_arm, embed_text
            return CellVerdict(
                self.keys[code], self.cells[code], role, PASSAGE, prompt, template, loss, margin, len(rows)
            )
        if state == ROLE_MISMATCH and explanation is not None:
            template = explanation.template or embed_text
            arm, prompt = explanation.arm, explanation.prompt
            return CellVerdict(
                self.keys[code], self.cells[code], explanation.name, arm, prompt, template, loss, margin, len(rows)
            )
        return self._unknown(code, "not_identifiable" if state == NOT_IDENTIFIABLE else "unknown", loss, len(rows))

    def _unknown(self, code: int, role: str, loss: float | None, n: int) -> CellVerdict:
        return CellVerdict(self.keys[code], self.cells[code], role, None, None, None, loss, None, n)

    @staticmethod
    def _faithful_role(calibration: Calibration, settings: EncoderSettings) -> str:
        if settings.query_arm == settings.passage_arm:
            return "not_applicable"  # one configured arm: there is no role to confirm
        if not calibration.identifiable(settings.query_arm):
            return "not_identifiable"
        return PASSAGE


def arms_of_rows(states: RowStates) -> list[tuple[str | None, str | None]]:
    """(arm, template where it is not the configured one) that each sampled row's vector carries."""
    return [
        (PASSAGE, None)
        if state in IN_CONFIGURED_ARM
        else (explanation.arm, explanation.template)
        if explanation is not None
        else (None, None)
        for state, explanation in zip(states.state, states.explanation, strict=True)
    ]


def adopt_template(sample: Sample, states: RowStates, embed_text: str | None, passage_prompt: str) -> str | None:
    """The template that the writer embeds, where it explains nearly all cells and the settings name another.

    Its rows become faithful; rows that carry the configured template instead become a role mismatch: they deviate
    from what nearly all others hold. Rows whose fields leave the template nothing to add stay as they are, and decide
    nothing. None where no template is adopted.
    """
    of_rows = np.array([_template_of(explanation) or "" for explanation in states.explanation], dtype=object)
    faithful = np.array([state == FAITHFUL for state in states.state])
    nothing_to_add = {t: faithful & without_fields(sample.fields, t) for t in sorted(set(of_rows) - {""})}
    votes: dict[str, int] = {}
    for template, bare in nothing_to_add.items():
        cells, rows_of_cell = np.unique(sample.cells[~bare], return_counts=True)
        for_it = np.array([np.sum(of_rows[(sample.cells == cell) & ~bare] == template) for cell in cells])
        won = int(np.sum(2 * for_it > rows_of_cell))
        if won and won >= ADOPTED_SHARE * len(cells):
            votes[template] = won
    if not votes:
        return None
    template = min(votes, key=lambda name: (-votes[name], name))
    configured = Explanation(PASSAGE, passage_prompt, embed_text or "{text}")
    for row in np.flatnonzero(of_rows == template):
        states.state[row], states.explanation[row] = FAITHFUL, None
    for row in np.flatnonzero(faithful & ~nothing_to_add[template]):
        states.state[row], states.explanation[row] = ROLE_MISMATCH, configured
    return template


def _template_of(explanation: Explanation | None) -> str | None:
    """The template of an explanation that differs from the settings in nothing else."""
    return explanation.template if explanation is not None and explanation.arm == PASSAGE else None
