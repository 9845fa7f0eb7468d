"""Sentences known by their hashes, and where their words stand in texts. Which are asked is chosen elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from audit_pipeline.corpus.text import normalise, words

_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_INVERSE = pow(_BASE, -1, 2**64)
_CHUNKS_PER_BLOCK = 20_000
_LOW_BITS = 0xFFFF


@dataclass(frozen=True)
class Mark:
    """A sentence without its text: SHA-256 of its normal form, its number of words, and a rolling hash of these words.

    ``rolling`` is sum h(w_j) b^j modulo 2^64 with h the first 8 bytes of BLAKE2b (Karp & Rabin 1987): a run of words
    is compared with it without cutting the run out.
    """

    sha256: str
    words: int
    rolling: str  # 16 hex digits: an unsigned 64-bit number is not safe as a float


@dataclass(frozen=True)
class Span:
    """A run of words in a chunk: the chunk's place, the first word's, and how many words stand before and after it."""

    chunk: int
    first: int
    before: int
    after: int


def mark_of(sentence: str) -> Mark:
    """The mark of a sentence."""
    own = words(normalise(sentence))
    total, power = 0, 1
    for word in own:
        total = (total + _hashed(word) * power) % 2**64
        power = power * _BASE % 2**64
    return Mark(normal_sha256(sentence), len(own), f"{total:016x}")


def normal_sha256(text: str) -> str:
    """SHA-256 of the text's normal form, in hex."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()


def find_spans(texts: pa.Array | pa.ChunkedArray, marks: list[Mark]) -> list[list[Span]]:
    """Where the words of each mark stand in the texts, in the order of the texts.

    Time grows with the words times the number of distinct lengths of the marks; memory with a block of texts.
    """
    found: list[list[Span]] = [[] for _ in marks]
    by_length: dict[int, dict[int, list[int]]] = {}
    for number, mark in enumerate(marks):
        if mark.words:
            by_length.setdefault(mark.words, {}).setdefault(int(mark.rolling, 16), []).append(number)
    if not by_length:
        return found
    for offset, hashes, chunk, starts in _blocks(texts):
        n = len(hashes)
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(hashes * _powers(_BASE, n), dtype=np.uint64)))
        inverse = _powers(_INVERSE, n)
        for length, wanted in sorted(by_length.items()):
            if length > n:
                continue
            rolling = (sums[length:] - sums[:-length]) * inverse[: n - length + 1]
            # The low bits rule out nearly everything at the cost of one look-up.
            possible = np.zeros(_LOW_BITS + 1, bool)
            possible[[value & _LOW_BITS for value in wanted]] = True
            for first in np.flatnonzero(possible[(rolling & np.uint64(_LOW_BITS)).astype(np.int64)]).tolist():
                own = int(chunk[first])
                if chunk[first + length - 1] != own:
                    continue
                for number in wanted.get(int(rolling[first]), ()):
                    before = first - int(starts[own])
                    after = int(starts[own + 1]) - first - length
                    found[number].append(Span(offset + own, before, before, after))
    return [sorted(spans, key=lambda span: (span.chunk, span.first)) for spans in found]


def _blocks(texts: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """(place of the block's first text, hash of each word, text of each word, first word of each text and the end)."""
    known: dict[str, int] = {}
    for offset in range(0, len(texts), _CHUNKS_PER_BLOCK):
        hashes: list[int] = []
        starts = [0]
        for text in texts.slice(offset, _CHUNKS_PER_BLOCK).to_pylist():
            for word in words(normalise(text or "")):
                value = known.get(word)
                if value is None:
                    value = known[word] = _hashed(word)
                hashes.append(value)
            starts.append(len(hashes))
        bounds = np.array(starts, np.int64)
        chunk = np.repeat(np.arange(len(starts) - 1), np.diff(bounds))
        yield offset, np.array(hashes, np.uint64), chunk, bounds


def _powers(base: int, n: int) -> np.ndarray:
    """(n,) uint64: the powers 0 to n - 1 modulo 2^64."""
    factors = np.full(n, base, np.uint64)
    factors[:1] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _hashed(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
