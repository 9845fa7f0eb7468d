"""What the application got back against an exact search, and why. What follows from it is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.index.exact import TIE_TOLERANCE, ExactRanks, ExactSearch
from audit_pipeline.index.snapshot import USABLE, ZERO, TableSnapshot
from audit_pipeline.proportions import Proportion, bootstrap_mean
from audit_pipeline.results import Progress, no_progress
from audit_pipeline.retrieval.ranking import TOP, Identities, kth_distinct
from audit_pipeline.retrieval.self_retrieval import search_in_blocks

METRICS = ("cosine", "l2", "dot")
WITHOUT_FILTER = "without_filter"  # the declared metric, the declared filter lifted
DECLARED_SEARCH = "declared_search"  # what the search as declared returns now, index and all
NEAR = "near"  # among the closest NEAR_TIMES as many rows
NEAR_TIMES = 5


@dataclass(frozen=True)
class ReturnedRows:
    """Answers of m queries as row ordinals: ``rows`` (m, limit) in the order returned, each id once, -1 padded.

    Ids that the table lacks leave no gap in ``rows``. ``distinct`` (m,) counts the distinct ids of the whole answer,
    ``unknown`` (m,) those among its first ``limit`` that the table lacks, ``logged`` (m,) bool whether there is an
    answer at all.
    """

    rows: np.ndarray
    distinct: np.ndarray
    unknown: np.ndarray
    logged: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """(m,) rows of the table among the first ``limit`` ids."""
        return np.count_nonzero(self.rows >= 0, axis=1)


def returned_rows(ids: pa.ListArray, snapshot: TableSnapshot, limit: int) -> ReturnedRows:
    """The rows of ``ids`` (m,) lists of chunk ids, null where none was logged; an id on several rows is its first."""
    m = len(ids)
    query = pc.list_parent_indices(ids).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = pc.list_flatten(ids).fill_null("")
    codes = flat.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    _, first = np.unique(query * (int(codes.max(initial=0)) + 1) + codes, return_index=True)
    first.sort()
    query, row = query[first], snapshot.row_of(flat.take(pa.array(first)))
    distinct = np.bincount(query, minlength=m)
    place = np.arange(len(query)) - np.repeat(np.cumsum(distinct) - distinct, distinct)
    inside = place < limit
    query, row = query[inside], row[inside]
    unknown = np.bincount(query[row < 0], minlength=m)
    query, row = query[row >= 0], row[row >= 0]
    counts = np.bincount(query, minlength=m)
    rows = np.full((m, limit), -1, dtype=np.int64)
    rows[query, np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)] = row
    return ReturnedRows(rows, distinct, unknown, ids.is_valid().to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class Agreement:
    """Agreement of m answers with one exact search.

    ``recall`` (m,) share of the returned rows whose exact score reaches the k-th best within 1e-6, k their number;
    NaN without any. ``order`` (m,) share of neighbouring returned rows whose exact scores do not rise by more than
    1e-6; NaN with fewer than two. ``scores`` (m, limit) exact, NaN where a row cannot be found. ``best`` the closest
    rows.
    """

    recall: np.ndarray
    order: np.ndarray
    scores: np.ndarray
    best: ExactRanks


def agree(
    snapshot: TableSnapshot,
    identities: Identities,
    queries: np.ndarray,
    rows: np.ndarray,
    metric: str,
    *,
    filtered: bool = True,
    times: int = 1,
    progress: Progress = no_progress,
) -> Agreement:
    """``rows`` (m, limit) as returned for ``queries`` (m, d) against an exact search under ``metric``.

    ``filtered``: only rows that the declared filter lets through can be found. The closest ``times`` as many rows as
    returned count as reached. Ties count as agreement, as in ann_recall@k.
    """
    searchable = snapshot.vector_state == USABLE
    if metric != "cosine":
        searchable |= snapshot.vector_state == ZERO
    if filtered and snapshot.passes_filter is not None:
        searchable &= snapshot.passes_filter
    exact = ExactSearch(snapshot.vectors, searchable, metric)
    best = exact.ranks(queries, None, max(TOP, 2 * times * rows.shape[1]), progress=progress)
    scores = _scores(exact, identities, queries, rows)
    known = np.count_nonzero(rows >= 0, axis=1)
    reach = kth_distinct(best.top_rows, best.top_scores, identities, times * known)
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = np.count_nonzero(scores >= reach[:, None] - TIE_TOLERANCE, axis=1)
        recall = reached / known
        pairs = (rows[:, 1:] >= 0) & ~np.isnan(scores[:, 1:]) & ~np.isnan(scores[:, :-1])
        falling = pairs & (scores[:, 1:] <= scores[:, :-1] + TIE_TOLERANCE)
        order = falling.sum(axis=1) / pairs.sum(axis=1)
    return Agreement(recall, order, scores, best)


def _scores(exact: ExactSearch, identities: Identities, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Exact scores (m, limit); of an id on several rows the best of them."""
    scores = exact.scores(queries, rows)
    codes = identities.codes_of(rows)
    for place in identities.repeated(codes.ravel()):
        query, column = divmod(int(place), rows.shape[1])
        own = exact.scores(queries[query : query + 1], identities.rows_of_code(codes[query, column])[None, :])[0]
        if not np.isnan(own).all():
            scores[query, column] = np.nanmax(own)
    return scores


