"""Proportions with their intervals, shared by every room. No sampling plan and no table belongs here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Z_95 = 1.959963984540054


@dataclass(frozen=True)
class Proportion:
    """A share with a 95 % interval and the number it rests on; ``value`` is None where n is 0."""

    value: float | None
    low: float | None
    high: float | None
    n: int

    def as_dict(self) -> dict[str, float | int | None]:
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


NOT_MEASURED = Proportion(None, None, None, 0)


def wilson(successes: int, n: int) -> Proportion:
    """Wilson score interval of successes out of n (Wilson 1927). Raises ValueError outside 0 <= successes <= n."""
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    if n == 0:
        return NOT_MEASURED
    value = successes / n
    low, high = _wilson_bounds(value, n)
    return Proportion(value, min(low, value), max(high, value), n)


def wilson_of_share(value: float, n: int) -> Proportion:
    """Wilson's interval of a share that n questions would show, which need not be a whole number of them."""
    low, high = _wilson_bounds(value, n)
    return Proportion(value, min(low, value), max(high, value), n)


def stratified(hits: np.ndarray, strata: np.ndarray, chunks_of_stratum: np.ndarray) -> Proportion:
    """Stratified estimate of a share over a finite population, with its 95 % interval.

    ``hits`` (n,) bool, ``strata`` (n,) the stratum of each probe, ``chunks_of_stratum`` (n,) the N_h of that stratum.
    Point estimate and variance with finite-population correction follow Cochran, Sampling Techniques (1977), 5.4
    and 5.6. The normal interval fails near 0 and 1, so the interval is Wilson's at the effective sample size that
    gives this variance (Korn & Graubard 1998 use the same device). That variance is 0 where every stratum hits
    throughout or not at all, which would claim certainty: the effective size never exceeds that of a simple random
    sample with the same weights and sampling fractions (Kish 1965). A stratum of one probe shows no variance of its
    own and takes that of the whole. A census (every N_h equal to n_h) has no sampling error: low = high = value.
    """
    n = len(hits)
    if n == 0:
        return NOT_MEASURED
    _, index, n_h = np.unique(strata, return_inverse=True, return_counts=True)
    big_n_h = np.zeros(len(n_h))
    big_n_h[index] = chunks_of_stratum
    hit_h = np.bincount(index, weights=np.asarray(hits, dtype=float), minlength=len(n_h))
    share_h = hit_h / n_h
    weight_h = big_n_h / big_n_h.sum()
    value = float(big_n_h @ share_h) / float(big_n_h.sum())
    unsampled_h = 1 - np.minimum(n_h / np.maximum(big_n_h, 1), 1.0)
    if not unsampled_h.any():
        return Proportion(value, value, value, n)
    spread = value * (1 - value)
    spread_h = np.where(n_h > 1, share_h * (1 - share_h) * n_h / np.maximum(n_h - 1, 1), spread)
    per_probe_h = weight_h**2 * unsampled_h / n_h
    variance = max(float(per_probe_h @ spread_h), spread * float(per_probe_h.sum()))
    effective = spread / variance if variance > 0 else 1 / float(per_probe_h.sum())
    low, high = _wilson_bounds(value, effective)
    return Proportion(value, min(low, value), max(high, value), n)


def newcombe_difference(a: Proportion, b: Proportion) -> tuple[float, float, float]:
    """a - b with its 95 % interval from the two intervals (Newcombe 1998, method 10).

    Raises ValueError where one of the two was not measured.
    """
    if a.value is None or a.low is None or a.high is None or b.value is None or b.low is None or b.high is None:
        raise ValueError("a difference needs two measured proportions")
    difference = a.value - b.value
    low = difference - math.hypot(a.value - a.low, b.high - b.value)
    high = difference + math.hypot(a.high - a.value, b.value - b.low)
    return difference, low, high


def paired_difference(both: int, only_a: int, only_b: int, neither: int) -> tuple[float, float, float]:
    """Share of b less share of a over the same n questions, with its 95 % interval (Newcombe 1998b, method 10).

    The four counts are the questions that both, only one or neither answered. The two Wilson intervals are combined
    with the correlation of the answers, its continuity correction included. Raises ValueError where n is 0.
    """
    n = both + only_a + only_b + neither
    if n == 0:
        raise ValueError("a difference needs at least one question")
    a, b = wilson(both + only_a, n), wilson(both + only_b, n)
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    agreement = float(both * neither - only_a * only_b)
    if agreement > 0:
        agreement = max(agreement - n / 2, 0)
    phi = agreement / math.sqrt(margins) if margins else 0.0
    if a.value is None or a.low is None or a.high is None or b.value is None or b.low is None or b.high is None:
        raise ValueError("a difference needs two measured proportions")
    down = _combined(b.value - b.low, a.high - a.value, phi)
    up = _combined(b.high - b.value, a.value - a.low, phi)
    difference = (only_b - only_a) / n
    return difference, max(-1.0, difference - down), min(1.0, difference + up)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p-value that a question is as likely to be lost as to be won (McNemar 1947, binomial form)."""
    from scipy.stats import binomtest

    lost_or_won = only_a + only_b
    return float(binomtest(only_a, lost_or_won, 0.5).pvalue) if lost_or_won else 1.0


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values (m,): the family-wise error of m tests stays at the level compared with (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _combined(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))


def bootstrap_mean(values: np.ndarray, seed: int = 0, draws: int = 2000) -> Proportion:
    """Mean of n per-query fractions, each in [0, 1], with a 95 % interval over queries.

    The wider, end by end, of the percentile bootstrap (Efron & Tibshirani 1993) and of Wilson's score interval with the
    fractions' own variance in place of a share's p(1-p), which it equals where every fraction is 0 or 1. The bootstrap
    knows no value that it was not shown: of a hundred queries that find everything it says that every query does, and
    of nearly constant ones almost that.
    """
    n = len(values)
    if n == 0:
        return NOT_MEASURED
    generator = np.random.default_rng(seed)
    # Multinomial counts are the bootstrap resamples; they need draws x n integers instead of draws x n gathers.
    counts = generator.multinomial(n, np.full(n, 1 / n), size=draws)
    means = counts @ np.asarray(values, dtype=float) / n
    low, high = np.quantile(means, (0.025, 0.975))
    value = float(np.mean(values))
    least, most = _score_bounds(value, float(np.var(values)), n)
    return Proportion(value, min(float(low), least, value), max(float(high), most, value), n)


def median_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Median of n values with its 95 % interval by order statistics, which no outlier moves (Conover 1999, 3.2).

    Raises ValueError without values; of fewer than six the interval is from the least to the largest.
    """
    from scipy.stats import binom

    n = len(values)
    if n == 0:
        raise ValueError("a median needs at least one value")
    ordered = np.sort(values)
    place = max(int(binom.ppf(0.025, n, 0.5)), 1) - 1
    return float(np.median(ordered)), float(ordered[place]), float(ordered[n - 1 - place])


def smallest_visible_share(n: int, confidence: float = 0.95) -> float | None:
    """Smallest share of defective rows of which n random rows contain at least one with the given confidence."""
    return None if n == 0 else 1 - (1 - confidence) ** (1 / n)


def _wilson_bounds(share: float, n: float) -> tuple[float, float]:
    return _score_bounds(share, share * (1 - share), n)


def _score_bounds(mean: float, variance: float, n: float) -> tuple[float, float]:
    z2 = Z_95**2
    centre = (mean + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(variance / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)
