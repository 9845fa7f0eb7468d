"""The chunks that judgements call relevant: which they are, which is closest, which come back. No table is made."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.index.reach import Reach
from audit_pipeline.retrieval.ranking import Identities, Ranking, rank_returned

K = 10


class Labels(Protocol):
    """What is needed of ``corpus.labelled_queries.LabelledQueries``."""

    @property
    def queries(self) -> pa.Table: ...  # query_id, text

    @property
    def qrels(self) -> pa.Table: ...  # query_id, chunk_id, relevance; relevant where relevance > 0

    @property
    def invalid(self) -> dict[str, int]: ...


def closest_answers(
    exact: ExactSearch, reach: Reach, queries: np.ndarray, relevant: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Place among its relevant rows, and row, of each query's closest relevant chunk that it can reach."""
    reachable = np.array([reach.holds(query, rows) for query, rows in enumerate(relevant)], bool)
    scores = exact.scores(queries, relevant)
    answer = _closest(np.where(reachable.reshape(scores.shape), scores, np.nan), relevant)
    rows = np.take_along_axis(relevant, answer[:, None], 1)[:, 0] if len(answer) else np.zeros(0, np.int64)
    return answer, rows


def relevant_chunks(labels: Labels) -> list[list[str]]:
    """Relevant chunk ids of each query, sorted, in the order of the queries."""
    by_query: dict[str, set[str]] = {query: set() for query in labels.queries["query_id"].to_pylist()}
    judged = labels.qrels.filter(pc.greater(labels.qrels["relevance"], 0))
    for query, chunk in zip(judged["query_id"].to_pylist(), judged["chunk_id"].to_pylist(), strict=True):
        if query in by_query:
            by_query[query].add(chunk)
    empty = next((query for query, chunks in by_query.items() if not chunks), None)
    if empty is not None:
        raise ValueError(f"query {empty!r} has no relevant judgement")
    return [sorted(chunks) for chunks in by_query.values()]


def padded(rows: list[np.ndarray]) -> np.ndarray:
    """Row ordinals of each query's relevant chunks as one matrix, -1 for missing rows and padding."""
    width = max((len(own) for own in rows), default=1)
    matrix = np.full((len(rows), width), -1, np.int64)
    for position, own in enumerate(rows):
        matrix[position, : len(own)] = own
    return matrix


def _closest(scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Place of each query's closest relevant row; where none can be scored, of the first the table has, else 0."""
    comparable = np.where(np.isnan(scores), np.where(rows >= 0, -1e300, -np.inf), scores)
    return comparable.argmax(axis=1) if len(rows) else np.zeros(0, np.int64)


def first_returned_of(hits: np.ndarray, identities: Identities, relevant_codes: np.ndarray) -> np.ndarray:
    """Rank of the first relevant chunk returned, (q,), -1 where none was."""
    ranks = np.full(len(hits), -1)
    for place in range(relevant_codes.shape[1]):
        own = rank_returned(hits, identities, relevant_codes[:, place])
        ranks = np.where((own > 0) & ((ranks < 0) | (own < ranks)), own, ranks)
    return ranks


def figures_of(
    hits: np.ndarray, ranking: Ranking, identities: Identities, relevant_codes: np.ndarray, relevant: np.ndarray
) -> dict[str, np.ndarray]:
    """Success and recall at ten per query, as returned and exactly."""
    returned = np.zeros(len(hits))
    found = np.zeros(len(hits))
    top_codes = identities.codes_of(ranking.top_rows)
    for query in range(len(hits)):
        wanted = relevant_codes[query][relevant_codes[query] >= 0]
        returned[query] = len(np.intersect1d(identities.codes_of(hits[query, :K]), wanted))
        distinct, first = np.unique(top_codes[query], return_index=True)
        scores = np.sort(ranking.top_scores[query][first[distinct >= 0]])[::-1]
        if len(scores):
            reached = ranking.top_scores[query] >= scores[min(K, len(scores)) - 1] - TIE_TOLERANCE
            found[query] = min(len(np.intersect1d(top_codes[query][reached], wanted)), K)
    return {
        "success_10": returned > 0,
        "recall_10": returned / relevant,
        "exact_success_10": (ranking.rank_min >= 1) & (ranking.rank_min <= K),
        "exact_recall_10": found / relevant,
    }


def best_irrelevant(
    ranking: Ranking, identities: Identities, relevant_codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Row and score of the best row that is no answer, -1 and NaN where all of the best rows are answers."""
    rows = np.full(len(relevant_codes), -1, np.int64)
    scores = np.full(len(relevant_codes), np.nan)
    codes = identities.codes_of(ranking.top_rows)
    for query in range(len(relevant_codes)):
        others = np.flatnonzero((codes[query] >= 0) & ~np.isin(codes[query], relevant_codes[query]))
        if len(others):
            rows[query], scores[query] = ranking.top_rows[query, others[0]], ranking.top_scores[query, others[0]]
    return rows, scores