def explain(
    snapshot: TableSnapshot,
    identities: Identities,
    queries: np.ndarray,
    rows: np.ndarray,
    progress: Progress = no_progress,
) -> dict[str, Proportion]:
    """Mean agreement of the same answers with other searches, by name: the other metrics, WITHOUT_FILTER,
    DECLARED_SEARCH and NEAR.
    """

    def mean(metric: str, *, filtered: bool = True, times: int = 1) -> Proportion:
        found = agree(
            snapshot, identities, queries, rows, metric, filtered=filtered, times=times, progress=progress
        ).recall
        return bootstrap_mean(found[~np.isnan(found)])

    tried = {metric: mean(metric) for metric in METRICS if metric != snapshot.metric}
    if snapshot.passes_filter is not None:
        tried[WITHOUT_FILTER] = mean(snapshot.metric, filtered=False)
    hits = search_in_blocks(snapshot, queries, rows.shape[1], progress).rows
    returned_codes, declared_codes = identities.codes_of(rows), identities.codes_of(hits)
    shared = [
        np.isin(own[own >= 0], declared).mean()
        for own, declared in zip(returned_codes, declared_codes, strict=True)
        if (own >= 0).any()
    ]
    tried[DECLARED_SEARCH] = bootstrap_mean(np.array(shared))
    tried[NEAR] = mean(snapshot.metric, times=NEAR_TIMES)
    return tried


def sources_left_out(
    snapshot: TableSnapshot, identities: Identities, rows: np.ndarray, agreement: Agreement
) -> list[str | None]:
    """The sources of all nearer rows that were left out, where no answer holds a row of any of them; empty otherwise.

    A row is left out when its exact score is above that of the farthest returned row by more than 1e-6.
    """
    if "source" not in snapshot.rows.column_names or not len(rows):
        return []
    with np.errstate(invalid="ignore"):
        farthest = np.nanmin(np.where(np.isnan(agreement.scores), np.inf, agreement.scores), axis=1)
    best, codes = agreement.best, identities.codes_of(rows)
    nearer = (best.top_rows >= 0) & (best.top_scores > farthest[:, None] + TIE_TOLERANCE)
    left_out = [
        best.top_rows[query][nearer[query] & ~np.isin(identities.codes_of(best.top_rows[query]), codes[query])]
        for query in range(len(rows))
    ]
    sources = snapshot.rows["source"]
    missing = set(sources.take(pa.array(np.unique(np.concatenate(left_out)))).to_pylist())
    present = set(sources.take(pa.array(np.unique(rows[rows >= 0]))).to_pylist())
    return [] if missing & present else sorted(missing, key=str)


def cut_between(
    identities: Identities, agreement: Agreement, short: np.ndarray, known: np.ndarray
) -> list[float] | None:
    """Scores [low, high] between which a cut-off must lie that would explain all short answers; None without one.

    Short answers must be the closest rows, and every row they leave out must be farther than every row returned.
    """
    if not short.any() or not np.all(agreement.recall[short & (known > 0)] == 1):
        return None
    best = agreement.best
    following = kth_distinct(best.top_rows, best.top_scores, identities, known + 1)
    low = float(following[short].max())
    with np.errstate(invalid="ignore"):
        high = float(np.nanmin(agreement.scores)) if not np.isnan(agreement.scores).all() else np.inf
    return [low, high] if low + TIE_TOLERANCE < high and np.isfinite([low, high]).all() else None
