"""Candidate pairs from MinHash bands: the join of band keys. How signatures are made or judged is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_COMPACT_AT = 20_000_000
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class HotBucket:
    """One band bucket with more rows than the cap: joined as a star from ``centre``."""

    band: int
    size: int
    centre: int


@dataclass(frozen=True)
class BandJoin:
    """Pairs a < b of rows of the signature matrix that share at least one band, sorted, each once."""

    a: np.ndarray
    b: np.ndarray
    shared_bands: np.ndarray
    hot: list[HotBucket]


def join_bands(signatures: np.ndarray, bands: int, cap: int) -> BandJoin:
    """Pairs of rows whose signatures agree in a whole band (Broder 1997; bands x rows as in Rajaraman & Ullman).

    ``signatures`` is (m, permutations) uint32. Time m log m a band; pairs of a bucket of at most ``cap`` rows are all
    emitted, a larger one gives a star from its first row, so edges grow with rows and never with their square.
    """
    m, permutations = signatures.shape
    rows = permutations // bands
    codes, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    waiting: list[np.ndarray] = []
    hot: list[HotBucket] = []
    for band in range(bands):
        order, starts, sizes = _buckets(_band_keys(signatures[:, band * rows : (band + 1) * rows]))
        small = (sizes > 1) & (sizes <= cap)
        left, right = _all_pairs(order, starts[small], sizes[small])
        for start, size in zip(starts[sizes > cap].tolist(), sizes[sizes > cap].tolist(), strict=True):
            members = order[start : start + size]
            left = np.concatenate((left, np.full(size - 1, members[0])))
            right = np.concatenate((right, members[1:]))
            hot.append(HotBucket(band, size, int(members[0])))
        waiting.append(left * m + right)
        if sum(map(len, waiting)) > _COMPACT_AT:
            codes, counts = _compact(codes, counts, waiting)
            waiting = []
    codes, counts = _compact(codes, counts, waiting)
    return BandJoin(codes // max(m, 1), codes % max(m, 1), counts, hot)


def candidate_probability(jaccard: np.ndarray | float, bands: int, rows: int) -> np.ndarray:
    """Probability that a pair of this Jaccard shares a band: 1 - (1 - J^rows)^bands."""
    return 1.0 - (1.0 - np.asarray(jaccard, dtype=float) ** rows) ** bands


def _band_keys(band: np.ndarray) -> np.ndarray:
    """(m,) uint64 key of each row's values in one band; two different bands meet with probability about 2^-64."""
    key = np.zeros(len(band), dtype=np.uint64)
    for column in range(band.shape[1]):
        key = (key ^ band[:, column]) * _MIX
        key ^= key >> np.uint64(29)
    return key


def _buckets(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in key order (ascending within a bucket), and the start and size of every bucket in that order."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(new)
    return order, starts, np.diff(np.append(starts, len(keys)))


def _all_pairs(order: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs (a < b) within each bucket, one distance between bucket places at a time."""
    left, right = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    distance = 1
    while len(starts):
        spans = sizes - distance
        offsets = np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans)
        places = np.repeat(starts, spans) + offsets
        left.append(order[places])
        right.append(order[places + distance])
        distance += 1
        alive = sizes > distance
        starts, sizes = starts[alive], sizes[alive]
    return np.concatenate(left), np.concatenate(right)


def _compact(codes: np.ndarray, counts: np.ndarray, waiting: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct pair codes with the number of bands they were seen in."""
    new = np.concatenate(waiting) if waiting else np.empty(0, dtype=np.int64)
    everything = np.concatenate((codes, new))
    weights = np.concatenate((counts, np.ones(len(new), dtype=np.int32)))
    order = np.argsort(everything, kind="stable")
    everything = everything[order]
    first = np.ones(len(everything), dtype=bool)
    first[1:] = everything[1:] != everything[:-1]
    starts = np.flatnonzero(first)
    if not len(starts):
        return everything, weights
    return everything[starts], np.add.reduceat(weights[order], starts).astype(np.int32)
