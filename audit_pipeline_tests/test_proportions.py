import math

import numpy as np
import pytest
from scipy.stats import binomtest, hypergeom

from audit_pipeline.proportions import (
    NOT_MEASURED,
    Proportion,
    bootstrap_mean,
    newcombe_difference,
    smallest_visible_share,
    stratified,
    wilson,
)


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (0, 20), (1, 3), (7, 20), (20, 20), (1982, 2000), (764, 764)])
def test_wilson_agrees_with_scipy(successes: int, n: int):
    other = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    mine = wilson(successes, n)
    assert (mine.low, mine.high) == pytest.approx((other.low, other.high), abs=1e-12)
    assert (mine.value, mine.n) == (successes / n, n)


def test_nothing_compared_is_not_measured():
    empty = {"value": None, "low": None, "high": None, "n": 0}
    assert wilson(0, 0).as_dict() == empty
    assert stratified(np.zeros(0, bool), np.zeros(0), np.zeros(0)).as_dict() == empty
    assert bootstrap_mean(np.zeros(0)).as_dict() == empty
    assert smallest_visible_share(0) is None


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5)])
def test_wilson_refuses_impossible_counts(successes: int, n: int):
    with pytest.raises(ValueError, match=f"{successes} successes of {n}"):
        wilson(successes, n)


