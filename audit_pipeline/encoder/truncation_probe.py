"""Which part of a long text a vector encodes: a sweep of head and tail lengths. What follows of it is elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from audit_pipeline.encoder.calibration import INDISTINGUISHABLE_LOSS, EncodeFunction, cosine_loss
from audit_pipeline.encoder.cutting import Cut, Kept, Piece, Scissors

LEAST_WORDS = 64
"""Texts of fewer words are not probed: no runtime in use reads less."""
LONG_ROWS = 8
"""Longest texts of a corpus that are compared whole with their stored vectors."""
PROBED_TEXTS = 4
"""Texts whose head and tail are tried for the encoder's own cut."""
SEARCHED_ROWS = 4
"""Rows whose stored vector is sought among heads and tails: two that show the same cut are enough."""
MOST_ENCODINGS = 260
"""Encodings that the two probes make at most, beside those of whole texts."""
LIMITS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384)
"""Lengths tried first: what runtimes are set to, close enough together to lead to any other."""

_ANOTHER_ROW = 100  # encodings after which no further row is searched
_DROPPED = 8  # one part in eight is left out to see whether it mattered
_POINTS = 4
_MOST_WORD_CHARACTERS = 24
_UNIT_SPREAD = 1.5
_PROMISING = 0.5


@dataclass(frozen=True)
class Reach:
    """How much of its longest texts the encoder was seen to read: ``cut`` is None where their ends matter.

    ``texts`` were probed, the shortest of them of ``words`` words; 0 where none is long enough, or ``reason`` says why
    not.
    """

    texts: int
    words: int
    cut: Cut | None
    reason: str | None = None


