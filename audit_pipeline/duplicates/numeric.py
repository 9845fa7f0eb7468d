"""Whether two texts differ in their numbers: redundant to an index, distinct facts to a reader."""

from __future__ import annotations

import re

from audit_pipeline.corpus.text import normalise

# One number with its sign, separators and fraction, or a word: "1,024.5" is one token, not three.
_TOKEN = re.compile(r"[-+]?\d+(?:[.,]\d+)+\b|[-+]?\w*\d\w*|\w+")


def compare_numbers(text: str, other: str) -> tuple[bool, bool]:
    """Whether the texts differ in numbers only, and whether they hold the same numbers in whatever order.

    The first: same words in the same order but for at least one that holds a digit on both sides and differs.
    """
    left, right = _TOKEN.findall(normalise(text)), _TOKEN.findall(normalise(other))
    same = sorted(filter(_has_digit, left)) == sorted(filter(_has_digit, right))
    if len(left) != len(right):
        return False, same
    changed = [(one, two) for one, two in zip(left, right, strict=True) if one != two]
    return bool(changed) and all(_has_digit(one) and _has_digit(two) for one, two in changed), same


def _has_digit(token: str) -> bool:
    return any(character.isdigit() for character in token)
