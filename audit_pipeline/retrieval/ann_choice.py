"""Which of several measured ANN settings to search with, and why, in words. Nothing is searched or timed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audit_pipeline.index.ann_settings import AnnSettings
from audit_pipeline.proportions import Proportion, bootstrap_mean, median_interval

LEAST_QUERIES = 20
"""Under this many a recall is not known well enough to advise on it."""

_TIE = 1.10  # times within ten percent of the fastest count as level, and the smaller settings go first
_WORTH = 0.80  # a search that reaches the limit is left alone unless a fifth of its time could certainly be saved

Status = Literal["as_it_is", "cheaper", "raise", "unreached", "too_few"]


@dataclass(frozen=True)
class Measured:
    """One setting over the same q queries: ``recall`` (q,) shares of the exact ten, ``seconds`` (q,) of each search."""

    settings: AnnSettings
    recall: np.ndarray
    seconds: np.ndarray

    @property
    def figure(self) -> Proportion:
        return bootstrap_mean(self.recall)

    def against(self, other: Measured) -> tuple[float, float, float]:
        """Median over the queries of this one's time as a multiple of the other's, with its 95 % interval."""
        return median_interval(self.seconds / other.seconds)


@dataclass(frozen=True)
class Choice:
    """The setting to search with: its place among the measured ones, None where none can be named.

    ``sure`` says that the lower bound of its recall reaches the limit, and not the estimate alone.
    """

    status: Status
    place: int | None = None
    sure: bool = False


def choose(measured: Sequence[Measured], present: int, recall: Proportion, limit: float) -> Choice:
    """The cheapest setting whose recall certainly reaches ``limit``.

    ``recall`` is ann_recall@10 of the declared search over all queries and decides whether it needs changing: one that
    reaches the limit is left as it is, unless another one that reaches it too, by the lower bound of its 95 % interval,
    certainly takes a fifth less time (upper bound of the median paired ratio). Where none reaches it by the lower bound
    the estimate counts, and ``sure`` is False. Times are paired by query; those within ten percent of the fastest, or
    not certainly beyond it, are level, and the smallest of these settings is taken.
    """
    if len(measured[present].recall) < LEAST_QUERIES or recall.value is None:
        return Choice("too_few")
    figures = [one.figure for one in measured]
    others = [place for place in range(len(measured)) if place != present]
    sure = [place for place in others if (figures[place].low or 0.0) >= limit]
    if recall.value >= limit:
        saving = [place for place in sure if measured[place].against(measured[present])[2] < _WORTH]
        return Choice("cheaper", _cheapest(measured, saving), True) if saving else Choice("as_it_is", present)
    reaching = sure or [place for place in others if (figures[place].value or 0.0) >= limit]
    if not reaching:
        return Choice("unreached")
    return Choice("raise", _cheapest(measured, reaching), bool(sure))


def _cheapest(measured: Sequence[Measured], places: Sequence[int]) -> int:
    fastest = min(places, key=lambda place: float(np.median(measured[place].seconds)))
    level = [place for place in places if measured[place].against(measured[fastest])[1] < _TIE]
    return min(level, key=lambda place: measured[place].settings.work)
