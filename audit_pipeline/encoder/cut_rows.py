"""Rows whose stored vector encodes a part of their text only: which they are, and whether the corpus is so written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit_pipeline.encoder.calibration import NOISE_LOSS, Calibration, EncodeFunction, cosine_loss
from audit_pipeline.encoder.cells import ADOPTED_SHARE
from audit_pipeline.encoder.cutting import Cut, Scissors
from audit_pipeline.encoder.fidelity import CUT, EXPLAINS_SHARE, FAITHFUL, UNCUT, VECTOR_DRIFT, RowStates, Sample
from audit_pipeline.encoder.template import embedded_texts
from audit_pipeline.encoder.truncation_probe import cut_of_vectors, loss_under_cut


@dataclass(frozen=True)
class CutFound:
    """The cut that the vectors of long rows show; ``adopted`` where nearly all cells with long rows have it."""

    cut: Cut
    adopted: bool
    long_rows: int  # sampled rows that the cut would shorten
    cut_rows: int  # those of them whose vector is the cut text's


def find_cut(
    sample: Sample,
    states: RowStates,
    embed_text: str | None,
    calibration: Calibration,
    scissors: Scissors,
    encode: EncodeFunction,
) -> CutFound | None:
    """Look for one cut behind the unexplained rows, and mark the rows that it explains.

    ``embed_text`` is the template in force. Rows of state ``cut`` become faithful where the cut is the whole corpus's
    way of writing; rows that hold the whole text's vector are ``uncut`` then: they deviate from the rest.
    """
    open_rows = _in_state(states, VECTOR_DRIFT)
    if not len(open_rows):
        return None
    texts = embedded_texts(sample.fields, embed_text).to_pylist()
    whole_loss = _whole_loss(texts, sample, states, scissors.arm, encode)

    def explained(loss: np.ndarray, whole: np.ndarray) -> np.ndarray:
        return (loss <= max(calibration.tolerance, NOISE_LOSS)) & (loss < EXPLAINS_SHARE * whole)

    chosen = [texts[row] for row in open_rows]
    cut = cut_of_vectors(chosen, sample.stored[open_rows], whole_loss[open_rows], scissors, encode, explained)
    if cut is None:
        return None
    mark_cut_rows(sample, states, texts, whole_loss, cut, calibration, scissors, encode)
    cut_rows = _in_state(states, CUT)
    long_rows = np.array([row for row, text in enumerate(texts) if scissors.cut_text(text, cut)], dtype=np.int64)
    if not len(cut_rows):
        return None
    cells = np.unique(sample.cells[long_rows])
    cut_cells = [c for c in cells if 2 * (sample.cells[cut_rows] == c).sum() > (sample.cells[long_rows] == c).sum()]
    adopted = len(cut_cells) >= ADOPTED_SHARE * len(cells)
    found = CutFound(cut, adopted, len(long_rows), len(cut_rows))
    if adopted:
        _adopt(sample, states, texts, cut, cut_rows, long_rows, calibration, scissors, encode)
    return found


def mark_cut_rows(
    sample: Sample,
    states: RowStates,
    texts: list[str],
    whole_loss: np.ndarray,
    cut: Cut,
    calibration: Calibration,
    scissors: Scissors,
    encode: EncodeFunction,
) -> None:
    """Mark the unexplained rows whose vector is what a known cut leaves of their text as ``cut``.

    Where a cut is known in words only, a row is marked when the cut takes away nine tenths of the loss: words differ
    in tokens from text to text.
    """
    open_rows = _in_state(states, VECTOR_DRIFT)
    if not len(open_rows):
        return
    loss = loss_under_cut([texts[row] for row in open_rows], sample.stored[open_rows], cut, scissors, encode)
    most = max(calibration.tolerance, NOISE_LOSS)
    with np.errstate(invalid="ignore"):
        explained = loss < EXPLAINS_SHARE * whole_loss[open_rows]
        explained &= (loss <= most) | (not scissors.exact)
    for row, row_loss in zip(open_rows[explained], loss[explained], strict=True):
        states.state[row] = CUT
        states.found_loss[row] = row_loss


def _adopt(
    sample: Sample,
    states: RowStates,
    texts: list[str],
    cut: Cut,
    cut_rows: np.ndarray,
    long_rows: np.ndarray,
    calibration: Calibration,
    scissors: Scissors,
    encode: EncodeFunction,
) -> None:
    for row in cut_rows:
        states.state[row] = FAITHFUL
    whole = np.array([row for row in long_rows if row not in set(cut_rows.tolist())], dtype=np.int64)
    whole = np.array([row for row in whole if states.state[row] == FAITHFUL], dtype=np.int64)
    if len(whole):
        loss = loss_under_cut([texts[row] for row in whole], sample.stored[whole], cut, scissors, encode)
        # Where the part that is cut off adds nothing, both are the same vector.
        for row in whole[loss > max(calibration.tolerance, NOISE_LOSS)]:
            states.state[row] = UNCUT


def _whole_loss(texts: list[str], sample: Sample, states: RowStates, arm: str, encode: EncodeFunction) -> np.ndarray:
    """Loss of each stored vector to the whole text under the template in force, (m,) float64."""
    if texts == sample.texts:
        return states.loss
    loss = states.loss.copy()
    rows = _in_state(states, VECTOR_DRIFT)
    loss[rows] = cosine_loss(sample.stored[rows], encode([texts[row] for row in rows], arm))
    return loss


def _in_state(states: RowStates, wanted: str) -> np.ndarray:
    return np.array([row for row, state in enumerate(states.state) if state == wanted], dtype=np.int64)
