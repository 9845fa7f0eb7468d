"""Candidate pairs from MinHash bands: the join of band keys. How signatures are made or judged is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit_pipeline.duplicates.band_shuffle import Runner, buckets_of_bands

_COMPACT_AT = 20_000_000


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


def join_bands(signatures: np.ndarray, bands: int, cap: int, runner: Runner = "native") -> BandJoin:
    """Pairs of rows whose signatures agree in a whole band (Broder 1997; bands x rows as in Rajaraman & Ullman).

    ``signatures`` is (m, permutations) uint32. Time m log m a band; pairs of a bucket of at most ``cap`` rows are all
    emitted, a larger one gives a star from its first row, so edges grow with rows and never with their square.
    ``runner`` is where Daft brings the rows of a bucket together; it changes no pair. Raises AuditInputError where
    that runner cannot be had.
    """
    m = len(signatures)
    codes, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    waiting: list[np.ndarray] = []
    hot: list[HotBucket] = []
    for buckets in buckets_of_bands(signatures, bands, runner):
        order, starts, sizes = buckets.order, buckets.starts, buckets.sizes
        small = (sizes > 1) & (sizes <= cap)
        left, right = _all_pairs(order, starts[small], sizes[small])
        for start, size in zip(starts[sizes > cap].tolist(), sizes[sizes > cap].tolist(), strict=True):
            members = order[start : start + size]
            left = np.concatenate((left, np.full(size - 1, members[0])))
            right = np.concatenate((right, members[1:]))
            hot.append(HotBucket(buckets.band, size, int(members[0])))
        waiting.append(left * m + right)
        if sum(map(len, waiting)) > _COMPACT_AT:
            codes, counts = _compact(codes, counts, waiting)
            waiting = []
    codes, counts = _compact(codes, counts, waiting)
    return BandJoin(codes // max(m, 1), codes % max(m, 1), counts, hot)


def candidate_probability(jaccard: np.ndarray | float, bands: int, rows: int) -> np.ndarray:
    """Probability that a pair of this Jaccard shares a band: 1 - (1 - J^rows)^bands."""
    return 1.0 - (1.0 - np.asarray(jaccard, dtype=float) ** rows) ** bands


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
