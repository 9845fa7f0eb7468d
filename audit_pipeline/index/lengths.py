"""Lengths of stored vectors, and fresh vectors brought to them. What follows of lengths is said in searchability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit_pipeline.index.snapshot import USABLE, TableSnapshot

NORM_TOLERANCE = 1e-3
"""Float16 storage moves a norm by 6e-5; a vector that was never normalised is off by far more than this."""

EVEN = 0.01
"""Lengths that differ by less rank as one length does: by the share under dot, by the amount under l2 for queries of
length 1, each as a difference of so much in cosine would."""

_VARIES = 0.1
_USUAL_SHARE = 0.9
_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True)
class Lengths:
    """Lengths of the usable rows: shortest, median and longest; all 0 where there is none."""

    least: float
    median: float
    most: float

    @property
    def even(self) -> bool:
        """Whether all rows are so nearly of one length that cosine, dot and l2 rank them alike."""
        return self.median > 0 and self.most - self.least <= EVEN * min(1.0, self.median)


def norms(vectors: np.ndarray) -> np.ndarray:
    """(n,) float64 Euclidean lengths of (n, d) vectors."""
    lengths = np.empty(len(vectors))
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        block = np.asarray(vectors[start : start + _ROWS_AT_ONCE], dtype=np.float64)
        lengths[start : start + len(block)] = np.sqrt(np.einsum("ij,ij->i", block, block))
    return lengths


def summarised(lengths: np.ndarray, usable: np.ndarray) -> Lengths:
    """What a table's lengths (n,) are like, over its usable rows (n,) bool."""
    of_usable = lengths[usable]
    if not len(of_usable):
        return Lengths(0.0, 0.0, 0.0)
    return Lengths(float(of_usable.min()), float(np.median(of_usable)), float(of_usable.max()))


def at_stored_length(snapshot: TableSnapshot, rows: np.ndarray, fresh: np.ndarray) -> tuple[np.ndarray, int]:
    """Fresh vectors (m, d) at the lengths of the rows (m,) they are to stand for, and how many had to be scaled.

    A writer that scales its vectors would scale these as well; under cosine that does not matter, and nothing is done.
    Where both the encoder's lengths and the stored ones vary from text to text, a text's own length is part of what it
    says: all are then scaled by one factor, and by none where it is near 1.
    """
    if snapshot.metric == "cosine" or not len(rows):
        return fresh, 0
    own, stored = norms(fresh), norms(snapshot.vectors[rows])
    known = (snapshot.vector_state[rows] == USABLE) & np.isfinite(own) & (own > 0)
    if not known.any():
        return fresh, 0
    factor = np.ones(len(rows))
    factor[known] = stored[known] / own[known]
    if not (_one_length(own[known]) or _one_length(stored[known])):
        common = float(np.median(factor[known]))
        factor = np.where(known & (abs(common - 1) > _VARIES), common, 1.0)
    return _scaled(fresh, factor)


def at_usual_length(snapshot: TableSnapshot, rows: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """Fresh vectors (m, d) of whole texts at the length that the table's rows usually have, else at their own rows'.

    The row itself may be at fault, and its length with it; where nine in ten rows are of one length, that one counts.
    """
    if snapshot.metric == "cosine" or not len(rows):
        return fresh
    usable = snapshot.vector_state == USABLE
    lengths, own = norms(snapshot.vectors), norms(fresh)
    usual = float(np.median(lengths[usable])) if usable.any() else 0.0
    alike = np.abs(lengths[usable] - usual) <= EVEN * usual
    if not usual or alike.mean() < _USUAL_SHARE:
        return at_stored_length(snapshot, rows, fresh)[0]
    return _scaled(fresh, np.where(own > 0, usual / np.where(own > 0, own, 1), 1.0))[0]


def _one_length(lengths: np.ndarray) -> bool:
    return bool(np.ptp(lengths) <= EVEN * np.median(lengths))


def _scaled(vectors: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, int]:
    factor = np.where(np.abs(factor - 1) > NORM_TOLERANCE, factor, 1.0)
    count = int(np.count_nonzero(factor != 1))
    return (vectors if not count else (vectors * factor[:, None]).astype(vectors.dtype)), count
