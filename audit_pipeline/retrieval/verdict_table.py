"""The reading as a table: every state of the two axes has exactly one row. Measuring the states is in verdict.py."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

State = Literal["high", "low", "undecided", "none"]
"""Where a figure stands against its limit; none: not measured."""

ANY: frozenset[str] = frozenset(("high", "low", "none"))
_HIGH, _LOW, _NONE = frozenset(("high",)), frozenset(("low",)), frozenset(("none",))


@dataclass(frozen=True)
class States:
    """What the reading is read from: both axes, both axes of self with twin misses as hits, the held-out ceiling."""

    self_1: State
    self_10: State
    labelled: State
    held_out: State
    twins_1: State
    twins_10: State
    error_finding: bool


@dataclass(frozen=True)
class Row:
    """One row of the table; the first that matches gives the reading."""

    reading: str
    self_1: frozenset[str] = ANY
    self_10: frozenset[str] = ANY
    labelled: frozenset[str] = ANY
    held_out: frozenset[str] = ANY
    twins: bool | None = None  # both figures high once misses of cause twin count as hits, and not so before
    error_finding: bool | None = None

    def matches(self, states: States) -> bool:
        return (
            states.self_1 in self.self_1
            and states.self_10 in self.self_10
            and states.labelled in self.labelled
            and states.held_out in self.held_out
            and (self.twins is None or self.twins == explained_by_twins(states))
            and (self.error_finding is None or self.error_finding == states.error_finding)
        )


TABLE: tuple[Row, ...] = (
    Row("not_measured", self_1=_NONE),
    Row("twins", twins=True),
    Row("contradiction", self_1=_LOW, labelled=_HIGH),
    Row("vectors_or_index", self_1=_LOW),
    Row("local_defect", self_1=_HIGH, self_10=_LOW),
    Row("relationship", self_1=_HIGH, labelled=_LOW),
    Row("not_measured", self_1=_HIGH, self_10=_NONE),
    Row("local_defect", self_1=_HIGH, self_10=_HIGH, labelled=_HIGH, error_finding=True),
    Row("healthy", self_1=_HIGH, self_10=_HIGH, labelled=_HIGH),
    Row("content", self_1=_HIGH, self_10=_HIGH, labelled=_NONE, held_out=_LOW),
    Row("not_measured", self_1=_HIGH, self_10=_HIGH, labelled=_NONE),
)


def explained_by_twins(states: States) -> bool:
    """Whether a low self@1 is high once twins count as hits, self@10 too. A figure not measured does not object."""
    return states.self_1 == "low" and states.twins_1 == "high" and states.twins_10 in ("high", "none")


def reading_of(states: States) -> str:
    """The reading of states of which none is undecided. Raises LookupError for an undecided one."""
    for row in TABLE:
        if row.matches(states):
            return row.reading
    raise LookupError(states)


def readings_of(states: States) -> set[str]:
    """Every reading that is possible once the undecided figures are decided either way."""
    names = ("self_1", "self_10", "labelled", "held_out", "twins_1", "twins_10")
    choices: list[Iterable[str]] = [
        ("high", "low") if getattr(states, name) == "undecided" else (getattr(states, name),) for name in names
    ]
    possible = set()
    for values in itertools.product(*choices):
        decided = replace(states, **dict(zip(names, values, strict=True)))  # type: ignore[arg-type]
        if _order(decided.twins_1) >= _order(decided.self_1) and _order(decided.twins_10) >= _order(decided.self_10):
            possible.add(reading_of(decided))
    return possible


def _order(state: str) -> int:
    """Counting twins as hits never lowers a figure: low, then high; unmeasured stays unmeasured."""
    return {"low": 0, "high": 1}.get(state, 0)
