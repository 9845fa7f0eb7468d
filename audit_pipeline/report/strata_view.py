"""Chooses which strata the page shows and pools days into longer periods. Figures of strata come from retrieval."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit_pipeline.proportions import wilson
from audit_pipeline.report.wording import is_measured, visible

MAX_ROWS = 20
MAX_PERIODS = 14
FINE, UNSURE, LOW = range(3)
NO_DATE = "no date"


@dataclass(frozen=True)
class Cell:
    """A stratum as the charts draw it: shares with a 95 % interval."""

    name: str
    value: float
    low: float
    high: float
    n: int
    source: str = ""
    period: str = ""

    def chance(self, limit: float) -> float:
        """Probability of so few hits if the true share were the limit (exact binomial, one-sided)."""
        from scipy.stats import binom

        return float(binom.cdf(round(self.value * self.n), self.n, limit))

    def state(self, limit: float, cells: int) -> int:
        """FINE at or over the limit; under it LOW where chance does not explain it at 5 %, else UNSURE.

        Of many cells a few are low by chance, so the 5 % are divided by the number of ``cells`` looked at (Bonferroni).
        """
        if self.value >= limit:
            return FINE
        return LOW if self.chance(limit) < 0.05 / cells else UNSURE


@dataclass(frozen=True)
class Grid:
    """Cells of source x period with the order of both axes."""

    cells: list[Cell]
    sources: list[str]
    periods: list[str]


def cells_of(elements: Sequence[Mapping[str, Any]], keys: Sequence[str], figure: str) -> list[Cell]:
    """The measured strata as cells, named by their keys."""
    cells = []
    for element in elements:
        share = element.get(figure)
        if share is None or not is_measured(share):
            continue
        source = _source(element) if "source" in keys else ""
        date = str(element.get("ingestion_date") or NO_DATE) if "ingestion_date" in keys else ""
        other = [_words(element[key]) for key in keys if key not in ("source", "ingestion_date")]
        name = " · ".join(part for part in (source, date, *other) if part)
        cells.append(Cell(name, share["value"], share["low"], share["high"], share["n"], source, date))
    return cells


def worst_first(cells: Sequence[Cell], limit: float, most: int = MAX_ROWS) -> list[Cell]:
    """The cells that chance explains least first."""
    return sorted(cells, key=lambda cell: (cell.chance(limit), cell.value, cell.name))[:most]


def pooled(cells: Sequence[Cell], most: int = MAX_PERIODS) -> tuple[list[Cell], str]:
    """Cells of the same source pooled over days, ISO weeks, months or years: the finest that gives at most ``most``
    periods. Strata carry plain hit counts (Wilson), so their hits add up. Returns the cells and the unit's name."""
    for unit, label in _UNITS:
        hits: dict[tuple[str, str], list[int]] = {}
        for cell in cells:
            entry = hits.setdefault((cell.source, label(cell.period)), [0, 0])
            entry[0] += round(cell.value * cell.n)
            entry[1] += cell.n
        if len({period for _, period in hits}) <= most or unit == "year":
            break
    merged = []
    for (source, period), (successes, n) in sorted(hits.items()):
        share = wilson(successes, n)
        if share.value is not None and share.low is not None and share.high is not None:
            merged.append(Cell(source or period, share.value, share.low, share.high, n, source, period))
    return merged, unit


def grid_of(
    elements: Sequence[Mapping[str, Any]], figure: str, limit: float, most_periods: int, most_sources: int = MAX_ROWS
) -> Grid:
    """Source x period of the sources whose worst cell chance explains least."""
    cells, _ = pooled(cells_of(elements, ("source", "ingestion_date"), figure), most_periods)
    worst: dict[str, float] = {}
    for cell in cells:
        worst[cell.source] = min(worst.get(cell.source, 1.0), cell.chance(limit))
    sources = sorted(worst, key=lambda source: (worst[source], source))[:most_sources]
    shown = [cell for cell in cells if cell.source in sources]
    return Grid(shown, sources, sorted({cell.period for cell in shown}))


def _words(value: Any) -> str:
    """A key's value; of the values that fill a filter, which have their columns' names, the values alone."""
    if isinstance(value, Mapping):
        return " · ".join("(none)" if own is None else visible(str(own)) for own in value.values())
    return visible(str(value))


def _source(element: Mapping[str, Any]) -> str:
    source = element.get("source")
    return "(none)" if source is None else visible(str(source))


def _week(day: str) -> str:
    if day == NO_DATE:
        return day
    year, week, _ = dt.date.fromisoformat(day).isocalendar()
    return f"{year}-W{week:02d}"


_UNITS = (
    ("day", lambda day: day),
    ("week", _week),
    ("month", lambda day: day if day == NO_DATE else day[:7]),
    ("quarter", lambda day: day if day == NO_DATE else f"{day[:4]}-Q{(int(day[5:7]) + 2) // 3}"),
    ("year", lambda day: day if day == NO_DATE else day[:4]),
)
