"""Counts with their nouns, for messages that people read. No wording of findings here."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 5


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """1 row, 2 rows, 1,200 rows; ``plural`` where it takes more than an s."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def some(names: Sequence[str]) -> str:
    """The first five of the names, and how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
