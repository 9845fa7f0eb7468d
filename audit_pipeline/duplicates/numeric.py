"""Whether two texts differ in their numbers: redundant to an index, distinct facts to a reader."""

from __future__ import annotations

import re

from audit_pipeline.corpus.text import normalise

# One number with its sign, separators and fraction, or a word: "1,024.5" is one token, not three.
_TOKEN = re.compile(r"[-+]?\d+(?:[.,]\d+)+\b|[-+]?\w*\d\w*|\w+")


def differs_in_numbers_only(text: str, other: str) -> bool:
    """The texts have the same words in the same order but for words that hold a digit on both sides."""
    left, right = _TOKEN.findall(normalise(text)), _TOKEN.findall(normalise(other))
    if len(left) != len(right):
        return False
    changed = [(one, two) for one, two in zip(left, right, strict=True) if one != two]
    return bool(changed) and all(_has_digit(one) and _has_digit(two) for one, two in changed)


def same_numbers(text: str, other: str) -> bool:
    """The two texts hold the same numbers, in whatever order."""
    return _numbers(text) == _numbers(other)


def _numbers(text: str) -> list[str]:
    return sorted(token for token in _TOKEN.findall(normalise(text)) if _has_digit(token))


def _has_digit(token: str) -> bool:
    return any(character.isdigit() for character in token)
