"""The rows that exact search goes through, ready to be scored, and the scores of single pairs. No rank is made here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_ROWS_PER_BLOCK = 4096


class Haystack:
    """The rows that take part in one scan, block by block in row order, prepared in float64."""

    def __init__(
        self,
        vectors: np.ndarray,
        searchable: np.ndarray,
        metric: str,
        override: tuple[np.ndarray, np.ndarray] | None,
        drop: np.ndarray | None,
    ) -> None:
        self.vectors, self.metric = vectors, metric
        self.active = searchable
        self.replaced = np.empty(0, np.int64)
        self.replacements = np.empty((0, vectors.shape[1]), np.float32)
        if override is not None and len(override[0]):
            order = np.argsort(override[0], kind="stable")
            self.replaced = np.asarray(override[0], np.int64)[order]
            self.replacements = np.asarray(override[1])[order]
            if len(np.unique(self.replaced)) != len(self.replaced):
                raise ValueError("a row is overridden twice")
            self.active = self.active.copy()
            self.active[self.replaced] = usable(self.replacements, metric)
        if drop is not None and len(drop):
            self.active = self.active.copy()
            self.active[drop] = False

    def takes_part(self, rows: np.ndarray) -> np.ndarray:
        return self.active[rows]

    def prepared_rows(self, rows: np.ndarray) -> np.ndarray:
        """Vectors of any rows (r,), (r, d) float64, normalised under cosine."""
        vectors = self.vectors[rows].astype(np.float64)
        if len(self.replaced):
            place = np.minimum(np.searchsorted(self.replaced, rows), len(self.replaced) - 1)
            hit = self.replaced[place] == rows
            vectors[hit] = self.replacements[place[hit]]
        return prepare(vectors, self.metric)

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(ordinals (b,), prepared vectors (b, d)) of the rows that take part, some thousand rows at a time."""
        for start in range(0, len(self.vectors), _ROWS_PER_BLOCK):
            stop = min(start + _ROWS_PER_BLOCK, len(self.vectors))
            ordinals = start + np.flatnonzero(self.active[start:stop])
            if len(ordinals) == 0:
                continue
            block = np.asarray(self.vectors[start:stop], dtype=np.float64)
            first, last = np.searchsorted(self.replaced, (start, stop))
            block[self.replaced[first:last] - start] = self.replacements[first:last]
            if len(ordinals) < len(block):
                block = block[ordinals - start]
            yield ordinals, prepare(block, self.metric)


def usable(vectors: np.ndarray, metric: str) -> np.ndarray:
    """Which of the vectors (n, d) can be scored, (n,) bool: finite ones, and under cosine those with a direction."""
    finite = np.isfinite(vectors).all(axis=1)
    return finite & (vectors != 0).any(axis=1) if metric == "cosine" else finite


def prepare(vectors: np.ndarray, metric: str) -> np.ndarray:
    """float64 vectors ready for the metric: of length 1 under cosine (zero stays zero), as they are otherwise."""
    if metric != "cosine":
        return vectors
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return vectors / np.where(lengths == 0, 1, lengths)[:, None]


def pair_scores(queries: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    """Score of each query (n, d) with the vector of its own row (n, d), both prepared: (n,) float64."""
    if metric == "l2":
        difference = queries - vectors
        return -np.einsum("ij,ij->i", difference, difference)
    return np.einsum("ij,ij->i", queries, vectors)