def reach_of_encoder(
    texts: list[str],
    whole: np.ndarray,
    scissors: Scissors,
    encode: EncodeFunction,
    declared: int | None,
    noise: float,
) -> Reach:
    """How much of its longest texts an encoder reads.

    ``whole`` (n, d) are the texts' vectors; ``declared`` tokens it says it reads; ``noise`` the loss between two
    encodings of one text. A part that is not read changes nothing when it is left out, so the smallest head (or tail)
    with the whole text's vector is found by bisection. A cut counts where at least two texts show the same one.
    """
    longest = _longest(texts, PROBED_TEXTS)
    if len(longest) < 2:
        return Reach(0, 0, None, f"fewer than two texts have {LEAST_WORDS} words")
    if noise > INDISTINGUISHABLE_LOSS / 10:
        return Reach(0, 0, None, "two encodings of one text differ, so a part that is not read cannot be told")
    words = min(len(texts[i].split()) for i in longest)
    all_spans = {i: scissors.spans(texts[i]) for i in longest}
    for kept in _KEPT:

        def same(lengths: dict[int, int], side: Kept = kept) -> dict[int, bool]:
            pieces = [scissors.piece(texts[i], all_spans[i], side, length) for i, length in lengths.items()]
            loss = cosine_loss(whole[list(lengths)], _encoded(pieces, encode))
            return {i: bool(value <= INDISTINGUISHABLE_LOSS) for i, value in zip(lengths, loss, strict=True)}

        shorter = {i: len(spans) - max(1, len(spans) // _DROPPED) for i, spans in all_spans.items()}
        nearly_whole = {i: len(spans) - 1 for i, spans in all_spans.items()}
        # Both, for a text that repeats itself may do without one of its parts.
        at_once = same(shorter), same(nearly_whole)
        suspected = [i for i in longest if all(unchanged[i] for unchanged in at_once)]
        if len(suspected) < 2:
            continue
        high = {i: shorter[i] for i in suspected}
        low = dict.fromkeys(suspected, 0)
        expected = (declared or 0) - scissors.special
        if scissors.exact and kept == "head" and all(1 < expected < len(all_spans[i]) for i in suspected):
            at, below = same(dict.fromkeys(suspected, expected)), same(dict.fromkeys(suspected, expected - 1))
            if all(at[i] and not below[i] for i in suspected):
                low, high = dict.fromkeys(suspected, expected - 1), dict.fromkeys(suspected, expected)
        while any(high[i] - low[i] > 1 for i in suspected):
            middle = {i: (low[i] + high[i]) // 2 for i in suspected if high[i] - low[i] > 1}
            for i, unchanged in same(middle).items():
                (high if unchanged else low)[i] = middle[i]
        found = [
            scissors.cut_of(scissors.piece(texts[i], all_spans[i], kept, high[i]), kept, high[i]) for i in suspected
        ]
        agreed = _agreed(found)
        if agreed is not None:
            return Reach(len(longest), words, agreed)
    return Reach(len(longest), words, None)


def cut_of_vectors(
    texts: list[str],
    stored: np.ndarray,
    whole_loss: np.ndarray,
    scissors: Scissors,
    encode: EncodeFunction,
    explained: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Cut | None:
    """The head or tail of the texts (n) whose encodings are the ``stored`` vectors (n, d), None where there is none.

    ``whole_loss`` (n,) is the loss of the whole texts; ``explained(loss, whole_loss)`` says which losses are small
    enough. First the lengths that runtimes are set to are tried, then those around the nearest of them. A cut counts
    where at least two of the longest texts show the same one.
    """
    found: list[Cut] = []
    made = 0

    def counted(pieces: list[str], arm: str) -> np.ndarray:
        nonlocal made
        made += len(pieces)
        return encode(pieces, arm)

    for row in _longest(texts, SEARCHED_ROWS):
        if found and scissors.exact:
            loss = loss_under_cut([texts[row]], stored[[row]], found[0], scissors, counted)
            if explained(loss, whole_loss[[row]])[0]:
                found.append(found[0])
            continue
        cut = _search(texts[row], stored[row], float(whole_loss[row]), scissors, counted, explained)
        found += [cut] if cut is not None else []
        if len(found) == 2 or made > _ANOTHER_ROW:
            break
    return _agreed(found)


def loss_under_cut(
    texts: list[str], stored: np.ndarray, cut: Cut, scissors: Scissors, encode: EncodeFunction
) -> np.ndarray:
    """Loss of each stored vector to what the cut leaves of its text, (n,) float64; NaN where it leaves all."""
    loss = np.full(len(texts), np.nan)
    pieces = [scissors.cut_text(text, cut) for text in texts]
    cut_rows = [i for i, piece in enumerate(pieces) if piece is not None]
    if cut_rows:
        loss[cut_rows] = cosine_loss(stored[cut_rows], _encoded([p for p in pieces if p is not None], encode))
    return loss


def _search(
    text: str,
    stored: np.ndarray,
    whole_loss: float,
    scissors: Scissors,
    encode: EncodeFunction,
    explained: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Cut | None:
    spans = scissors.spans(text)

    def losses(pieces: list[Piece]) -> np.ndarray:
        return cosine_loss(np.repeat(stored[None], len(pieces), axis=0), _encoded(pieces, encode))

    def holds(loss: float) -> bool:
        return bool(explained(np.array([loss]), np.array([whole_loss]))[0])

    grid = [n - scissors.special for n in LIMITS if 0 < n - scissors.special < len(spans)]
    if not grid:
        return None
    candidates = [(kept, length) for kept in _KEPT for length in grid]
    loss = losses([scissors.piece(text, spans, kept, length) for kept, length in candidates])
    best = int(np.argmin(loss))
    kept, length = candidates[best]
    nearest = float(loss[best])
    if not holds(nearest) and nearest > _PROMISING * whole_loss:
        return None
    place = grid.index(length)
    low = grid[place - 1] if place else 1
    high = grid[place + 1] if place + 1 < len(grid) else len(spans) - 1
    while not holds(nearest) and high - low > 1:
        points = sorted({int(p) for p in np.linspace(low, high, _POINTS + 2)[1:-1]} - {low, high} | {length})
        loss = losses([scissors.piece(text, spans, kept, point) for point in points])
        at = int(np.argmin(loss))
        length, nearest = points[at], float(loss[at])
        narrower = (points[at - 1] if at else low), (points[at + 1] if at + 1 < len(points) else high)
        if narrower == (low, high):
            break
        low, high = narrower
    piece = scissors.piece(text, spans, kept, length)
    if not holds(nearest) and kept == "head" and not scissors.exact:
        # The cut may lie within a word: the words before it, and some characters of the next.
        starts = [n for n in (length - 1, length) if 0 < n < len(spans)]
        pieces = [
            scissors.piece(text, spans, kept, n, characters)
            for n in starts
            for characters in range(1, min(_MOST_WORD_CHARACTERS, int(spans[n, 1] - spans[n, 0])) + 1)
        ]
        loss = losses(pieces)
        piece, nearest = pieces[int(np.argmin(loss))], float(loss.min())
    return scissors.cut_of(piece, kept, length) if holds(nearest) else None


def _agreed(cuts: list[Cut]) -> Cut | None:
    """The cut that most of them are: the same tokens, or where only words are known about as many."""
    for one in cuts:
        if one.tokens is not None:
            alike = [c for c in cuts if c.kept == one.kept and c.tokens is not None and abs(c.tokens - one.tokens) <= 1]
        else:
            alike = [
                c
                for c in cuts
                if c.kept == one.kept and 1 / _UNIT_SPREAD <= c.words / max(1, one.words) <= _UNIT_SPREAD
            ]
        if len(alike) >= 2 and 2 * len(alike) > len(cuts):
            tokens = max((c.tokens for c in alike if c.tokens is not None), default=None)
            return replace(one, tokens=tokens, words=max(c.words for c in alike), texts=len(alike))
    return None


def _longest(texts: list[str], most: int) -> list[int]:
    """Places of the longest distinct texts that are long enough to be cut."""
    words = {i: len(text.split()) for i, text in enumerate(texts)}
    ranked = sorted(words, key=lambda i: (-words[i], texts[i]))
    distinct = {texts[i]: i for i in reversed(ranked)}
    return [i for i in ranked if words[i] >= LEAST_WORDS and distinct[texts[i]] == i][:most]


def _encoded(pieces: list[Piece], encode: EncodeFunction) -> np.ndarray:
    """Vectors (n, d) of pieces in their arms."""
    arms = list(dict.fromkeys(piece.arm for piece in pieces))
    places = {arm: [i for i, piece in enumerate(pieces) if piece.arm == arm] for arm in arms}
    parts = {arm: encode([pieces[i].text for i in places[arm]], arm) for arm in arms}
    vectors = np.empty((len(pieces), next(iter(parts.values())).shape[1]), dtype=np.float32)
    for arm, part in parts.items():
        vectors[places[arm]] = part
    return vectors


_KEPT: tuple[Kept, Kept] = ("head", "tail")