def test_the_value_never_lies_outside_its_interval_by_rounding():
    for n in range(1, 300):
        for successes in (0, 1, n // 2, n - 1, n):
            mine = wilson(successes, n)
            assert mine.low is not None
            assert mine.low <= successes / n <= (mine.high or 0)


def test_newcombe_gives_the_published_interval():
    # Newcombe (1998), Statistics in Medicine 17: 873-890, table II, example (a), method 10: 56/70 - 48/80.
    difference, low, high = newcombe_difference(wilson(56, 70), wilson(48, 80))
    assert difference == pytest.approx(0.2)
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


def test_newcombe_needs_two_measured_proportions():
    with pytest.raises(ValueError, match="two measured"):
        newcombe_difference(wilson(1, 2), NOT_MEASURED)


def test_one_stratum_far_from_its_population_is_wilson_with_one_degree_of_freedom_less():
    # Cochran's unbiased variance p q / (n - 1) stands for one probe less than there are.
    mine = stratified(np.arange(1000) < 900, np.zeros(1000), np.full(1000, 10**9))
    other = binomtest(900, 1000).proportion_ci(0.95, method="wilson")
    assert (mine.low, mine.high) == pytest.approx((other.low, other.high), abs=2e-5)
    assert mine.low is not None
    assert mine.low < other.low


def test_a_stratum_of_all_hits_far_from_its_population_is_plain_wilson_too():
    mine = stratified(np.ones(30, bool), np.zeros(30), np.full(30, 10**9))
    assert mine.low == pytest.approx(wilson(30, 30).low, abs=1e-6)
    assert (mine.value, mine.high) == (1.0, 1.0)


def test_weights_and_finite_population_correction_worked_out_by_hand():
    # N = 300 and 100; 20 of 30 and 5 of 10 hit. Estimate .75 x 2/3 + .25 x .5 = .625.
    hits = np.array([True] * 20 + [False] * 10 + [True] * 5 + [False] * 5)
    strata = np.array(["x"] * 30 + ["y"] * 10)
    mine = stratified(hits, strata, np.where(strata == "x", 300, 100))
    # Cochran 5.6: sum W^2 (1 - f) p q / (n_h - 1) = .5625 x .9 x (2/9) / 29 + .0625 x .9 x .25 / 9
    cochran = 0.5625 * 0.9 * (2 / 9) / 29 + 0.0625 * 0.9 * 0.25 / 9
    simple = 0.625 * 0.375 * 0.9 * (0.5625 / 30 + 0.0625 / 10)
    variance = max(cochran, simple)
    n = 0.625 * 0.375 / variance
    z2 = 1.959963984540054**2
    half = math.sqrt(z2) / (1 + z2 / n) * math.sqrt(0.625 * 0.375 / n + z2 / (4 * n * n))
    centre = (0.625 + z2 / (2 * n)) / (1 + z2 / n)
    assert mine.value == pytest.approx(0.625)
    assert (mine.low, mine.high) == pytest.approx((centre - half, centre + half))


def test_a_census_has_no_sampling_error():
    mine = stratified(np.array([True, True, False]), np.array([0, 0, 1]), np.array([2, 2, 1]))
    assert mine == Proportion(2 / 3, 2 / 3, 2 / 3, 3)


def test_all_hits_are_exactly_one_whatever_the_weights():
    strata = np.repeat(np.arange(7), 3)
    sizes = np.repeat([10, 3, 77, 1001, 13, 17, 90], 3)
    assert stratified(np.ones(21, bool), strata, sizes).value == 1.0


def test_many_small_strata_that_all_hit_do_not_make_the_interval_wide():
    strata = np.repeat(np.arange(300), 2)
    mine = stratified(np.ones(600, bool), strata, np.full(600, 1000))
    assert mine.low == pytest.approx(wilson(600, 600).low, abs=1e-4)


@pytest.mark.parametrize(
    ("sizes", "shares", "total"),
    [
        ([3000, 500, 100, 2000], [0.99, 0.7, 0.2, 0.95], 300),
        ([2000] * 10, [0.997] * 10, 400),
        ([60] * 60, [0.98] * 60, 200),
        ([500] * 3, [0.5] * 3, 60),
        ([200] * 20, [1.0] * 19 + [0.1], 400),
    ],
)
def test_the_interval_covers_the_truth_at_least_as_often_as_it_says(sizes: list[int], shares: list[float], total: int):
    generator = np.random.default_rng(7)
    hitting = np.array([round(size * share) for size, share in zip(sizes, shares, strict=True)])
    sizes_h = np.array(sizes)
    n_h = np.minimum(sizes_h, np.maximum(2, np.round(total * sizes_h / sizes_h.sum()).astype(int)))
    truth = hitting.sum() / sizes_h.sum()
    strata = np.repeat(np.arange(len(sizes)), n_h)
    covered, runs = 0, 600
    for _ in range(runs):
        found = generator.hypergeometric(hitting, sizes_h - hitting, n_h)
        hits = np.concatenate([np.arange(n) < k for n, k in zip(n_h, found, strict=True)])
        mine = stratified(hits, strata, sizes_h[strata])
        assert mine.low is not None
        assert mine.high is not None
        covered += mine.low <= truth <= mine.high
    # 600 runs of a 95 % interval cover fewer than 558 times with probability 0.2 %.
    assert covered >= 0.93 * runs


def test_bootstrap_agrees_with_the_normal_interval_of_many_fractions():
    values = np.tile([0.0, 0.5, 1.0, 1.0], 100)
    mine = bootstrap_mean(values)
    half = 1.96 * values.std() / 20
    assert mine.value == pytest.approx(0.625)
    assert (mine.low, mine.high) == pytest.approx((0.625 - half, 0.625 + half), abs=0.006)
    assert bootstrap_mean(values) == mine


@pytest.mark.parametrize("n", [20, 100, 400])
def test_a_hundred_queries_that_all_find_everything_do_not_make_certain_that_every_query_does(n: int):
    """Constant fractions carry Wilson's bound over the queries: n / (n + 3.84) of n hits."""
    everything, nothing = bootstrap_mean(np.ones(n)), bootstrap_mean(np.zeros(n))
    assert (everything.value, everything.high, everything.n) == (1.0, 1.0, n)
    assert everything.low == pytest.approx(n / (n + 3.8415), abs=1e-4)
    assert (nothing.value, nothing.low) == (0.0, 0.0)
    assert nothing.high == pytest.approx(3.8415 / (n + 3.8415), abs=1e-4)
    level = bootstrap_mean(np.full(n, 0.9))
    assert level.low is not None
    assert level.high is not None
    assert level.low < 0.9 - 1 / n < 0.9 + 0.1 / n < level.high


def test_a_worse_sample_never_has_the_better_bound():
    """A query that finds nine of ten rows, after ninety-nine that find all, is no reason to be surer."""
    bounds = [bootstrap_mean(np.array([1.0] * (100 - bad) + [0.9] * bad)).low or 0.0 for bad in range(6)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[1] < bounds[0]


@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize(
    ("fractions", "chances"),
    [
        ([1, 0], [0.99, 0.01]),
        ([1, 0], [0.95, 0.05]),
        ([1, 0.9], [0.95, 0.05]),
        ([1, 0.9, 0], [0.79, 0.2, 0.01]),
        ([0, 0.25, 0.5, 0.75, 1], [0.1, 0.15, 0.2, 0.25, 0.3]),
    ],
)
def test_the_interval_of_a_mean_covers_it_at_least_as_often_as_it_says(
    n: int, fractions: list[float], chances: list[float]
):
    generator = np.random.default_rng(3)
    truth, covered, runs = float(np.dot(fractions, chances)), 0, 400
    for run in range(runs):
        mine = bootstrap_mean(generator.choice(fractions, size=n, p=chances), seed=run, draws=200)
        assert mine.low is not None
        assert mine.high is not None
        covered += mine.low <= truth <= mine.high
    # 400 runs of a 95 % interval cover fewer than 367 times with probability 0.2 %.
    assert covered >= 0.9175 * runs


def test_fifty_nine_rows_see_a_defect_of_five_per_cent():
    share = smallest_visible_share(59)
    assert share is not None
    assert share <= 0.05 < (smallest_visible_share(58) or 0)
    # The same by counting: of 100,000 rows 5 % are defective; 59 draws miss them all with at most 5 %.
    assert hypergeom.pmf(0, 100_000, 5_000, 59) <= 0.05
