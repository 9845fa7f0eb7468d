import numpy as np
import pytest
from scipy.stats import chi2_contingency

from audit_pipeline.retrieval import change_point as module
from audit_pipeline.retrieval.change_point import LEAST_SIDE, change_point

NO_GROUPS = np.zeros(400, np.int64)


def hits(worse: range, n: int = 400, share: float = 0.5, rest: float = 0.97, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    hit = generator.random(n) < rest
    hit[worse.start : worse.stop] = generator.random(len(worse)) < share
    return hit


@pytest.mark.parametrize("worse", [range(260, 400), range(0, 90), range(150, 260)])
def test_the_stretch_that_misses_is_found_near_its_ends(worse: range) -> None:
    found = change_point(hits(worse), NO_GROUPS, seed=0)
    assert found is not None
    assert found.p <= 0.002
    assert abs(found.first - worse.start) <= 8
    assert abs(found.last - (worse.stop - 1)) <= 8
    assert found.n + found.rest_n == 400
    assert found.effect == pytest.approx(found.rest_hits / found.rest_n - found.hits / found.n)


def test_the_cut_is_that_of_the_largest_chi_square() -> None:
    hit = hits(range(260, 400), share=0.8)
    cuts = range(LEAST_SIDE, 400 - LEAST_SIDE + 1)

    def chi_square(cut: int) -> float:
        sides = hit[:cut], hit[cut:]
        return chi2_contingency([[side.sum(), (~side).sum()] for side in sides], correction=False).statistic

    found = change_point(hit, NO_GROUPS, seed=0)
    assert found is not None
    assert found.first == max(cuts, key=chi_square)


def test_a_clean_table_is_silent_over_twenty_seeds() -> None:
    for seed in range(20):
        hit = np.random.default_rng(seed).random(400) < 0.9
        found = change_point(hit, NO_GROUPS, seed=0)
        assert found is None or found.p > 0.005 or found.effect < 0.15


def test_p_values_of_clean_tables_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERMUTATIONS", 199)
    p = [change_point(np.random.default_rng(s).random(100) < 0.7, np.zeros(100, int), 1).p for s in range(200)]
    assert np.mean(p) == pytest.approx(0.5, abs=0.08)
    assert np.mean(np.array(p) <= 0.05) < 0.10


def test_harder_chunks_that_stand_together_are_no_change_within_their_group() -> None:
    groups = np.repeat([0, 1], [260, 140])
    hit = hits(range(260, 400))
    found = change_point(hit, groups, seed=0)
    assert found is not None
    assert found.p > 0.05
    mixed = np.arange(400) % 2
    assert change_point(hit, mixed, seed=0).p == 1 / 2000


def test_too_few_probes_no_miss_and_no_hit_have_no_change_point() -> None:
    assert change_point(hits(range(20, 39), n=39), np.zeros(39, int), 0) is None
    assert change_point(np.ones(400, bool), NO_GROUPS, 0) is None
    assert change_point(np.zeros(400, bool), NO_GROUPS, 0) is None


def test_the_same_seed_gives_the_same_p() -> None:
    hit = np.random.default_rng(4).random(400) < 0.9
    assert change_point(hit, NO_GROUPS, 3) == change_point(hit, NO_GROUPS, 3)
