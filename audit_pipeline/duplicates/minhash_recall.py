"""How many pairs of known Jaccard the band join finds in the user's text. The corpus's pairs are found elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.minhash_pairs import candidate_probability
from audit_pipeline.duplicates.shingles import shingles
from audit_pipeline.duplicates.signatures import minhash_values
from audit_pipeline.proportions import Proportion, wilson

JACCARDS = (0.5, 0.6, 0.7, 0.8, 0.9)
REGION = 0.999
# Set sizes at which each Jaccard of the list is met exactly: 36 shared of 36 + 2 x 18 is .5, 90 of 90 + 2 x 5 is .9.
_SHARED_AND_OWN = {0.5: (36, 18), 0.6: (36, 12), 0.7: (42, 9), 0.8: (40, 5), 0.9: (36, 2)}


@dataclass(frozen=True)
class RecallPoint:
    """Measured recall at one true Jaccard beside its expectation and the region the count must lie in."""

    jaccard: float
    found: int
    n: int
    expected: float
    low_count: int
    high_count: int

    @property
    def measured(self) -> Proportion:
        return wilson(self.found, self.n)

    @property
    def inside(self) -> bool:
        return self.low_count <= self.found <= self.high_count


def shingle_pool(texts: Iterable[str], size: int, limit: int) -> list[str]:
    """At most ``limit`` distinct shingles of the texts, in the order in which they occur."""
    pool: dict[str, None] = {}
    for text in texts:
        _, found = shingles(text, size)
        pool.update(dict.fromkeys(sorted(found)))
        if len(pool) >= limit:
            break
    return list(pool)[:limit]


def shingles_needed(pairs: int) -> int:
    """Distinct shingles that ``pairs`` pairs at every Jaccard need, as no two pairs share one."""
    return pairs * sum(shared + 2 * own for shared, own in _SHARED_AND_OWN.values())


def measure_recall(pool: list[str], settings: DuplicateSettings, pairs: int) -> list[RecallPoint]:
    """Plants pairs of shingle sets at each Jaccard and counts those that share a band.

    The sets of different pairs are disjoint, so pairs are independent and their number found is binomial around
    1 - (1 - J^r)^b. A pool too small for ``pairs`` gives fewer, down to none (n = 0).
    """
    per_round = shingles_needed(1)
    pairs = min(pairs, len(pool) // per_round)
    points, start = [], 0
    for jaccard in JACCARDS:
        shared, own = _SHARED_AND_OWN[jaccard]
        sets = []
        for _ in range(pairs):
            common = pool[start : start + shared]
            left = pool[start + shared : start + shared + own]
            right = pool[start + shared + own : start + shared + 2 * own]
            sets += [set(common + left), set(common + right)]
            start += shared + 2 * own
        points.append(_point(jaccard, sets, settings))
    return points


def _point(jaccard: float, sets: list[set[str]], settings: DuplicateSettings) -> RecallPoint:
    from scipy.stats import binom

    rows = settings.permutations // settings.bands
    values = minhash_values(sets, settings.permutations).reshape(-1, 2, settings.bands, rows)
    found = int(np.count_nonzero((values[:, 0] == values[:, 1]).all(axis=2).any(axis=1)))
    n = len(values)
    expected = float(candidate_probability(jaccard, settings.bands, rows))
    tail = (1 - REGION) / 2
    low, high = binom.ppf(tail, n, expected), binom.ppf(1 - tail, n, expected)
    return RecallPoint(jaccard, found, n, expected, int(low) if n else 0, int(high) if n else 0)
