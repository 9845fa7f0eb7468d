"""Shingles of a text and exact overlaps of shingle sets. Signatures and candidate pairs do not belong here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from audit_pipeline.corpus.text import normalise, words

WORDS, CHARACTERS, NO_SIGNATURE = "words", "characters", "no_signature"

# Scripts written without white space between words: Thai, Lao, Tibetan, Myanmar, Khmer, kana, Han and its extensions.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003347f]"
)
# A Han character stands for about three Latin letters: from a quarter on, half of the content is not split by spaces.
_UNSPACED_SHARE = 0.25
_BLOCK_ELEMENTS = 2_000_000
_PAIRS_PER_BLOCK = 1 << 16


def units(text: str) -> tuple[str, list[str]]:
    """Kind of the text (``words``, ``characters`` or ``no_signature``) and the units that its shingles are made of.

    Units are the words of the normalised text, or its word characters where white space does not split it.
    """
    found = words(normalise(text))
    if not found:
        return NO_SIGNATURE, []
    joined = "".join(found)
    if not joined.isascii() and len(_UNSPACED.findall(joined)) >= _UNSPACED_SHARE * len(joined):
        return CHARACTERS, list(joined)
    return WORDS, found


def shingles(text: str, size: int) -> tuple[str, set[str]]:
    """Kind of the text and its set of shingles of ``size`` units; a shorter text is one shingle (Broder 1997)."""
    kind, parts = units(text)
    if not parts:
        return kind, set()
    glue = " " if kind == WORDS else ""
    if len(parts) < size:
        return kind, {glue.join(parts)}
    return kind, {glue.join(parts[start : start + size]) for start in range(len(parts) - size + 1)}


@dataclass(frozen=True)
class ShingleSets:
    """Shingle sets of m texts as 64-bit hashes: set i is ``hashes[offsets[i]:offsets[i + 1]]``, each hash once."""

    offsets: np.ndarray
    hashes: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)


def shingle_sets(texts: Iterable[str], size: int) -> ShingleSets:
    """Hashed shingle sets of the texts. 8 bytes a shingle; the texts are consumed one by one."""
    from xxhash import xxh3_64_intdigest

    parts: list[np.ndarray] = []
    for text in texts:
        _, found = shingles(text, size)
        parts.append(np.fromiter((xxh3_64_intdigest(one.encode()) for one in found), dtype=np.uint64, count=len(found)))
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return ShingleSets(offsets, np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64))


def shared_shingles(sets: ShingleSets, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Number of shingles that the sets a[i] and b[i] have in common, (len(a),) int64. Memory is bounded by a block.

    Both sets of a pair are laid side by side under the pair's number and sorted: equal neighbours are shared ones.
    48 of the 64 hash bits take part, so two different shingles of one pair meet with probability 2^-48.
    """
    shared = np.zeros(len(a), dtype=np.int64)
    elements = np.cumsum(sets.sizes[a] + sets.sizes[b])
    start = 0
    while start < len(a):
        before = elements[start - 1] if start else 0
        stop = int(np.searchsorted(elements, before + _BLOCK_ELEMENTS, side="right"))
        stop = min(max(stop, start + 1), start + _PAIRS_PER_BLOCK, len(a))
        count = stop - start
        sides = np.concatenate((a[start:stop], b[start:stop]))
        lengths = sets.sizes[sides]
        pair = np.repeat(np.tile(np.arange(count, dtype=np.uint64), 2), lengths)
        keys = (pair << np.uint64(48)) | (sets.hashes[_ranges(sets.offsets[sides], lengths)] >> np.uint64(16))
        keys.sort()
        equal = keys[1:][keys[1:] == keys[:-1]] >> np.uint64(48)
        shared[start:stop] = np.bincount(equal.astype(np.int64), minlength=count)
        start = stop
    return shared


def jaccard_and_containment(sets: ShingleSets, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact Jaccard |A n B| / |A u B| and containment |A n B| / min(|A|, |B|) of each pair; 0 with an empty set."""
    shared = shared_shingles(sets, a, b)
    size_a, size_b = sets.sizes[a], sets.sizes[b]
    jaccard = shared / np.maximum(size_a + size_b - shared, 1)
    containment = shared / np.maximum(np.minimum(size_a, size_b), 1)
    return jaccard, containment


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers starts[i] .. starts[i] + lengths[i] - 1 of every i, one after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
