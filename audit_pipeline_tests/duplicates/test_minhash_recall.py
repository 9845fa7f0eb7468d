import numpy as np
from scipy.stats import binom

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates import minhash_recall
from audit_pipeline.duplicates.findings import minhash_recall_low
from audit_pipeline.duplicates.minhash_recall import measure_recall, shingle_pool, shingles_needed

SETTINGS = DuplicateSettings()
POOL = [f"shingle number {number} of the pool" for number in range(shingles_needed(1000))]


def test_a_thousand_planted_pairs_at_each_jaccard_lie_in_the_exact_binomial_region():
    points = measure_recall(POOL, SETTINGS, 1000)
    assert [(point.jaccard, point.n) for point in points] == [
        (0.5, 1000),
        (0.6, 1000),
        (0.7, 1000),
        (0.8, 1000),
        (0.9, 1000),
    ]
    for point in points:
        probability = 1 - (1 - point.jaccard**4) ** 32
        low, high = binom.ppf([0.0005, 0.9995], 1000, probability)
        assert low <= point.found <= high
        assert (point.low_count, point.high_count) == (low, high)
    assert minhash_recall_low(points) == []


def test_the_sets_of_different_pairs_are_disjoint_and_have_the_jaccard_named(monkeypatch):
    seen = []

    def record(sets, permutations):
        seen.append(sets)
        return np.zeros((len(sets), permutations), dtype=np.uint32)

    monkeypatch.setattr(minhash_recall, "minhash_values", record)
    points = measure_recall(POOL, SETTINGS, 20)
    everything = []
    for point, sets in zip(points, seen, strict=True):
        for left, right in zip(sets[::2], sets[1::2], strict=True):
            assert abs(len(left & right) / len(left | right) - point.jaccard) < 1e-12
            everything += left | right
    assert len(everything) == len(set(everything)) == shingles_needed(20)


def test_signatures_that_lose_pairs_are_reported_as_candidates_missed(monkeypatch):
    honest = minhash_recall.minhash_values

    def spoiled(sets, permutations):
        values = honest(sets, permutations)
        values[::2, : permutations // 2] += 1
        values[::2, ::3] += 1
        return values

    monkeypatch.setattr(minhash_recall, "minhash_values", spoiled)
    findings = minhash_recall_low(measure_recall(POOL, SETTINGS, 100))
    assert {finding.code for finding in findings} == {"candidates_missed"}
    assert findings[0].evidence["lane"] == "minhash"


def test_too_little_text_measures_nothing_and_says_so():
    points = measure_recall(shingle_pool(["only one short text"], 5, 1000), SETTINGS, 100)
    assert [point.n for point in points] == [0] * 5
    assert points[0].measured.value is None
    assert minhash_recall_low(points) == []


def test_the_pool_holds_distinct_shingles_up_to_its_limit():
    pool = shingle_pool(["a b c d e f", "a b c d e f", "u v w x y z"], 5, 3)
    assert pool == ["a b c d e", "b c d e f", "u v w x y"]
