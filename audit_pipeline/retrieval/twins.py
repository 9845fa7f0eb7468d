"""When two texts are twins: near-duplicates that take each other's rank. Which rows to compare is decided elsewhere."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from audit_pipeline.corpus.text import normalise, words

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

TwinKind = Literal["same_text", "one_word", "similar"]


@dataclass(frozen=True)
class Twin:
    """How two texts are twins; ``numeric``: they differ, and only in numbers."""

    kind: TwinKind
    numeric: bool


def twin(a: str, b: str, similarity: float) -> Twin | None:
    """How the texts are twins, or None.

    Twins have the same normal form, differ in one word (replaced, added or left out), or reach ``similarity`` as word
    sequences: 2 x longest common subsequence / words of both (normalised Indel similarity of rapidfuzz).
    """
    from rapidfuzz.distance import Indel

    a, b = normalise(a), normalise(b)
    if a == b:
        return Twin("same_text", False)
    words_a, words_b = words(a), words(b)
    if not words_a or not words_b:
        return None
    numeric = _without_numbers(a) == _without_numbers(b)
    if _one_word_differs(words_a, words_b):
        return Twin("one_word", numeric)
    # As a whole number of words: in floating point eight of ten words alike are a hair under 0.8.
    most = math.floor((1 - similarity) * (len(words_a) + len(words_b)) + 1e-9)
    if Indel.distance(words_a, words_b, score_cutoff=most) <= most:
        return Twin("similar", numeric)
    return None


def _without_numbers(text: str) -> str:
    return _NUMBER.sub("#", text)


def _one_word_differs(a: list[str], b: list[str]) -> bool:
    """At most one word replaced, added or left out. One-word texts share nothing then, and are no twins."""
    if abs(len(a) - len(b)) > 1 or max(len(a), len(b)) < 2:
        return False
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return max(len(a), len(b)) - start - end <= 1
