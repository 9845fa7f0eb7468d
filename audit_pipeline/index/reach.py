"""What each query of a run can be answered with: the rows its filter lets through, and exact ranks among them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from audit_pipeline.index.exact import ExactRanks, ExactSearch
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.results import Progress, no_progress

_GATHERED_SHARE = 0.25  # above it, scanning all rows with most of them left out costs less memory than a copy


@dataclass(frozen=True)
class Reach:
    """The haystacks of m queries.

    ``group`` (m,) int64 is each query's place in ``rows``, -1 where it can be answered with nothing; ``rows`` are
    ascending row ordinals, None for every row. ``filters`` (m,) object is the SQL each query is sent with where the
    filter is filled from a row, None for one that cannot be sent; None altogether where all are sent as declared.
    """

    group: np.ndarray
    rows: tuple[np.ndarray | None, ...]
    filters: np.ndarray | None = None

    def take(self, queries: np.ndarray) -> Reach:
        """The reach of some of the queries (positions)."""
        return replace(self, group=self.group[queries], filters=None if self.filters is None else self.filters[queries])

    def followed_by(self, other: Reach) -> Reach:
        """The reach of these queries and then of the others."""
        moved = np.where(other.group < 0, -1, other.group + len(self.rows))
        filters = None
        if self.filters is not None and other.filters is not None:
            filters = np.concatenate((self.filters, other.filters))
        return Reach(np.concatenate((self.group, moved)), self.rows + other.rows, filters)

    def filter_of(self, query: int) -> str | None:
        """The filled filter of one query; None where there is none of its own."""
        return None if self.filters is None else self.filters[query]

    def holds(self, query: int, rows: np.ndarray) -> np.ndarray:
        """Mask of row ordinals (r,): those that the query can be answered with."""
        if self.group[query] < 0:
            return np.zeros(len(rows), bool)
        own = self.rows[self.group[query]]
        return rows >= 0 if own is None else (rows >= 0) & np.isin(rows, own)

    def of_each(self, per_group: list[int]) -> np.ndarray:
        """(m,) int64: a number of each query's group; 0 where it can be answered with nothing."""
        return np.append(np.asarray(per_group, np.int64), 0)[self.group]

    def including(self, rows: np.ndarray) -> Reach:
        """The reach with each query's own row (m,), -1 for none, within its haystack."""
        widened: list[np.ndarray | None] = []
        for number, reached in enumerate(self.rows):
            own = rows[(self.group == number) & (rows >= 0)]
            widened.append(None if reached is None else np.union1d(reached, own))
        return replace(self, rows=tuple(widened))


def reach_of(snapshot: TableSnapshot, own_rows: np.ndarray) -> Reach:
    """The reach of queries that the application sends for these rows (m,) of the table; -1 for a row it lacks.

    Where the filter names columns, it is filled from the own row: without one the query cannot be sent.
    """
    own_rows = np.asarray(own_rows, np.int64)
    nowhere = np.zeros(len(own_rows), np.int64)
    if snapshot.row_filter is None or snapshot.rows_passing is None:
        passing = snapshot.passes_filter
        return Reach(nowhere, (None if passing is None else np.flatnonzero(passing),))
    codes = np.full(len(own_rows), -1, np.int64)
    known = own_rows >= 0
    codes[known] = snapshot.row_filter.codes[own_rows[known]]
    used, group = np.unique(codes[known], return_inverse=True)
    sent = np.array([snapshot.row_filter.filled(int(code)) for code in used], dtype=object)
    filters = np.full(len(own_rows), None, dtype=object)
    filters[known] = sent[group]
    groups = np.full(len(own_rows), -1, np.int64)
    groups[known] = group
    return Reach(groups, tuple(snapshot.rows_passing(sent.tolist())), filters)


def ranks_within(
    exact: ExactSearch,
    reach: Reach | None,
    queries: np.ndarray,
    answers: np.ndarray | None,
    k: int,
    *,
    override: tuple[np.ndarray, np.ndarray] | None = None,
    drop: np.ndarray | None = None,
    progress: Progress = no_progress,
) -> ExactRanks:
    """``ExactSearch.ranks``, each query among the rows of its reach; an answer outside them has no rank.

    ``scored_rows`` is the median over the queries.
    """
    if reach is None or (all(rows is None for rows in reach.rows) and (reach.group >= 0).all()):
        return exact.ranks(queries, answers, k, override, drop, progress)
    m = len(queries)
    found = ExactRanks(
        rank_min=np.full(m, -1, np.int64),
        rank_max=np.full(m, -1, np.int64),
        score=np.full(m, np.nan),
        top_rows=np.full((m, k), -1, np.int64),
        top_scores=np.full((m, k), -np.inf),
        scored_rows=0,
        haystacks=np.zeros(m, np.int64),
    )
    order = np.argsort(reach.group, kind="stable")
    done = int(np.count_nonzero(reach.group < 0))
    for number, rows in enumerate(reach.rows):
        first, last = np.searchsorted(reach.group[order], (number, number + 1))
        places = order[first:last]
        if not len(places) or (rows is not None and not len(rows)):
            continue
        part = _ranks_among(
            exact, rows, queries[places], None if answers is None else answers[places], k, override, drop
        )
        for name in ("rank_min", "rank_max", "score", "top_rows", "top_scores"):
            getattr(found, name)[places] = getattr(part, name)
        found.haystacks[places] = part.scored_rows
        done += len(places)
        progress("exact search", done, m)
    return replace(found, scored_rows=int(np.median(found.haystacks)) if m else 0)


def _ranks_among(
    exact: ExactSearch,
    rows: np.ndarray | None,
    queries: np.ndarray,
    answers: np.ndarray | None,
    k: int,
    override: tuple[np.ndarray, np.ndarray] | None,
    drop: np.ndarray | None,
) -> ExactRanks:
    """Exact ranks among some rows, in ordinals of the whole table."""
    n = len(exact.vectors)
    if rows is None:
        return exact.ranks(queries, answers, k, override, drop)
    if len(rows) > _GATHERED_SHARE * n:
        left_out = np.ones(n, bool)
        left_out[rows] = False
        if drop is not None:
            left_out[drop] = True
        return exact.ranks(queries, answers, k, override, np.flatnonzero(left_out))
    place = np.full(n + 1, -1, np.int64)  # the last entry stands for row -1
    place[rows] = np.arange(len(rows))
    inside = None
    if override is not None:
        kept = place[override[0]] >= 0
        inside = (place[override[0][kept]], np.asarray(override[1])[kept])
    dropped = None if drop is None else place[drop][place[drop] >= 0]
    gathered = ExactSearch(np.asarray(exact.vectors[rows]), exact.searchable[rows], exact.metric)
    found = gathered.ranks(queries, None if answers is None else place[answers], k, inside, dropped)
    top_rows = np.where(found.top_rows >= 0, rows[np.maximum(found.top_rows, 0)], -1)
    return replace(found, top_rows=top_rows)
