"""Where in table order probes begin, or stop, to miss. Which are compared, and what is said, is in row_anomalies.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST_SIDE = 20
LEAST_SHARE = 0.05
"""Probes on either side of a change point, and their share of all: near the ends chance makes the largest effects."""

PERMUTATIONS = 1999
_CELLS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class ChangePoint:
    """Probes [first, last] in the order given miss more often than the rest.

    ``hits`` of the ``n`` probes inside, ``rest_hits`` of ``rest_n`` outside; ``effect`` is how much lower the share of
    hits is inside, within groups; ``p`` that of a permutation test.
    """

    first: int
    last: int
    n: int
    hits: int
    rest_n: int
    rest_hits: int
    effect: float
    p: float


def change_point(hit: np.ndarray, groups: np.ndarray, seed: int) -> ChangePoint | None:
    """The stretch of probes that misses most, between one change point and an end or between two; None without any.

    ``hit`` (n,) bool in table order, ``groups`` (n,) codes within which probes are alike (length band, source). The
    statistic is the largest standardised difference between the two sides over all cuts (maximally selected chi-square,
    Miller & Siegmund 1982), each probe against the mean of its group; its p-value is the share of permutations within
    the groups that reach it, with one added to both counts (Phipson & Smyth 2010). The worse side is then cut once
    more in the same way (binary segmentation, Scott & Knott 1974), which trims a stretch that ends before the table
    does and leaves the p-value of the first cut. The draws depend on the seed alone.
    """
    n = len(hit)
    if n < 2 * LEAST_SIDE or hit.all() or not hit.any():
        return None
    left, p = _cut(hit, groups, seed)
    worse_first = hit[:left].mean() < hit[left:].mean()
    first, last = (0, left) if worse_first else (left, n)
    inner = _trimmed(hit[first:last], groups[first:last], seed, worse_first)
    if inner is not None:
        first, last = (first + inner, last) if worse_first else (first, first + inner)
    inside = np.zeros(n, bool)
    inside[first:last] = True
    return ChangePoint(
        first,
        last - 1,
        int(inside.sum()),
        int(hit[inside].sum()),
        int((~inside).sum()),
        int(hit[~inside].sum()),
        _effect(hit, groups, inside),
        p,
    )


def _cut(hit: np.ndarray, groups: np.ndarray, seed: int) -> tuple[int, float]:
    """(probes before the best cut, p of the largest statistic)."""
    least = max(LEAST_SIDE, int(np.ceil(LEAST_SHARE * len(hit))))
    cuts = slice(least - 1, len(hit) - least)
    residual = _residuals(hit, groups)
    scale = _scale(residual, groups)[cuts]
    own = np.abs(np.cumsum(residual)[cuts]) * scale
    best = int(np.argmax(own))
    reached = _reached(residual, groups, scale, cuts, float(own[best]), seed)
    return best + least, (reached + 1) / (PERMUTATIONS + 1)


def _trimmed(hit: np.ndarray, groups: np.ndarray, seed: int, ends_at_last: bool) -> int | None:
    """Where inside the worse side the misses end that its outer part does not have; None where they fill it."""
    if len(hit) < 2 * LEAST_SIDE or hit.all() or not hit.any():
        return None
    left, p = _cut(hit, groups, seed)
    outer_is_better = (hit[:left].mean() > hit[left:].mean()) == ends_at_last
    return left if p <= 0.01 and outer_is_better else None


def _residuals(hit: np.ndarray, groups: np.ndarray) -> np.ndarray:
    counts = np.bincount(groups)
    means = np.bincount(groups, weights=hit) / np.maximum(counts, 1)
    return hit - means[groups]


def _scale(residual: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """1 / standard deviation of the cumulated residuals at each cut, under permutation within the groups."""
    n, width = len(residual), int(groups.max()) + 1
    counts = np.bincount(groups, minlength=width).astype(float)
    spread = np.bincount(groups, weights=residual**2, minlength=width) / np.maximum(counts, 1)
    variance = np.zeros(n)
    for group in np.flatnonzero((counts > 1) & (spread > 0)):
        before = np.cumsum(groups == group)
        variance += spread[group] * before * (counts[group] - before) / (counts[group] - 1)
    return np.where(variance > 1e-12, 1 / np.sqrt(np.maximum(variance, 1e-12)), 0.0)


def _reached(
    residual: np.ndarray, groups: np.ndarray, scale: np.ndarray, cuts: slice, statistic: float, seed: int
) -> int:
    """Permutations whose largest statistic is as large."""
    generator = np.random.default_rng(seed)
    n = len(residual)
    order = np.argsort(groups, kind="stable")
    grouped, members = residual[order], groups[order]
    reached = done = 0
    while done < PERMUTATIONS:
        draws = min(PERMUTATIONS - done, max(1, _CELLS_AT_ONCE // n))
        # Sorting group + a uniform number shuffles each group in itself.
        shuffled = np.argsort(members + generator.random((draws, n)), axis=1)
        values = np.empty((draws, n))
        values[:, order] = grouped[shuffled]
        sums = np.abs(np.cumsum(values, axis=1)[:, cuts]) * scale
        reached += int((sums.max(axis=1) >= statistic - 1e-9).sum())
        done += draws
    return reached


def _effect(hit: np.ndarray, groups: np.ndarray, inside: np.ndarray) -> float:
    """Difference of the shares of hits outside and inside, weighted over the groups that have probes on both sides."""
    width = int(groups.max()) + 1
    n, rest = np.bincount(groups[inside], minlength=width), np.bincount(groups[~inside], minlength=width)
    hits = np.bincount(groups[inside], weights=hit[inside], minlength=width)
    rest_hits = np.bincount(groups[~inside], weights=hit[~inside], minlength=width)
    both = (n > 0) & (rest > 0)
    if not both.any():
        return 0.0
    n, rest, hits, rest_hits = n[both], rest[both], hits[both], rest_hits[both]
    weight = n * rest / (n + rest)
    return float(np.sum(weight * (rest_hits / rest - hits / n)) / weight.sum())
