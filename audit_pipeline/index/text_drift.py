"""How a stored text differs from the store's: the weakest change that undoes it, or what was lost. No findings."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable

TRANSFORMATIONS: dict[str, Callable[[str], str]] = {
    "unicode_form": lambda text: unicodedata.normalize("NFC", text),
    "white_space": lambda text: " ".join(unicodedata.normalize("NFC", text).split()),
    "entities": lambda text: " ".join(unicodedata.normalize("NFC", html.unescape(text)).split()),
}
"""Lossless transformations from weak to strong; each includes those before it."""

SECTION_LOST = "section_lost"
DIFFERS = "differs"


def kind_of_drift(own: str, stored: str) -> str:
    """Name of the weakest transformation under which the store's text and the table's are equal.

    Without one: ``section_lost`` where the table's text is a part of the store's, else ``differs``.
    """
    for name, transform in TRANSFORMATIONS.items():
        if transform(own) == transform(stored):
            return name
    folded, whole = TRANSFORMATIONS["white_space"](stored), TRANSFORMATIONS["white_space"](own)
    return SECTION_LOST if folded and folded in whole else DIFFERS
