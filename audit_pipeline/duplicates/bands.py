"""Score bands that labels were drawn from: reading them, and what each label stands for. No label is drawn here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_NUMBER = r"(-?(?:\d+(?:[.,]\d+)?|\.\d+))"
_BAND = re.compile(rf"\s*{_NUMBER}\s*(?:-|\.\.|,)\s*{_NUMBER}\s*")
_COMMA = re.compile(r"(?<=\d),(?=\d+\s*(?:-|\.\.|$))")
MOST_OUTSIDE = 0.02
"""Share of the banded labels outside their bands from which the bands were drawn under other vectors."""
REENCODED = 1e-3
"""How far a cosine moves when the same model encodes the same text again."""


@dataclass(frozen=True)
class BandWeights:
    """``weights`` (n,) is how many candidates each labelled pair stands for, None where the labels cannot say.

    ``banded`` labels name a readable band, ``outside`` of them have another cosine now, ``unreadable`` name none that
    can be read and count as labels without one. ``words`` says what is wrong, None where nothing is.
    """

    weights: np.ndarray | None
    banded: int
    outside: int
    unreadable: int
    words: str | None

    def as_dict(self) -> dict[str, Any]:
        counts = {"banded": self.banded, "outside": self.outside, "unreadable": self.unreadable}
        return counts | {"used": self.weights is not None, "words": self.words}


def read_band(text: str | None) -> tuple[float, float] | None:
    """Low and high end of "low-high", "low..high" or "low,high", with decimal points or commas; None if it is none."""
    match = _BAND.fullmatch(text or "")
    if match is None:
        return None
    low, high = (float(end.replace(",", ".")) for end in match.groups())
    return (low, high) if -1 <= low < high <= 1 else None


def with_points(text: str) -> str:
    """A band as a spreadsheet of another language writes it ("0,90-0,92"), with decimal points."""
    pointed = _COMMA.sub(".", text)
    return pointed if read_band(pointed) is not None else text


def band_weights(bands: Sequence[str | None], cosine: np.ndarray, candidate_cosine: np.ndarray) -> BandWeights:
    """Weights of labelled pairs with these ``bands`` and ``cosine``, both (n,), by the cosines of the candidates.

    Labels are drawn band by band at different rates; the weight, candidates per labelled pair in a band, undoes the
    rate. A pair without a band was not drawn by band (it was sought out by name or at random) and says nothing about
    the share in the queue: its weight is 0. A band holds low <= cosine < high, and 1 where its high end reaches 1.

    No weights where no pair has a band, where bands overlap (candidates that lie in two of them would count twice), or
    where more than MOST_OUTSIDE of the labels lie outside their band: a rate of other vectors is undone by no count of
    today's candidates.
    """
    read = [read_band(band) for band in bands]
    unreadable = sum(limits is None and bool((band or "").strip()) for band, limits in zip(bands, read, strict=True))
    limits = [one for one in read if one is not None]
    unread = f"{unreadable:,} labels name a score band that cannot be read and count as labels without one"
    said = f"{unread}: write it as 0.90-0.92." if unreadable else None
    if not limits:
        return BandWeights(None, 0, 0, unreadable, said)
    drawn = np.array([one is not None for one in read], dtype=bool)
    low, high = np.array(limits).T
    high = np.where(high >= 1.0, np.inf, high)
    now = np.asarray(cosine)[drawn]
    outside = int(np.sum((now < low - REENCODED) | (now > high + REENCODED)))
    if outside > MOST_OUTSIDE * len(limits):
        words = (
            f"{outside:,} of {len(limits):,} labels lie outside their score band now: the bands were drawn under other "
            "vectors or another regime, so they do not say what the labels stand for. Draw a new queue."
        )
        return BandWeights(None, len(limits), outside, unreadable, " ".join(filter(None, (words, said))))
    distinct, place, labelled = np.unique(np.column_stack((low, high)), axis=0, return_inverse=True, return_counts=True)
    if np.any(distinct[1:, 0] < distinct[:-1, 1]):
        words = "Score bands of the labels overlap, so they do not say what the labels stand for."
        return BandWeights(None, len(limits), outside, unreadable, " ".join(filter(None, (words, said))))
    known = np.sort(candidate_cosine[~np.isnan(candidate_cosine)])
    population = np.searchsorted(known, distinct[:, 1]) - np.searchsorted(known, distinct[:, 0])
    weights = np.zeros(len(read))
    weights[drawn] = (population / labelled)[place.reshape(-1)]
    return BandWeights(weights, len(limits), outside, unreadable, said)
