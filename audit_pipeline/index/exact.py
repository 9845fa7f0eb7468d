"""Exact search: float32 matrix products, float64 wherever a decision is close. No table and no chunk ids here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit_pipeline.index.haystack import Haystack, pair_scores, prepare, usable
from audit_pipeline.results import Progress, no_progress

TIE_TOLERANCE = 1e-6
"""Scores closer than this are ties: float32 storage and another encoding batch move a score by less."""

_SAME_SCORE = 1e-12  # float64 noise at length 1: rows this close are one score, and the earlier row comes first
_FLOAT32_UNIT = 2.0**-24
_LARGEST_FLOAT32_PRODUCT = 1e30
_QUERIES_PER_BLOCK = 512
_PAIRS_PER_GATHER = 8192
_DENSE_SHARE = 1 / 16  # above it one float64 product is cheaper than gathering pairs


@dataclass(frozen=True)
class ExactRanks:
    """Ranks and best rows of m queries; a larger score is closer under every metric.

    ``rank_min`` and ``rank_max`` (m,) int64 count from 1, ties within ``TIE_TOLERANCE`` for and against the answer;
    -1 where the query has no searchable answer. ``score`` (m,) float64 is the answer's, NaN without one.
    ``top_rows`` (m, k) int64 and ``top_scores`` (m, k) float64 hold the best rows, equal scores by row ordinal,
    padded with -1 and -inf where fewer than k rows were scored.
    ``scored_rows`` counts the rows that took part in the scan, ``haystacks`` (m,) int64 those of each query.
    """

    rank_min: np.ndarray
    rank_max: np.ndarray
    score: np.ndarray
    top_rows: np.ndarray
    top_scores: np.ndarray
    scored_rows: int
    haystacks: np.ndarray


class ExactSearch:
    """Exact search over the rows of one snapshot.

    ``vectors`` (n, d) float32, also as a memory map; ``searchable`` (n,) bool; ``metric`` cosine, dot or l2. Scores
    are the cosine, the dot product, and minus the squared Euclidean distance. Memory is bounded by the block sizes,
    never by n. A float32 product is off by at most (d + 4) 2^-24 |q| |v| (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.1): whatever lies nearer than that to a boundary is scored again in float64.
    """

    def __init__(self, vectors: np.ndarray, searchable: np.ndarray, metric: str) -> None:
        if metric not in ("cosine", "dot", "l2"):
            raise ValueError(f"unknown metric {metric!r}")
        if vectors.ndim != 2 or searchable.shape != (len(vectors),):
            raise ValueError(f"vectors {vectors.shape} and searchable {searchable.shape} do not belong together")
        self.vectors = vectors
        self.searchable = searchable.astype(bool)
        self.metric = metric

    def ranks(
        self,
        queries: np.ndarray,
        answers: np.ndarray | None = None,
        k: int = 10,
        override: tuple[np.ndarray, np.ndarray] | None = None,
        drop: np.ndarray | None = None,
        progress: Progress = no_progress,
    ) -> ExactRanks:
        """Rank of each query's answer row and the k best rows.

        ``queries`` (m, d); ``answers`` (m,) row ordinals, -1 for none; ``override`` (rows, vectors) replaces the
        vectors of those rows during the scan, and a row takes part when its replacement is usable; ``drop`` are rows
        left out. A query without direction (zero under cosine) or with non-finite values finds nothing.
        """
        if queries.ndim != 2 or queries.shape[1] != self.vectors.shape[1]:
            raise ValueError(f"queries {queries.shape} do not fit vectors {self.vectors.shape}")
        haystack = Haystack(self.vectors, self.searchable, self.metric, override, drop)
        answers = np.full(len(queries), -1, np.int64) if answers is None else np.asarray(answers, np.int64)
        scan = _Scan(self._prepared(queries), self._answerable(queries, answers, haystack), k, self.metric)
        scan.score_answers(haystack)
        scored = 0
        for ordinals, block in haystack.blocks():
            scan.add(ordinals, block)
            scored += len(ordinals)
            progress("exact search", int(ordinals[-1]) + 1, len(self.vectors))
        return scan.result(self._scorable(queries), scored)

    def scores(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """float64 scores (m, r) of given rows: ``rows`` (m, r) ordinals of each query, NaN for -1 or unsearchable."""
        haystack = Haystack(self.vectors, self.searchable, self.metric, None, None)
        rows = np.asarray(rows, np.int64)
        result = np.full(rows.shape, np.nan)
        query, column = np.nonzero((rows >= 0) & self._scorable(queries)[:, None])
        kept = haystack.takes_part(rows[query, column])
        query, column = query[kept], column[kept]
        prepared = self._prepared(queries)
        for start in range(0, len(query), _PAIRS_PER_GATHER):
            part = slice(start, start + _PAIRS_PER_GATHER)
            vectors = haystack.prepared_rows(rows[query[part], column[part]])
            result[query[part], column[part]] = pair_scores(prepared[query[part]], vectors, self.metric)
        return result

    def _prepared(self, queries: np.ndarray) -> np.ndarray:
        return prepare(np.where(np.isfinite(queries), queries, 0).astype(np.float64), self.metric)

    def _scorable(self, queries: np.ndarray) -> np.ndarray:
        return usable(queries, self.metric)

    def _answerable(self, queries: np.ndarray, answers: np.ndarray, haystack: Haystack) -> np.ndarray:
        known = (answers >= 0) & self._scorable(queries)
        known[known] = haystack.takes_part(answers[known])
        return np.where(known, answers, -1)


class _Scan:
    """Counts and best rows of all queries while blocks of rows pass by."""

    def __init__(self, queries: np.ndarray, answers: np.ndarray, k: int, metric: str) -> None:
        self.queries, self.answers, self.k, self.metric = queries, answers, k, metric
        m = len(queries)
        self.queries32 = queries.astype(np.float32)
        self.squares = np.einsum("ij,ij->i", queries, queries)
        self.same = _SAME_SCORE * np.maximum(self.squares, 1)
        self.above = np.zeros(m, np.int64)
        self.level = np.zeros(m, np.int64)
        self.score = np.full(m, np.nan)
        # Without an answer nothing may count: both bounds lie above every score.
        self.upper = np.full(m, np.inf)
        self.lower = np.full(m, np.inf)
        self.top_scores = np.full((m, k), -np.inf)
        self.top_rows = np.full((m, k), -1, np.int64)

    def score_answers(self, haystack: Haystack) -> None:
        known = np.flatnonzero(self.answers >= 0)
        for start in range(0, len(known), _PAIRS_PER_GATHER):
            part = known[start : start + _PAIRS_PER_GATHER]
            vectors = haystack.prepared_rows(self.answers[part])
            self.score[part] = pair_scores(self.queries[part], vectors, self.metric)
        self.upper[known] = self.score[known] + TIE_TOLERANCE
        self.lower[known] = self.score[known] - TIE_TOLERANCE

    def add(self, ordinals: np.ndarray, block: np.ndarray) -> None:
        """Score one block: ``ordinals`` (b,) ascending, ``block`` (b, d) prepared float64."""
        squares = np.einsum("ij,ij->i", block, block)
        block32 = np.asarray(block, dtype=np.float32)
        squares32 = np.minimum(squares, _LARGEST_FLOAT32_PRODUCT).astype(np.float32)  # above it float64 decides
        longest = float(np.sqrt(squares.max()))
        for start in range(0, len(self.queries), _QUERIES_PER_BLOCK):
            part = np.arange(start, min(start + _QUERIES_PER_BLOCK, len(self.queries)))
            lengths = np.sqrt(self.squares[part])
            error = (block.shape[1] + 4) * 1.01 * _FLOAT32_UNIT * lengths * longest
            if self.metric == "l2":
                error = 2 * error + 4 * _FLOAT32_UNIT * (lengths + longest) ** 2
            if (lengths.max(initial=0.0) + longest) ** 2 > _LARGEST_FLOAT32_PRODUCT:
                self._add_dense(part, ordinals, block, squares)
                continue
            products = self.queries32[part] @ block32.T
            if self.metric == "l2":
                products *= np.float32(2)
                products -= squares32
                products -= self.squares[part, None].astype(np.float32)
            dense = self._add_sparse(part, ordinals, block, products, error)
            if len(dense):
                self._add_dense(dense, ordinals, block, squares)

    def _add_sparse(
        self, part: np.ndarray, ordinals: np.ndarray, block: np.ndarray, products: np.ndarray, error: np.ndarray
    ) -> np.ndarray:
        """Decide by float32 what is clear, gather the rest in float64. Returns the queries with too much to gather."""
        above = products > _up(self.upper[part] + error)[:, None]
        close = products >= _down(self.lower[part] - error)[:, None]
        close ^= above
        close |= products >= _down(self._entry(part, products, 2 * error) - error)[:, None]
        counts = _row_counts(close)
        dense = counts > max(self.k * 4, len(ordinals) * _DENSE_SHARE)
        close[dense] = False
        sparse = ~dense
        self.above[part[sparse]] += _row_counts(above[sparse])
        flat = np.flatnonzero(close)
        query, column = flat // len(ordinals), flat % len(ordinals)
        already = above[query, column]
        for start in range(0, len(flat), _PAIRS_PER_GATHER):
            piece = slice(start, start + _PAIRS_PER_GATHER)
            queries = part[query[piece]]
            scores = pair_scores(self.queries[queries], block[column[piece]], self.metric)
            rows = ordinals[column[piece]]
            other = (rows != self.answers[queries]) & ~already[piece]
            np.add.at(self.above, queries[other & (scores > self.upper[queries])], 1)
            level = other & (scores <= self.upper[queries]) & (scores >= self.lower[queries])
            np.add.at(self.level, queries[level], 1)
            self._enter(queries, rows, scores)
        return part[dense]

    def _add_dense(self, part: np.ndarray, ordinals: np.ndarray, block: np.ndarray, squares: np.ndarray) -> None:
        """The block against these queries wholly in float64."""
        scores = self.queries[part] @ block.T
        if self.metric == "l2":
            scores = 2 * scores - squares - self.squares[part, None]
        entry = self._entry(part, scores, np.zeros(len(part)))
        own = ordinals[None, :] == self.answers[part, None]
        above = (scores > self.upper[part, None]) & ~own
        level = (scores >= self.lower[part, None]) & ~own & ~above
        self.above[part] += above.sum(axis=1)
        self.level[part] += level.sum(axis=1)
        query, column = np.nonzero(scores >= entry[:, None])
        self._enter(part[query], ordinals[column], scores[query, column])

    def _entry(self, part: np.ndarray, scores: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Least score that can still enter the best k of each query in ``part``, given this block's scores."""
        entry = self.top_scores[part, -1] + self.same[part]
        filling = np.isneginf(entry)
        if filling.any() and scores.shape[1] > self.k:
            place = scores.shape[1] - self.k
            entry[filling] = np.partition(scores[filling], place, axis=1)[:, place] - slack[filling]
            entry[filling] -= self.same[part][filling]
        return entry

    def _enter(self, queries: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> None:
        """Merge scored rows into the best k. Blocks come in row order, so a later row never displaces its equal."""
        wins = scores > self.top_scores[queries, -1] + self.same[queries]
        if not wins.any():
            return
        touched = np.unique(queries[wins])
        all_queries = np.concatenate((np.repeat(touched, self.k), queries[wins]))
        all_rows = np.concatenate((self.top_rows[touched].ravel(), rows[wins]))
        all_scores = np.concatenate((self.top_scores[touched].ravel(), scores[wins]))
        order = np.lexsort((all_rows, -np.round(all_scores / self.same[all_queries]), all_queries))
        starts = np.searchsorted(all_queries[order], touched)
        best = order[starts[:, None] + np.arange(self.k)]
        self.top_rows[touched] = all_rows[best]
        self.top_scores[touched] = all_scores[best]

    def result(self, scorable: np.ndarray, scored: int) -> ExactRanks:
        known = self.answers >= 0
        self.top_rows[~scorable] = -1
        self.top_scores[~scorable] = -np.inf
        return ExactRanks(
            rank_min=np.where(known, 1 + self.above, -1),
            rank_max=np.where(known, 1 + self.above + self.level, -1),
            score=self.score,
            top_rows=self.top_rows,
            top_scores=self.top_scores,
            scored_rows=scored,
            haystacks=np.full(len(self.queries), scored, np.int64),
        )


def _up(bound: np.ndarray) -> np.ndarray:
    """The bound in float32, rounded so that nothing below it in float64 passes."""
    return np.nextafter(bound.astype(np.float32), np.float32(np.inf))


def _down(bound: np.ndarray) -> np.ndarray:
    return np.nextafter(bound.astype(np.float32), np.float32(-np.inf))


def _row_counts(mask: np.ndarray) -> np.ndarray:
    """True values of each row; row by row is several times faster than a sum over the axis."""
    return np.array([np.count_nonzero(row) for row in mask], dtype=np.int64)
