"""What each sampled row's stored vector is: the right encoding, another arm's, or none. No findings here."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress

import numpy as np
import pyarrow as pa

from audit_pipeline.encoder.calibration import NOISE_LOSS, Calibration, EncodeFunction, cosine_loss
from audit_pipeline.encoder.known_templates import known_templates
from audit_pipeline.encoder.roles import NONE, PASSAGE
from audit_pipeline.encoder.template import embedded_texts, without_fields

FAITHFUL = "faithful"
TEXT_DRIFT = "text_drift"  # the vector fits the table's text, which is not the store's
ROLE_MISMATCH = "role_mismatch"
MISALIGNED = "misaligned"
VECTOR_DRIFT = "vector_drift"
CUT = "cut"  # the vector encodes the first or last part of the text only
UNCUT = "uncut"  # the vector encodes the whole text where the rest of the corpus is cut
NOT_IDENTIFIABLE = "not_identifiable"  # within storage noise, but over what the nearest arm would cost

EXPLAINS_SHARE = 0.1
"""Another arm explains a row when its loss is under this share of the configured arm's."""
ROWS_OF_A_ROUND = 12
"""Rows encoded under every arm and template at once; what is found there is then tried on all rows."""
MOST_ROUNDS = 16
_TIE = 1e-6


@dataclass(frozen=True)
class Sample:
    """The m rows whose vectors are checked.

    ``rows`` (m,) ordinals in the table; ``cells`` (m,) int code of each row's batch, ``strata`` (m,) of the part of it
    that the row was drawn from; ``stored`` (m, d) their vectors; ``texts`` what should have been embedded;
    ``table_texts`` the same made of the table's own text; ``fields`` the row fields that templates may name, with the
    store's values where the store has the row.
    """

    rows: np.ndarray
    cells: np.ndarray
    strata: np.ndarray
    stored: np.ndarray
    texts: list[str]
    table_texts: list[str]
    fields: pa.Table

    def only(self, kept: np.ndarray) -> Sample:
        """The rows of which ``kept`` (m,) bool holds."""
        return Sample(
            rows=self.rows[kept],
            cells=self.cells[kept],
            strata=self.strata[kept],
            stored=self.stored[kept],
            texts=list(compress(self.texts, kept)),
            table_texts=list(compress(self.table_texts, kept)),
            fields=self.fields.filter(pa.array(kept)),
        )


@dataclass(frozen=True)
class Explanation:
    """An arm and a template that a stored vector encodes."""

    arm: str
    prompt: str
    template: str | None  # None: as configured

    @property
    def name(self) -> str:
        """The arm, with the template where that is not the configured one."""
        return self.arm if self.template is None else f"{self.arm} {self.template!r}"


@dataclass
class RowStates:
    """Judgement of each sampled row: ``loss`` (m,) to the configured arm, ``found_loss`` to what explains it."""

    fresh: np.ndarray
    loss: np.ndarray
    found_loss: np.ndarray
    state: list[str]
    explanation: list[Explanation | None]


def judge(
    sample: Sample,
    arms: dict[str, str],
    embed_text: str | None,
    calibration: Calibration,
    encode: EncodeFunction,
) -> RowStates:
    """Faithful, text drift or role mismatch of each sampled row; ``vector_drift`` stands for every other row.

    ``encode(texts, prompt)`` gives vectors (n, d). Only unfaithful rows are encoded under other arms: first a few
    rows of different strata under all of them, the nearest ones first, then all rows under those that were found.
    """
    fresh = encode(sample.texts, arms[PASSAGE])
    loss = cosine_loss(sample.stored, fresh)
    states = RowStates(fresh, loss, loss.copy(), [VECTOR_DRIFT] * len(loss), [None] * len(loss))
    faithful = loss <= calibration.tolerance
    for row in np.flatnonzero(faithful):
        states.state[row] = FAITHFUL
    _judge_bare_texts(sample, arms[PASSAGE], embed_text, calibration, encode, states)
    _judge_drifted_texts(sample, arms[PASSAGE], calibration, encode, states)
    _explain(sample, explanations(arms, embed_text, sample.fields), embed_text, calibration, encode, states)
    for row in np.flatnonzero(loss <= NOISE_LOSS):
        if states.state[row] == VECTOR_DRIFT:
            states.state[row] = NOT_IDENTIFIABLE
    return states


