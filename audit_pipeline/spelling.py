"""The hint at what a misspelt name may have meant. What is said around it stands where the name was met."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A hint at the known word that is closest to a misspelt one, empty where none is close."""
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
