"""How people write yes and no in a column of labels. Which labels can be used is decided elsewhere."""

from __future__ import annotations

import re

_YES = "true 1 1.0 yes y t duplicate duplicates dup same wahr ja vrai oui vero verdadero si sí waar"
_NO = (
    "false 0 0.0 no n f not_duplicate not_a_duplicate non_duplicate no_duplicate different distinct other "
    "falsch nein faux non falso onwaar nee"
)
ANSWERS = dict.fromkeys(_YES.split(), True) | dict.fromkeys(_NO.split(), False)
"""Spellings by what they mean, lower case, words joined by "_"; with what spreadsheets make of true and false."""


def answer_of(value: str | None) -> bool | None:
    """True for a duplicate, False for none, None for anything else."""
    return ANSWERS.get(re.sub(r"[\s_-]+", "_", (value or "").strip().lower()))
