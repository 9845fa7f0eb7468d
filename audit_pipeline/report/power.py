"""How large a loss a paired test can tell from chance, and with how many questions. No report is read here."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

WANTED = 0.8
"""Chance to see a loss that is there, from which a test is said to be able to see it (Cohen 1988)."""
MOST_QUESTIONS = 100_000_000
_LEFT_OUT = 1e-9


def chance_to_see(n: int, loss: float, won: float, level: float) -> float:
    """Power of the exact two-sided McNemar test against a loss, counted in the direction of the loss alone.

    Of ``n`` questions each is lost with probability ``won + loss`` and won with probability ``won``; ``level`` is what
    the p-value is compared with. The number of questions that change is binomial, and given it the number lost is
    (Miettinen 1968); the sum leaves out less than 1e-8. Raises ValueError where these are no probabilities.
    """
    from scipy.stats import binom

    changing = min(2 * won + loss, 1.0)
    if won < 0 or loss <= 0 or won + loss > changing:
        raise ValueError(f"a loss of {loss} beside {won} won")
    if n == 0:
        return 0.0
    first, last = binom.ppf(_LEFT_OUT, n, changing), binom.isf(_LEFT_OUT, n, changing)
    changed = np.arange(max(int(first), 0), int(last) + 1)
    # The fewest lost of those that change at which twice the upper tail is within the level.
    critical = binom.isf(level / 2, changed, 0.5) + 1
    seen = binom.sf(critical - 1, changed, (won + loss) / changing)
    return float(binom.pmf(changed, n, changing) @ seen)


def questions_needed(loss: float, won: float, level: float) -> int | None:
    """About how many questions see the loss with ``WANTED``; None above ``MOST_QUESTIONS``.

    The power of an exact test climbs in small steps back and forth, so a few questions fewer may reach it as well.
    """
    enough = 1
    while chance_to_see(enough, loss, won, level) < WANTED:
        enough *= 2
        if enough > MOST_QUESTIONS:
            return None
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        if chance_to_see(middle, loss, won, level) < WANTED:
            few = middle
        else:
            enough = middle
    return enough


def least_loss_seen(n: int, won: float, level: float, most: float) -> float | None:
    """The smallest loss, in tenths of a point, that so many questions see with ``WANTED``; None where none up to
    ``most`` is. As chance_to_see, but ``won`` is made smaller where that share and the loss are more than all.
    """
    tenths = range(1, int(1000 * most + _LEFT_OUT) + 1)
    place = bisect_left(
        tenths,
        WANTED,
        key=lambda tenth: chance_to_see(n, tenth / 1000, min(won, (1 - tenth / 1000) / 2), level),
    )
    return tenths[place] / 1000 if place < len(tenths) else None
