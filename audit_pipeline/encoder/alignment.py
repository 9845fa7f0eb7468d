"""Rows and vectors out of step: a text's encoding sought among the vectors of other rows. No findings here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit_pipeline.encoder.calibration import cosine_loss

MOST_SOUGHT = 256
"""Unexplained rows whose fresh vector is sought in the whole table; the others are tried at the shift found."""
_BLOCK_ROWS = 32768
_FLOAT32_SLACK = 1e-5
_MOST_HOLDERS = 16

LossOfRow = Callable[[np.ndarray], np.ndarray]
"""Losses (k,) between the stored vectors of table rows (k,) and the encodings of the same rows' own texts."""


@dataclass(frozen=True)
class Sought:
    """Result of looking for m fresh vectors among all stored ones.

    ``shift`` (m,) float64: the row holding the i-th text's vector is ``shift`` rows before its own, NaN where no other
    row holds it. ``own_first`` (m,) bool: no stored vector is closer to the fresh one than the row's own (ties 1e-6).
    """

    shift: np.ndarray
    own_first: np.ndarray


def seek(
    fresh: np.ndarray,
    own_rows: np.ndarray,
    vectors: np.ndarray,
    usable: np.ndarray,
    tolerance: float,
    loss_of_rows: LossOfRow,
) -> Sought:
    """Seek ``fresh`` (m, d) among the usable ``vectors`` (n, d); ``own_rows`` (m,) are the rows of their texts.

    Another row holds a text's vector when its loss is within ``tolerance`` and the row is unfaithful to its own text:
    a copy of the text elsewhere, with its right vector, is no misalignment.
    """
    unit = _unit(fresh)
    holders: list[list[int]] = [[] for _ in range(len(fresh))]
    own_score = np.sum(unit * _unit(np.asarray(vectors[own_rows])), axis=1)
    own_first = np.ones(len(fresh), dtype=bool)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, len(vectors))
        scores = unit @ _unit(np.asarray(vectors[start:stop])).T
        scores[:, ~usable[start:stop]] = -2.0
        own_first &= scores.max(axis=1) <= own_score + 1e-6
        for query, row in np.argwhere(scores >= 1 - tolerance - _FLOAT32_SLACK):
            if start + row != own_rows[query] and len(holders[query]) < _MOST_HOLDERS:
                holders[query].append(start + int(row))
    _keep_true_holders(holders, fresh, vectors, tolerance, loss_of_rows)
    usual = Counter(int(own_rows[i] - row) for i, rows in enumerate(holders) for row in rows)
    shift = np.full(len(fresh), np.nan)
    for i, rows in enumerate(holders):
        if rows:
            shifts = [int(own_rows[i] - row) for row in rows]
            shift[i] = max(shifts, key=lambda s: (usual[s], -abs(s), s))
    return Sought(shift, own_first)


def seek_owners(
    rows: np.ndarray, vectors: np.ndarray, usable: np.ndarray, tolerance: float, loss_of_rows: LossOfRow
) -> np.ndarray:
    """For each of the table rows (m,) the row whose right vector it holds a copy of, -1 where there is none; (m,) int.

    A writer that repeats one answer leaves rows that hold the vector of another row's text while nobody holds theirs,
    so that ``seek`` finds nothing. Of the rows that share a vector the nearest that is faithful to its own text owns
    it; ``_MOST_HOLDERS`` are looked at, from the top of the table.
    """
    unit = _unit(np.asarray(vectors[rows]))
    holders: list[list[int]] = [[] for _ in rows]
    for start in range(0, len(vectors), _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, len(vectors))
        scores = unit @ _unit(np.asarray(vectors[start:stop])).T
        scores[:, ~usable[start:stop]] = -2.0
        for place, row in np.argwhere(scores >= 1 - tolerance - _FLOAT32_SLACK):
            if start + row != rows[place] and len(holders[place]) < _MOST_HOLDERS:
                holders[place].append(start + int(row))
    sharing = np.array(sorted({row for of_row in holders for row in of_row}), dtype=np.int64)
    faithful = set(sharing[loss_of_rows(sharing) <= tolerance].tolist()) if len(sharing) else set()
    owners = np.full(len(rows), -1, dtype=np.int64)
    for place, (row, of_row) in enumerate(zip(rows, holders, strict=True)):
        own = [holder for holder in of_row if holder in faithful]
        if own:
            loss = cosine_loss(np.asarray(vectors[[row] * len(own)]), np.asarray(vectors[own]))
            near = [holder for holder, of_holder in zip(own, loss, strict=True) if of_holder <= tolerance]
            owners[place] = min(near, key=lambda holder: (abs(holder - row), holder), default=-1)
    return owners


def first_misaligned_row(faithful_before: int, misaligned: int, is_misaligned: Callable[[int], bool]) -> int:
    """First row of a run of misaligned rows, between a row known faithful (-1: none) and one known misaligned.

    Bisection: it costs one encoding per step and presumes that one run of rows is out of step.
    """
    low, high = faithful_before, misaligned
    while high - low > 1:
        middle = (low + high) // 2
        if is_misaligned(middle):
            high = middle
        else:
            low = middle
    return high


def _keep_true_holders(
    holders: list[list[int]], fresh: np.ndarray, vectors: np.ndarray, tolerance: float, loss_of_rows: LossOfRow
) -> None:
    rows = np.array(sorted({row for of_query in holders for row in of_query}), dtype=np.int64)
    if not len(rows):
        return
    unfaithful = set(rows[~(loss_of_rows(rows) <= tolerance)].tolist())
    for query, of_query in enumerate(holders):
        kept = [row for row in of_query if row in unfaithful]
        if kept:
            loss = cosine_loss(np.repeat(fresh[query : query + 1], len(kept), axis=0), np.asarray(vectors[kept]))
            kept = [row for row, row_loss in zip(kept, loss, strict=True) if row_loss <= tolerance]
        of_query[:] = kept


def _unit(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)
