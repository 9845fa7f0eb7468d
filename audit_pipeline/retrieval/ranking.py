"""Where each answer stands: exactly, by chunk id instead of by row, and as the search returned it. No causes here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.index.reach import Reach, ranks_within
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.results import Progress, no_progress

NONE = -1
"""Row ordinal or rank of what does not exist."""

TOP = 20  # rows kept of every query: the ten that count, and room for ties and for rows of one id


@dataclass(frozen=True)
class Ranking:
    """Exact standing of m answers among the chunks.

    ``row`` (m,) the answer's row (its best row where its id stands on several), -1 for none; ``rank_min`` and
    ``rank_max`` (m,) int64, ties within 1e-6 for and against it, other rows of its own id not counted, -1 without a
    searchable answer within reach; ``score`` (m,) float64; ``top_rows`` (m, TOP) and ``top_scores`` all best rows
    within reach, the answer's among them; ``haystack`` the number of rows scored, the median where reaches differ,
    ``haystacks`` (m,) int64 those of each answer.
    """

    row: np.ndarray
    rank_min: np.ndarray
    rank_max: np.ndarray
    score: np.ndarray
    top_rows: np.ndarray
    top_scores: np.ndarray
    haystack: int
    haystacks: np.ndarray


class Identities:
    """Chunk ids of a snapshot as integers, so that rows of one id can be told from rows of another without strings."""

    def __init__(self, snapshot: TableSnapshot) -> None:
        self._ids = snapshot.chunk_ids
        encoded = self._ids.dictionary_encode()
        self.codes: np.ndarray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        counts = np.bincount(self.codes, minlength=len(encoded.dictionary))
        self._repeated_codes = np.flatnonzero(counts > 1)
        self._order = np.argsort(self.codes, kind="stable")
        self._starts = np.searchsorted(self.codes[self._order], np.arange(len(encoded.dictionary) + 1))

    def codes_of(self, rows: np.ndarray) -> np.ndarray:
        """Codes of row ordinals, of the same shape; -1 for -1."""
        if len(self.codes) == 0:
            return np.full(rows.shape, NONE)
        return np.where(rows >= 0, self.codes[np.maximum(rows, 0)], NONE)

    def rows_of_code(self, code: int) -> np.ndarray:
        """All rows of one id, in table order."""
        return self._order[self._starts[code] : self._starts[code + 1]]

    def repeated(self, codes: np.ndarray) -> np.ndarray:
        """Positions in ``codes`` whose id stands on more than one row."""
        return np.flatnonzero(np.isin(codes, self._repeated_codes))

    def id_of(self, row: int) -> str | None:
        return None if row < 0 else self._ids[int(row)].as_py()

    def ids_of(self, rows: np.ndarray) -> pa.Array:
        """Ids of row ordinals (r,), null for -1."""
        return self._ids.take(pa.array(np.asarray(rows, np.int64), mask=np.asarray(rows) < 0))


def rank_answers(
    exact: ExactSearch,
    identities: Identities,
    queries: np.ndarray,
    rows: np.ndarray,
    *,
    override: tuple[np.ndarray, np.ndarray] | None = None,
    drop: np.ndarray | None = None,
    reach: Reach | None = None,
    progress: Progress = no_progress,
) -> Ranking:
    """Exact ranks of answers given by one row each, (m,) ordinals, -1 for an answer the table lacks.

    ``override`` and ``drop`` as in ``ExactSearch.ranks``; ``reach`` are the rows each query is ranked among (default:
    all).
    """
    rows = np.asarray(rows, np.int64).copy()
    codes = identities.codes_of(rows)
    copies: dict[int, np.ndarray] = {}
    if override is None:
        for probe in identities.repeated(codes):
            own = identities.rows_of_code(codes[probe])
            scores = exact.scores(queries[probe : probe + 1], own[None, :])[0]
            if reach is not None:
                scores = np.where(reach.holds(int(probe), own), scores, np.nan)
            if not np.isnan(scores).all():
                rows[probe] = own[np.nanargmax(scores)]
                copies[int(probe)] = scores
    ranks = ranks_within(exact, reach, queries, rows, TOP, override=override, drop=drop, progress=progress)
    rank_max = ranks.rank_max.copy()
    for probe, scores in copies.items():
        level = np.count_nonzero(scores >= ranks.score[probe] - TIE_TOLERANCE) - 1
        rank_max[probe] -= level
    return Ranking(
        rows,
        ranks.rank_min,
        rank_max,
        ranks.score,
        ranks.top_rows,
        ranks.top_scores,
        ranks.scored_rows,
        ranks.haystacks,
    )


def best_others(ranking: Ranking, identities: Identities) -> tuple[np.ndarray, np.ndarray]:
    """Row (m,) and score (m,) of the best row of another id; -1 and NaN where there is none."""
    other = (ranking.top_rows >= 0) & (
        identities.codes_of(ranking.top_rows) != identities.codes_of(ranking.row)[:, None]
    )
    first = other.argmax(axis=1)
    every = np.arange(len(first))
    found = other.any(axis=1)
    return (
        np.where(found, ranking.top_rows[every, first], NONE),
        np.where(found, ranking.top_scores[every, first], np.nan),
    )


def kth_distinct(rows: np.ndarray, scores: np.ndarray, identities: Identities, k: np.ndarray) -> np.ndarray:
    """Score (m,) of the k-th best id among the best rows (m, t) of each query, the last where there are fewer.

    ``k`` (m,). -inf where no row was found or k is 0.
    """
    reach = np.full(len(rows), -np.inf)
    codes = identities.codes_of(rows)
    for query in np.flatnonzero(k > 0):
        distinct, first = np.unique(codes[query], return_index=True)
        best = np.sort(scores[query][first[distinct >= 0]])[::-1]
        if len(best):
            reach[query] = best[min(int(k[query]), len(best)) - 1]
    return reach


def rank_returned(hits: np.ndarray, identities: Identities, answer_codes: np.ndarray) -> np.ndarray:
    """Rank of each answer's id among the returned rows (m, limit), (m,) int64; -1 where it was not returned."""
    codes = identities.codes_of(hits)
    own = (codes == answer_codes[:, None]) & (codes >= 0)
    return np.where(own.any(axis=1), own.argmax(axis=1) + 1, NONE)


def nullable(values: np.ndarray, type_: pa.DataType) -> pa.Array:
    """Numbers as Arrow, with -1 ranks and NaN scores as null."""
    missing = np.isnan(values) if values.dtype.kind == "f" else values < 0
    return pa.array(values, mask=missing).cast(type_)
