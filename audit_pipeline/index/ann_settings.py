"""Settings of an ANN search and a small grid of them to try. Nothing is searched, timed or judged here."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from audit_pipeline.index.vector_index import VectorIndex
from audit_pipeline.index_settings import SearchSettings

DEFAULT_NPROBES = 20
"""Partitions that LanceDB 0.40 searches where none are asked for: minimum and maximum alike."""

_DEFAULT_BREADTH = 1.5  # LanceDB's ef where none is asked for, as a multiple of the rows taken from the index
_EFS = (32, 64, 128, 256, 512)
_FEW_EFS = (64, 256)  # where the number of partitions varies beside it
_REFINED = {"SQ": 3, "PQ": 5, "RQ": 5}  # rows re-ranked for each one asked for: eight bits a component lose little
_REFINED_FURTHER = 20
_MOST_ROWS = 500_000  # a larger part of the table is not tried: it would take as long as an exact search


@dataclass(frozen=True)
class AnnSettings:
    """What decides how far an ANN search looks, as it takes effect; None for what the index has no use for.

    ``nprobes`` is at most the number of partitions, ``ef`` at least the rows taken from the index, which are
    limit x ``refine_factor``.
    """

    nprobes: int
    ef: int | None = None
    refine_factor: int | None = None

    @property
    def work(self) -> tuple[int, int, int]:
        """Order of size: rows fetched again to be re-ranked are what costs most, then partitions, then breadth."""
        return (self.refine_factor or 0, self.nprobes, self.ef or 0)

    def as_dict(self) -> dict[str, int | None]:
        return {"nprobes": self.nprobes, "ef": self.ef, "refine_factor": self.refine_factor}


class AnnSearch(Protocol):
    """The application's search of one table through its ANN index, one query at a time."""

    @property
    def index(self) -> VectorIndex | None:
        """The index that answers."""

    def partitions(self) -> int:
        """IVF partitions of the index."""

    def ask(
        self, query: np.ndarray, limit: int, settings: AnnSettings | None = None, condition: str | None = None
    ) -> tuple[np.ndarray, float]:
        """(row ordinals (limit,) padded with -1, each id once; seconds that LanceDB took) of one query (d,).

        Everything but ``settings`` is as declared, all of it where they are None. ``condition`` is the filter where it
        is filled from a row.
        """


def present_settings(search: SearchSettings, index: VectorIndex, partitions: int) -> AnnSettings:
    """The declared settings as they take effect on this index, with LanceDB's own defaults for what is not set."""
    rows = search.limit * (search.refine_factor or 1)
    ef = None
    if index.is_graph:
        ef = int(_DEFAULT_BREADTH * rows) if search.ef is None else max(search.ef, rows)
    return AnnSettings(min(search.nprobes or DEFAULT_NPROBES, partitions), ef, search.refine_factor)


def grid_of(present: AnnSettings, index: VectorIndex, partitions: int, limit: int) -> list[AnnSettings]:
    """The settings to try, ``present`` among them, the smallest first; two dozen at most.

    IVF_FLAT varies nprobes, compressed indexes refine_factor beside it, graphs ef. What would search more than half a
    million rows is left out, unless the present settings do.
    """
    most = max(present.nprobes, int(partitions * _MOST_ROWS / max(index.indexed_rows, 1)), 1)
    one_axis = not index.is_graph and not index.is_quantised
    probes = _steps(present.nprobes, 2 if one_axis else 4, 1 if index.is_graph else 3, min(partitions, most))
    refined = _refined(present, index, limit, many=index.is_graph and len(probes) > 1)
    grid = {present}
    for nprobes, factor in itertools.product(probes, refined):
        grid |= {AnnSettings(nprobes, ef, factor) for ef in _breadths(present, index, limit * (factor or 1), probes)}
    return sorted(grid, key=lambda settings: settings.work)


def as_yaml(settings: AnnSettings, declared: SearchSettings, present: AnnSettings) -> str:
    """The part of a settings file that asks for them: what differs from the declared, and what is declared."""
    shown: dict[str, Any] = {}
    for name, value in settings.as_dict().items():
        own = getattr(declared, name)
        if value != getattr(present, name):
            shown[name] = "null" if value is None else value
        elif own is not None and value is not None:
            shown[name] = own
    return f"search: {{{', '.join(f'{name}: {value}' for name, value in shown.items())}}}"


def _steps(present: int, factor: int, up: int, most: int) -> list[int]:
    """Ascending numbers of partitions around the present one: a step or two down, ``up`` up, and the most there are."""
    down = 3 if factor == 2 else 1
    steps = {max(1, present // factor**step) for step in range(1, down + 1)}
    steps |= {present * factor**step for step in range(1, up + 1)}
    return sorted({step for step in steps if step <= most} | {present, max(present, most)})


def _refined(present: AnnSettings, index: VectorIndex, limit: int, many: bool) -> set[int | None]:
    """Values of refine_factor to try; just one beside none where two other settings vary."""
    if not index.is_quantised:
        return {None, present.refine_factor}
    usual = _REFINED.get(index.type[-2:], _REFINED_FURTHER)
    if many:
        return {None, present.refine_factor or usual}
    further = {1} if limit > 10 else set()  # re-ranks the rows asked for anyway, of which the first ten count
    if not index.type.endswith("SQ"):
        further.add(_REFINED_FURTHER)
    return {None, present.refine_factor, usual, *further}


def _breadths(present: AnnSettings, index: VectorIndex, rows: int, probes: Iterable[int]) -> set[int | None]:
    """Values of ef to try where ``rows`` are taken from the index; LanceDB refuses an ef under that."""
    if not index.is_graph:
        return {None}
    usual = _EFS if len(list(probes)) == 1 else _FEW_EFS
    return {ef for ef in (*usual, present.ef) if ef is not None and ef >= rows} or {rows, 2 * rows}
