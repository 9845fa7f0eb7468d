"""How large a loss is seen with how many questions: against sums by hand, plain loops and simulation."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from audit_pipeline.proportions import mcnemar
from audit_pipeline.report.power import WANTED, chance_to_see, least_loss_seen, questions_needed


def test_where_nothing_is_won_as_many_must_be_lost_as_the_level_needs() -> None:
    """At 5 % six of six: 2 / 2^6 is .031 and 2 / 2^5 is .0625. So the chance is that at least six are lost."""
    expected = 1 - sum(comb(100, k) * 0.05**k * 0.95 ** (100 - k) for k in range(6))
    assert chance_to_see(100, 0.05, 0.0, 0.05) == pytest.approx(expected, abs=1e-7)
    assert chance_to_see(5, 0.5, 0.0, 0.05) == 0.0  # whatever is lost of five
    assert chance_to_see(0, 0.5, 0.0, 0.05) == 0.0


@pytest.mark.parametrize(("n", "loss", "won", "level"), [(60, 0.1, 0.05, 0.05), (40, 0.2, 0.1, 0.0125)])
def test_the_sum_is_that_of_the_test_itself(n: int, loss: float, won: float, level: float) -> None:
    """Each outcome of the four counts by its multinomial probability, judged by the test that the gate uses."""
    stay, seen = 1 - 2 * won - loss, 0.0
    for lost in range(n + 1):
        for gained in range(n + 1 - lost):
            if lost > gained and mcnemar(lost, gained) <= level:
                ways = comb(n, lost) * comb(n - lost, gained)
                seen += ways * (won + loss) ** lost * won**gained * stay ** (n - lost - gained)
    assert chance_to_see(n, loss, won, level) == pytest.approx(seen, abs=1e-6)


def test_as_many_questions_as_are_said_to_be_needed_see_it_and_a_tenth_fewer_do_not() -> None:
    needed = questions_needed(0.02, 0.01, 0.0125)
    assert needed is not None
    draw = np.random.default_rng(3)

    def share_seen(n: int) -> float:
        counts = draw.multinomial(n, [0.03, 0.01, 0.96], size=1000)
        return float(np.mean([lost > won and mcnemar(lost, won) <= 0.0125 for lost, won, _ in counts.tolist()]))

    assert share_seen(needed) == pytest.approx(WANTED, abs=0.04)  # three standard errors of the simulation
    assert share_seen(int(needed * 0.9)) < WANTED


def test_a_loss_too_small_for_any_sample_needs_no_number() -> None:
    assert questions_needed(1e-9, 0.1, 0.0125) is None


def test_impossible_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="a loss of 0"):
        chance_to_see(10, 0.0, 0.1, 0.05)


def test_the_least_loss_that_is_seen_in_tenths_of_a_point() -> None:
    """At 1.25 % eight lost of none won: the chance that of 300 at least eight are lost, at 3.5 and at 3.6 points."""
    least = least_loss_seen(300, 0.0, 0.0125, 1.0)
    at_least_eight = {
        loss: 1 - sum(comb(300, k) * loss**k * (1 - loss) ** (300 - k) for k in range(8)) for loss in (0.034, 0.035)
    }
    assert least == next(loss for loss, chance in at_least_eight.items() if chance >= WANTED)
    assert least_loss_seen(5, 0.0, 0.0125, 1.0) is None  # whatever is lost of five
    assert least_loss_seen(300, 0.0, 0.0125, 0.02) is None  # two points are all that there is to lose
