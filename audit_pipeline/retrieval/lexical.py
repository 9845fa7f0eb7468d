"""A plain BM25 over the table's texts: whether a word search finds what the vectors miss. It is evidence, not a run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ROWS_PER_BLOCK = 20_000
_WORD_BREAK = r"[^\p{L}\p{N}_]+"
_K1, _B = 1.2, 0.75


class LexicalSearch:
    """BM25 (Robertson & Zaragoza 2009, k1 = 1.2, b = 0.75) of a few queries over all texts.

    Only words of the queries are indexed, so the cost is one pass of Arrow kernels over ``texts`` (n,) and memory
    follows the postings of those words. Words are runs of letters, digits and underscores, in lower case. ``instead``
    gives the rows (ordinals) that stand there with another text.
    """

    def __init__(
        self, texts: pa.Array | pa.ChunkedArray, queries: list[str], instead: Mapping[int, str] | None = None
    ) -> None:
        self._texts = texts
        self._instead = sorted((instead or {}).items())
        query_words = [_split(pa.array([query], pa.large_string())).flatten() for query in queries]
        self._query_words = [pc.unique(some.filter(pc.not_equal(some, ""))) for some in query_words]
        self._vocabulary = pc.unique(pa.concat_arrays([*self._query_words, pa.array([], pa.large_string())]))

    @cached_property
    def _postings(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(starts (v + 1,), rows, weights): postings of each word of the vocabulary with their BM25 weights."""
        rows, words, counts, lengths = [], [], [], []
        offset = 0
        chunks = self._texts.chunks if isinstance(self._texts, pa.ChunkedArray) else [self._texts]
        for chunk in chunks:
            for start in range(0, len(chunk), _ROWS_PER_BLOCK):
                block = chunk.slice(start, _ROWS_PER_BLOCK).cast(pa.large_string()).fill_null("")
                lists = _split(self._as_searched(block, offset))
                lengths.append(lists.value_lengths().to_numpy(zero_copy_only=False))
                parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
                codes = pc.index_in(lists.flatten(), value_set=self._vocabulary).fill_null(-1)
                codes = codes.to_numpy(zero_copy_only=False).astype(np.int64)
                known = codes >= 0
                pairs, times = np.unique(
                    (parents[known] + offset) * len(self._vocabulary) + codes[known], return_counts=True
                )
                rows.append((pairs // len(self._vocabulary)).astype(np.int32))
                words.append((pairs % len(self._vocabulary)).astype(np.int32))
                counts.append(times.astype(np.float32))
                offset += len(lists)
        if not rows:
            return np.zeros(len(self._vocabulary) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0)
        row, word, count = np.concatenate(rows), np.concatenate(words), np.concatenate(counts)
        length = np.concatenate(lengths).astype(np.float32)
        order = np.argsort(word, kind="stable")
        row, word, count = row[order], word[order], count[order]
        starts = np.searchsorted(word, np.arange(len(self._vocabulary) + 1))
        holding = np.diff(starts)
        idf = np.log1p((offset - holding + 0.5) / (holding + 0.5))
        norm = _K1 * (1 - _B + _B * length[row] / max(length.mean(), 1.0))
        return starts, row, idf[word] * count * (_K1 + 1) / (count + norm)

    def _as_searched(self, block: pa.Array, offset: int) -> pa.Array:
        """The texts from row ``offset`` on, with those of ``instead`` in their places."""
        inside = [(row - offset, text) for row, text in self._instead if offset <= row < offset + len(block)]
        if not inside:
            return block
        mask = np.zeros(len(block), bool)
        mask[[place for place, _ in inside]] = True
        return pc.replace_with_mask(block, pa.array(mask), pa.array([text for _, text in inside], block.type))

    def rank(self, query: int, answers: int | np.ndarray, others: np.ndarray | None = None) -> int | None:
        """Rank of the best of the answers' rows for the query at that position, ties against it.

        ``others`` (n,) bool are the rows that can stand before it (default: all but the answers). None where no answer
        shares a word with the query.
        """
        starts, rows, weights = self._postings
        scores = np.zeros(len(self._texts))
        codes = pc.index_in(self._query_words[query], value_set=self._vocabulary).to_numpy(zero_copy_only=False)
        for code in codes:
            part = slice(starts[code], starts[code + 1])
            scores[rows[part]] += weights[part]
        own = np.max(scores[answers])
        ahead = scores >= own - 1e-9
        ahead[answers] = False
        if others is not None:
            ahead &= others
        return int(np.count_nonzero(ahead)) + 1 if own > 0 else None


def _split(texts: pa.Array) -> pa.Array:
    return pc.split_pattern_regex(pc.utf8_lower(texts), pattern=_WORD_BREAK)
