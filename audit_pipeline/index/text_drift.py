"""How a stored text differs from the store's: the weakest change that undoes it, or what was lost. No findings."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from audit_pipeline.index.markup import without_html, without_markdown

_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
_TYPOGRAPHIC = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2039\u203a", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | {"\u2026": "..."}
)


def _unicode_form(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _white_space(text: str) -> str:
    if not text.isascii():
        text = _unicode_form(text.translate(_INVISIBLE))  # what was invisible may have parted a letter and its accent
    return " ".join(text.split())


def _entities(text: str) -> str:
    return _white_space(html.unescape(text)) if "&" in text else text


def _quotes(text: str) -> str:
    return text if text.isascii() else text.translate(_TYPOGRAPHIC)


def _compatibility(text: str) -> str:
    return text if text.isascii() else _quotes(_white_space(unicodedata.normalize("NFKC", text)))


def _case(text: str) -> str:
    return _compatibility(text.casefold())


TRANSFORMATIONS: dict[str, Callable[[str], str]] = {
    "unicode_form": _unicode_form,
    "white_space": _white_space,
    "entities": _entities,
    "quotes": _quotes,
    "compatibility": _compatibility,
    "case": _case,
}
"""Changes from weak to strong, each applied to what those before it left of both texts.

NFC; single spaces and no invisible characters; HTML entities as characters; straight quotes, dashes and dots for
typographic ones; NFKC; case folded.
"""

MARKUP: dict[str, Callable[[str], str]] = {"html_tags": without_html, "markdown": without_markdown}
"""Stripping of one text, stronger than all of ``TRANSFORMATIONS``, which then apply to both; white space is ignored,
for some strippers leave none where a tag stood."""

LOSSLESS = ("unicode_form", "white_space", "entities")
"""Changes that lose nothing a reader or a search could miss; what the others undo was lost."""

_CUTS_SEEN_AFTER = "quotes"
TRUNCATED = "truncated"
SECTION_LOST = "section_lost"
DIFFERS = "differs"
UNDETERMINED = "undetermined"

WORDS: dict[str, str] = {
    "unicode_form": "in another Unicode form",
    "white_space": "with other white space",
    "entities": "with HTML entities for characters, or the reverse",
    "quotes": "with other quotes or dashes",
    "compatibility": "with compatibility characters replaced (NFKC)",
    "case": "in another case",
    "html_tags": "without the HTML tags of the other side",
    "markdown": "without the Markdown of the other side",
    TRUNCATED: "cut short: the beginning of the store's text",
    SECTION_LOST: "only a part of the store's text",
    DIFFERS: "different beyond any of these forms",
    UNDETERMINED: "not looked at for stripped markup",
}

MOST_PARSED = 20_000
"""Pairs whose markup is parsed at most, for that takes milliseconds; all else is looked at for every pair."""
_BLOCK = 10_000


@dataclass(frozen=True)
class Drift:
    """``kind`` is one of ``WORDS``; ``lost`` how many characters of the store's text a truncated one lacks."""

    kind: str
    lost: int | None = None


def drift_of(own: str, stored: str, *, parse_markup: bool = True) -> Drift:
    """The weakest change under which ``own`` (the store's text) and ``stored`` (the table's), which differ, are equal.

    Changes combine: ``TRANSFORMATIONS`` is a ladder, so a text in another Unicode form that also has entities is
    ``entities``, and ``MARKUP`` stands on top of it. Of markup one text must be what the other is without it: where
    both had some, what was stripped could hide a difference in words, such as the number of a list's item. A change
    that leaves nothing of either text explains nothing. What no change undoes is ``truncated`` where the table's text
    is the beginning of the store's (an ellipsis at its end aside), ``section_lost`` where it is another part of it,
    both after the changes up to ``quotes``, else ``differs``. Without ``parse_markup`` a pair that
    markup could explain, and nothing else does, is ``undetermined``.
    """
    return _judged(own, stored, parse_markup)[0]


def drifts_of(own: pa.Array, stored: pa.Array, most_parsed: int | None = None) -> tuple[pa.Array, pa.Array]:
    """``drift_of`` for each pair of n differing texts: (n,) kinds, (n,) int64 characters lost, null but for truncated.

    After ``most_parsed`` (default: ``MOST_PARSED``) pairs that markup could explain, markup is parsed no more. O(n) in
    the characters; blocks keep few texts as Python objects.
    """
    kinds: list[str] = []
    lost: list[int | None] = []
    parsed, most = 0, MOST_PARSED if most_parsed is None else most_parsed
    for start in range(0, len(own), _BLOCK):
        pairs = zip(own.slice(start, _BLOCK).to_pylist(), stored.slice(start, _BLOCK).to_pylist(), strict=True)
        for before, after in pairs:
            drift, could_be_markup = _judged(before or "", after or "", parsed < most)
            parsed += could_be_markup
            kinds.append(drift.kind)
            lost.append(drift.lost)
    return pa.array(kinds, pa.string()), pa.array(lost, pa.int64())


def transformed(text: str, last: str) -> str:
    """The text after the changes of ``TRANSFORMATIONS`` up to ``last``."""
    for name, change in TRANSFORMATIONS.items():
        text = change(text)
        if name == last:
            return text
    raise KeyError(last)


def bare(text: str) -> str:
    """The text as the strongest of ``TRANSFORMATIONS`` leaves it, without white space: what markup is judged by."""
    return transformed(text, "case").replace(" ", "")


def _judged(own: str, stored: str, parse_markup: bool) -> tuple[Drift, bool]:
    """The drift, and whether it took looking at markup (or would have)."""
    one, other, whole, part = own, stored, "", ""
    for name, change in TRANSFORMATIONS.items():
        one, other = change(one), change(other)
        if one and one == other:
            return Drift(name), False
        if name == _CUTS_SEEN_AFTER:
            whole, part = one, other
    one, other = one.replace(" ", ""), other.replace(" ", "")
    could_be_markup = _is_within(*_by_length(one, other))
    if could_be_markup and parse_markup:
        marked, plain = (own, other) if len(one) > len(other) else (stored, one)
        for name, strip in MARKUP.items():
            if bare(strip(marked)) == plain:
                return Drift(name), True
    begins = next((text for text in (part, part.removesuffix("...").rstrip()) if text and whole.startswith(text)), None)
    if begins is not None:
        return Drift(TRUNCATED, len(whole) - len(begins)), could_be_markup
    if part and part in whole:
        return Drift(SECTION_LOST), could_be_markup
    return Drift(UNDETERMINED if could_be_markup and not parse_markup else DIFFERS), could_be_markup


def _by_length(one: str, other: str) -> tuple[str, str]:
    return (one, other) if len(one) < len(other) else (other, one)


def _is_within(short: str, long: str) -> bool:
    """Whether all characters of ``short`` stand in ``long`` in their order, as they do where markup was stripped."""
    rest = iter(long)
    return 0 < len(short) < len(long) and all(character in rest for character in short)
