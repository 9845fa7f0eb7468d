"""Which probes can be compared: those searched among about as many rows. What is compared is in anomalies.py."""

from __future__ import annotations

import numpy as np

LEAST_COMPETITORS = 5
"""Other rows for each of the k that count: among fewer a probe can hardly miss, whatever its vector is."""

_LIKE = 2  # within a group the largest haystack is at most so many times the smallest


def can_miss(haystack: np.ndarray, k: int) -> np.ndarray:
    """(n,) bool: probes with at least ``LEAST_COMPETITORS`` x k other rows; all where all haystacks (n,) are equal."""
    if not len(haystack) or haystack.min() == haystack.max():
        return np.ones(len(haystack), bool)
    return haystack - 1 >= LEAST_COMPETITORS * k


def like_haystacks(haystack: np.ndarray) -> np.ndarray:
    """(n,) int64 codes of groups of like haystacks (n,).

    The largest and all of at least half its size are the first group, the largest of the rest begins the second, and
    so on: where a filter is filled from rows, whoever owns few rows has fewer that can come before the answer.
    """
    sizes, place = np.unique(haystack, return_inverse=True)
    codes = np.zeros(len(sizes), np.int64)
    end, code = len(sizes), 0
    while end:
        start = int(np.searchsorted(sizes, sizes[end - 1] / _LIKE))
        codes[start:end] = code
        end, code = start, code + 1
    return codes[place]
