"""Stretches of rows in table order: sampled evenly in cells without dates, and named where a defect fills one.

What is wrong with a row is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

MOST_PARTS = 32
"""Parts that the undated rows of one cell are sampled in."""

ROWS_OF_A_PART = 40
LEAST_ROWS = 3
"""Compared rows that a stretch needs inside, and as many outside, to be named."""

FILLED = 0.9
"""Share of the compared rows between the first and the last defective one that must be defective."""


def parts_of(rows: pa.Table, cells: np.ndarray, per_part: int, total: int) -> np.ndarray:
    """(n,) int64 sampling strata: the rows' cells, those without any date cut into parts of equal length.

    A table without dates is one cell a source, of which a few rows would miss a defect that begins half-way. The
    parts are as many as a quarter of ``total`` allows at ``per_part`` rows each.
    """
    n_cells = int(cells.max(initial=-1)) + 1
    parts = min(MOST_PARTS, total // (4 * per_part * max(n_cells, 1)))
    undated = undated_cells(rows, cells)
    if parts < 2 or not undated.any():
        return cells.astype(np.int64)
    strata = cells.astype(np.int64) * MOST_PARTS
    for cell in np.flatnonzero(undated):
        own = np.flatnonzero(cells == cell)
        count = max(1, min(parts, len(own) // ROWS_OF_A_PART))
        strata[own] += np.arange(len(own)) * count // len(own)
    return np.unique(strata, return_inverse=True)[1].astype(np.int64)


def undated_cells(rows: pa.Table, cells: np.ndarray) -> np.ndarray:
    """(c,) bool: cells none of whose rows has a date; none at all where the rows have no such column."""
    n_cells = int(cells.max(initial=-1)) + 1
    if "ingestion_date" not in rows.column_names:
        return np.zeros(n_cells, dtype=bool)
    dated = rows["ingestion_date"].is_valid().to_numpy()
    return np.bincount(cells[dated], minlength=n_cells) == 0


def stretch_of(
    own_rows: np.ndarray, compared: np.ndarray, defective: np.ndarray, is_defective: Callable[[int], bool]
) -> list[int] | None:
    """[first, last] table row of the one stretch that a defect fills, None where it fills none or all.

    ``own_rows`` are the ascending ordinals of all rows in question, ``compared`` (m,) the ascending ones that were
    looked at, ``defective`` (m,) bool their outcome. The ends are found by bisection between a sound and a defective
    row, one call of ``is_defective``(row) a step, which presumes that there is one such stretch.
    """
    bad = np.flatnonzero(defective)
    if len(bad) < LEAST_ROWS or len(compared) - len(bad) < LEAST_ROWS:
        return None
    first, last = int(bad[0]), int(bad[-1])
    if len(bad) < FILLED * (last - first + 1) or len(compared) - (last - first + 1) < LEAST_ROWS:
        return None
    place = np.searchsorted(own_rows, compared)
    before = int(place[first - 1]) if first else -1
    after = int(place[last + 1]) if last + 1 < len(compared) else len(own_rows)
    begin = _boundary(before, int(place[first]), lambda p: is_defective(int(own_rows[p])))
    end = _boundary(int(place[last]), after, lambda p: not is_defective(int(own_rows[p]))) - 1
    return [int(own_rows[begin]), int(own_rows[end])]


def _boundary(low: int, high: int, is_past: Callable[[int], bool]) -> int:
    """First place past ``low`` for which ``is_past`` holds, where it holds at ``high``."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_past(middle) else (middle, high)
    return high
