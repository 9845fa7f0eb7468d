"""Which settings are chosen: recalls and times made by hand, so that each rule decides alone."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.index.ann_settings import AnnSettings
from audit_pipeline.proportions import Proportion, median_interval
from audit_pipeline.retrieval.ann_choice import Choice, Measured, choose

N = 200
LOW, HIGH = Proportion(0.7, 0.65, 0.75, 400), Proportion(0.99, 0.985, 0.995, 400)
_noise = np.random.default_rng(0).normal(1, 0.02, (8, N))


def made(nprobes: int, lost: int, milliseconds: float, n: int = N) -> Measured:
    """A setting whose first ``lost`` queries miss five of ten rows."""
    recall = np.where(np.arange(n) < lost, 0.5, 1.0)
    return Measured(AnnSettings(nprobes), recall, milliseconds * _noise[nprobes % 8, :n] / 1000)


def test_the_cheapest_of_those_that_certainly_reach_the_limit() -> None:
    # Recalls .50, .70, .985 (lower bound .961), 1, 1 (.981).
    tried = [made(1, 200, 1), made(2, 120, 2), made(4, 6, 3), made(8, 0, 4), made(16, 0, 6)]
    assert choose(tried, 1, LOW, 0.95) == Choice("raise", 2, True)
    assert choose(tried, 1, LOW, 0.98) == Choice("raise", 3, True)  # the estimate of .985 alone is not enough


def test_where_none_certainly_reaches_it_the_estimate_counts_and_that_is_said() -> None:
    tried = [made(1, 133, 1), made(4, 17, 3)]  # .958, lower bound .928
    assert tried[1].figure.low is not None
    assert tried[1].figure.low < 0.95
    assert choose(tried, 0, LOW, 0.95) == Choice("raise", 1, False)


def test_forty_queries_that_find_everything_are_not_enough_to_be_sure() -> None:
    tried = [made(1, 40, 1, n=40), made(8, 0, 4, n=40)]
    assert choose(tried, 0, LOW, 0.95) == Choice("raise", 1, False)  # Wilson's bound of 40 of 40 is .912
    assert choose(tried, 0, LOW, 0.90) == Choice("raise", 1, True)


def test_where_none_reaches_it_none_is_chosen() -> None:
    assert choose([made(1, 133, 1), made(4, 67, 3)], 0, LOW, 0.95) == Choice("unreached")


def test_a_search_that_reaches_the_limit_is_left_alone_unless_much_is_saved() -> None:
    present = made(8, 0, 4)
    assert choose([made(4, 0, 3.6), present, made(16, 0, 6)], 1, HIGH, 0.95) == Choice("as_it_is", 1)
    assert choose([made(4, 0, 2.0), present, made(16, 0, 6)], 1, HIGH, 0.95) == Choice("cheaper", 0, True)
    # Half the time, but not certainly the recall.
    assert choose([made(4, 17, 2.0), present], 1, HIGH, 0.95) == Choice("as_it_is", 1)


def test_a_saving_that_may_be_noise_is_none() -> None:
    random = np.random.default_rng(3)
    present = Measured(AnnSettings(8), np.ones(N), random.lognormal(0, 1.5, N))
    other = Measured(AnnSettings(4), np.ones(N), 0.75 * random.lognormal(0, 1.5, N))
    assert choose([other, present], 1, HIGH, 0.95) == Choice("as_it_is", 1)


def test_level_times_go_to_the_smaller_settings() -> None:
    tried = [made(1, 200, 1), made(4, 0, 3.1), made(8, 0, 3.0)]
    assert choose(tried, 0, LOW, 0.95).place == 1
    slower = [made(1, 200, 1), made(4, 0, 4.5), made(8, 0, 3.0)]
    assert choose(slower, 0, LOW, 0.95).place == 2


def test_a_few_queries_choose_nothing() -> None:
    assert choose([made(1, 19, 1, n=19), made(4, 0, 3, n=19)], 0, LOW, 0.95) == Choice("too_few")


def test_the_median_interval_is_that_of_the_order_statistics() -> None:
    # Conover's table: of 20 values the 6th and the 15th hold the median with at least 95 %.
    assert median_interval(np.arange(1.0, 21)) == (10.5, 6.0, 15.0)
    assert median_interval(np.array([3.0, 1.0, 2.0])) == (2.0, 1.0, 3.0)
    with pytest.raises(ValueError, match="at least one"):
        median_interval(np.empty(0))
