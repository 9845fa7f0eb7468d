"""From the cells that hold a defect to the fewest scopes that say so. How a defect is detected belongs to the rooms."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

Cell = tuple[str | None, dt.date | None]
"""(raw source, first day of the period): one batch. The day is None where none of its rows has a date."""

MERGE_SHARE = 0.9
NO_SOURCE = "(none)"


def merge_cells(defective: Iterable[Cell], all_cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Scopes that report a defect once, at the smallest set of cells that holds it.

    The corpus ({}) when at least 90 % of all cells have the defect; else a source or a date of more than one cell when
    at least 90 % of its cells have it; else single cells. A defect in three cells is three scopes. Sources come first
    where a source and a date would cover equally many cells, and a merged scope must spare at least one single cell.
    Cells without a date merge to no date; one that is all its source has is named by the source alone, any other has
    the date None. Order: sources, dates, cells, each by name and day.
    """
    known = set(all_cells)
    bad = set(defective)
    if not bad <= known:
        raise ValueError(f"defective cells that are no cells: {sorted(map(str, bad - known))}")
    if not bad:
        return []
    if len(bad) >= MERGE_SHARE * len(known):
        return [{}]
    merged: list[dict[str, Any]] = []
    left = set(bad)
    for scope, members in _mergeable(bad, known):
        if len(left & members) > 1:
            merged.append(scope)
            left -= members
    dated = {source for source, period in known if period is not None}
    return sorted(merged + [_single(cell, dated) for cell in left], key=_order)


def cells_in(scope: dict[str, Any], all_cells: Iterable[Cell]) -> set[Cell]:
    """The cells that a scope of ``merge_cells`` covers."""
    return {cell for cell in all_cells if scope.items() <= _scope(*cell).items()}


def describe(scope: dict[str, Any]) -> str:
    """A scope in words, to stand in a message: "the whole corpus", "source 'a' on 2026-01-02"."""
    parts = []
    if "source" in scope:
        parts.append(f"source {scope['source']!r}")
    if "ingestion_date" in scope:
        day = scope["ingestion_date"]
        parts.append("without a date" if day is None else f"{'on' if parts else 'date'} {day}")
    return " ".join(parts) or "the whole corpus"


def _mergeable(bad: set[Cell], known: set[Cell]) -> list[tuple[dict[str, Any], set[Cell]]]:
    """Sources and dates that may stand for their cells, those with most defective cells first."""
    found = []
    for axis, name in ((0, "source"), (1, "ingestion_date")):
        for value in {cell[axis] for cell in bad if axis == 0 or cell[axis] is not None}:
            members = {cell for cell in known if cell[axis] == value}
            if len(members) > 1 and len(members & bad) >= MERGE_SHARE * len(members):
                cell = next(iter(members))
                found.append(({name: _scope(*cell)[name]}, members))
    return sorted(found, key=lambda item: (-len(item[1] & bad), _order(item[0])))


def _single(cell: Cell, dated: set[str | None]) -> dict[str, Any]:
    """The scope of one cell; ``dated`` are the sources with a dated one."""
    scope = _scope(*cell)
    return scope if cell[1] is not None or cell[0] in dated else {"source": scope["source"]}


def _scope(source: str | None, period: dt.date | None) -> dict[str, Any]:
    return {
        "source": NO_SOURCE if source is None else source,
        "ingestion_date": None if period is None else period.isoformat(),
    }


def _order(scope: dict[str, Any]) -> tuple[int, str, str]:
    kind = 2 if len(scope) == 2 else 0 if "source" in scope else 1
    return kind, str(scope.get("source", "")), str(scope.get("ingestion_date", ""))
