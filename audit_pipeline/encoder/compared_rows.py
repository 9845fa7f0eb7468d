"""Where defects of compared rows lie: the smallest cells, or the stretch of rows, that hold them. Nothing is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audit_pipeline.encoder.cells import Cell, Cells
from audit_pipeline.encoder.fidelity import RowStates, Sample
from audit_pipeline.encoder.stretches import stretch_of
from audit_pipeline.findings import MAX_EXAMPLES, Finding
from audit_pipeline.scopes import cells_in, merge_cells


@dataclass(frozen=True)
class ComparedRows:
    """A sample of the table's rows as judged; ``ids`` are those of its rows, ``all_cells`` what they lie in."""

    cells: Cells
    sample: Sample
    states: RowStates
    ids: list[str]
    all_cells: set[Cell]
    undated: set[Cell] = field(default_factory=set)
    """Cells without dates, whose defects are placed by rows where they fill a stretch."""
    is_unfaithful: Callable[[int], bool] | None = None

    def scoped(self, rows: np.ndarray, make: Callable[[dict[str, Any], np.ndarray, int], Finding]) -> list[Finding]:
        """One finding for each smallest set of cells that holds ``rows`` (m,) of the sample.

        ``make(scope, its rows, rows compared)`` words it.
        """
        cell_of = [self.cells.cells[code] for code in self.sample.cells]
        defective = {cell_of[row] for row in rows}
        findings = []
        for scope in merge_cells(defective, self.all_cells):
            within = cells_in(scope, self.all_cells)
            covered = {cell for cell in self.all_cells if cell in within}
            inside = np.array([cell in covered for cell in cell_of])
            of_scope = rows[inside[rows]]
            stretch = self._stretch(covered, inside, of_scope)
            named = scope if stretch is None else {**scope, "rows": stretch}
            if stretch is not None:
                # The scope is the stretch, so what was compared of it counts, and no row outside it.
                within_rows = (self.sample.rows >= stretch[0]) & (self.sample.rows <= stretch[1])
                inside, of_scope = inside & within_rows, of_scope[within_rows[of_scope]]
            findings.append(make(named, of_scope, int(inside.sum())))
        return findings

    def _stretch(self, covered: set[Cell], inside: np.ndarray, defective: np.ndarray) -> list[int] | None:
        """[first, last] row of the table between which the defect lies, where it fills one stretch of these cells."""
        if self.is_unfaithful is None or not covered <= self.undated:
            return None
        codes = [code for code, cell in enumerate(self.cells.cells) if cell in covered]
        compared = np.flatnonzero(inside)
        own_rows = np.flatnonzero(np.isin(self.cells.codes, codes))
        return stretch_of(own_rows, self.sample.rows[compared], np.isin(compared, defective), self.is_unfaithful)

    def examples(self, rows: np.ndarray) -> list[str]:
        """Ids of the first of these rows of the sample, for a finding."""
        return sorted(self.ids[row] for row in rows)[:MAX_EXAMPLES]

    def in_state(self, state: str) -> np.ndarray:
        """(m,) rows of the sample that were judged to be in this state."""
        return np.array([row for row, s in enumerate(self.states.state) if s == state], dtype=np.int64)