def explanations(arms: dict[str, str], embed_text: str | None, fields: pa.Table) -> list[Explanation]:
    """Every other arm under the configured template, then every other template under the configured arm and none."""
    others = [Explanation(name, prompt, None) for name, prompt in arms.items() if name != PASSAGE]
    configured = embed_text or "{text}"
    templates = [template for template in known_templates(fields) if template != configured]
    prompts = {PASSAGE: arms[PASSAGE]} | {name: prompt for name, prompt in arms.items() if prompt == "" or name == NONE}
    return others + [Explanation(name, prompt, t) for t in templates for name, prompt in prompts.items()]


def explanation_texts(fields: pa.Table, explanation: Explanation, embed_text: str | None) -> list[str]:
    """What an explanation says was embedded, without the prompt."""
    return embedded_texts(fields, explanation.template or embed_text).to_pylist()


def _judge_bare_texts(
    sample: Sample,
    prompt: str,
    embed_text: str | None,
    calibration: Calibration,
    encode: EncodeFunction,
    states: RowStates,
) -> None:
    """A writer that has no title for a row may leave out what its template puts around one: such rows are faithful."""
    rows = np.flatnonzero(without_fields(sample.fields, embed_text) & (np.array(states.state) == VECTOR_DRIFT))
    if not len(rows):
        return
    bare = encode(sample.fields["text"].take(pa.array(rows)).to_pylist(), prompt)
    loss = cosine_loss(sample.stored[rows], bare)
    fits = loss <= calibration.tolerance
    fitting = rows[fits]
    states.fresh = states.fresh.copy()
    states.fresh[fitting] = bare[fits]
    states.loss[fitting] = states.found_loss[fitting] = loss[fits]
    for row in fitting:
        states.state[row] = FAITHFUL


def _judge_drifted_texts(
    sample: Sample, prompt: str, calibration: Calibration, encode: EncodeFunction, states: RowStates
) -> None:
    rows = [
        row
        for row, state in enumerate(states.state)
        if state == VECTOR_DRIFT and sample.texts[row] != sample.table_texts[row]
    ]
    if not rows:
        return
    loss = cosine_loss(sample.stored[rows], encode([sample.table_texts[row] for row in rows], prompt))
    for row, row_loss in zip(rows, loss, strict=True):
        if row_loss <= calibration.tolerance:
            states.state[row] = TEXT_DRIFT
            states.found_loss[row] = row_loss


def _explain(
    sample: Sample,
    candidates: list[Explanation],
    embed_text: str | None,
    calibration: Calibration,
    encode: EncodeFunction,
    states: RowStates,
) -> None:
    """Mark the rows that another arm or template explains."""
    explained_loss = max(calibration.tolerance, NOISE_LOSS)

    def try_on(rows: np.ndarray, explanation: Explanation) -> np.ndarray:
        texts = explanation_texts(sample.fields.take(pa.array(rows)), explanation, embed_text)
        loss = cosine_loss(sample.stored[rows], encode(texts, explanation.prompt))
        better = (loss <= explained_loss) & (loss < EXPLAINS_SHARE * states.loss[rows])
        # A later explanation must be better by more than rounding: some differ in white space that no model sees.
        better &= loss < states.found_loss[rows] - _TIE * (states.found_loss[rows] < states.loss[rows])
        for row, row_loss in zip(rows[better], loss[better], strict=True):
            states.found_loss[row] = row_loss
            states.state[row] = ROLE_MISMATCH
            states.explanation[row] = explanation
        return better

    probed: set[int] = set()
    for _ in range(MOST_ROUNDS):
        open_rows = np.array([r for r, state in enumerate(states.state) if state == VECTOR_DRIFT], dtype=np.int64)
        chosen = _one_of_each(open_rows, sample.strata, states.loss, probed)
        if not len(chosen):
            return
        probed.update(int(stratum) for stratum in sample.strata[chosen])
        found = [explanation for explanation in candidates if try_on(chosen, explanation).any()]
        kept = [e for e in found if any(states.explanation[row] == e for row in chosen)]
        if not kept:
            return
        rest = np.setdiff1d(open_rows, chosen)
        for explanation in kept:
            if len(rest):
                try_on(rest, explanation)


def _one_of_each(rows: np.ndarray, strata: np.ndarray, loss: np.ndarray, probed: set[int]) -> np.ndarray:
    """One open row of each stratum not probed yet, those nearest to the configured arm first: prompts move little."""
    nearest = rows[np.argsort(loss[rows], kind="stable")]
    chosen: dict[int, int] = {}
    for row in nearest:
        stratum = int(strata[row])
        if stratum not in probed and stratum not in chosen:
            chosen[stratum] = int(row)
        if len(chosen) == ROWS_OF_A_ROUND:
            break
    return np.array(sorted(chosen.values()), dtype=np.int64)
