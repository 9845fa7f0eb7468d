"""ANN recall: how much of the exact answer the search returns, for queries that are no members of the index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.index.reach import Reach, ranks_within, reach_of
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.proportions import NOT_MEASURED, Proportion, bootstrap_mean
from audit_pipeline.results import Progress, StageResult, no_progress
from audit_pipeline.retrieval.ranking import TOP, Identities, kth_distinct
from audit_pipeline.retrieval.search_findings import available_ids
from audit_pipeline.retrieval.self_retrieval import search_in_blocks
from audit_pipeline.retrieval.tables import as_schema

K = 10


def run_ann_recall(
    snapshot: TableSnapshot,
    queries: pa.Table,
    query_vectors: np.ndarray,
    settings: IndexAuditSettings,
    progress: Progress = no_progress,
    *,
    reach: Reach | None = None,
) -> StageResult:
    """Share of the ten rows returned whose exact score reaches the tenth best within 1e-6, averaged over queries.

    ``queries`` has query_id and run (held_out or labelled), aligned with ``query_vectors`` (q, d). A row that the
    search did not return counts as one that does not reach it, so short results lower the figure; where fewer than
    ten chunks can be found, as many as there are stand for ten. Only rows that the application's filter lets through
    count: those of each query's ``reach`` (default: of the declared filter), and a query that can be answered with
    none is left out. Nothing is measured without an ANN index, which would compare exact with exact, nor with a score
    cut-off or fewer than ten rows asked for. The similarity form counts ties, as an id overlap would not (Aumueller et
    al. 2020, ANN-Benchmarks). Returns the table ann_recall and the section of audit.json, which
    ``ann_sweep`` holds against its limit.
    """
    search = settings.index.search
    exact_because = snapshot.info.why_exact
    if exact_because is not None:
        if search.fast_search and snapshot.info.index_type is None:
            exact_because = "no ANN index, and fast_search skips all rows outside one"
        # index_absent, index_stale or the plan says it: a search that is exact needs no note of its own.
        return _unmeasured(exact_because)
    unmeasured = None
    if queries.num_rows == 0:
        unmeasured = "no held-out or labelled query was encoded"
    elif search.limit < K:
        unmeasured = f"the application asks for {search.limit} rows, fewer than {K}"
    elif settings.index.filter is not None and snapshot.passes_filter is None:
        unmeasured = "the application's filter was not evaluated over the rows"
    elif search.cutoff:
        unmeasured = "the application's score cut-off shortens the results"
    if unmeasured is not None:
        return _unmeasured(unmeasured, _not_measured(unmeasured))
    reach = reach_of(snapshot, np.full(queries.num_rows, -1)) if reach is None else reach
    identities = Identities(snapshot)
    answerable = np.flatnonzero(_wanted(snapshot, identities, reach) > 0)
    if not len(answerable):
        nobody = "the application's filter lets no row through for any query"
        return _unmeasured(nobody, _not_measured(nobody))
    queries, query_vectors, reach = (
        queries.take(pa.array(answerable)),
        query_vectors[answerable],
        reach.take(answerable),
    )
    hits = search_in_blocks(snapshot, query_vectors, search.limit, progress, reach)
    recall = ExactTen(snapshot, identities, query_vectors, reach, progress).recall(hits.rows)
    table = as_schema(
        {
            "query_id": queries["query_id"],
            "run": queries["run"],
            "returned": pa.array(hits.returned, pa.int32()),
            f"ann_recall_{K}": pa.array(recall),
        },
        schemas.ANN_RECALL,
    ).sort_by([("run", "ascending"), ("query_id", "ascending")])
    figure = bootstrap_mean(table[f"ann_recall_{K}"].to_numpy())
    runs = sorted(set(table["run"].to_pylist()))
    by_run = [{"run": run, f"ann_recall@{K}": _of_run(table, run).as_dict()} for run in runs]
    summary: dict[str, Any] = {"n": figure.n, f"ann_recall@{K}": figure.as_dict(), "by_run": by_run}
    return StageResult({"ann_recall": table}, summary)


class ExactTen:
    """The ten best chunks of m queries by exact score, each among the rows of its reach, to hold answers against."""

    def __init__(
        self,
        snapshot: TableSnapshot,
        identities: Identities,
        query_vectors: np.ndarray,
        reach: Reach,
        progress: Progress = no_progress,
    ) -> None:
        self._exact = ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric)
        self._queries = query_vectors
        self.wanted = _wanted(snapshot, identities, reach)
        best = ranks_within(self._exact, reach, query_vectors, None, TOP, progress=progress)
        self._kth = kth_distinct(best.top_rows, best.top_scores, identities, np.full(len(query_vectors), K))

    def recall(self, rows: np.ndarray) -> np.ndarray:
        """(m,) share of the ten that rows (m, limit) returned to each query reach; 0 where nothing can be found."""
        scores = self._exact.scores(self._queries, rows[:, :K])
        reached = np.count_nonzero(scores >= self._kth[:, None] - TIE_TOLERANCE, axis=1)
        return np.where(self.wanted > 0, np.minimum(reached / np.maximum(self.wanted, 1), 1.0), 0.0)


def _wanted(snapshot: TableSnapshot, identities: Identities, reach: Reach) -> np.ndarray:
    """(m,) distinct ids that each query can be answered with, ten at most."""
    return np.minimum(reach.of_each(available_ids(snapshot, identities, reach)), K)


def _of_run(table: pa.Table, run: str) -> Proportion:
    mask = np.array([own == run for own in table["run"].to_pylist()], bool)
    return bootstrap_mean(table[f"ann_recall_{K}"].to_numpy()[mask])


def _unmeasured(reason: str, *findings: Finding) -> StageResult:
    summary = {"n": 0, f"ann_recall@{K}": NOT_MEASURED.as_dict(), "reason": reason}
    return StageResult({"ann_recall": schemas.ANN_RECALL.empty_table()}, summary, list(findings))


def _not_measured(reason: str) -> Finding:
    return Finding(
        "not_measured",
        "info",
        f"ann_recall@{K} was not measured: {reason}.",
        "It needs held-out or labelled queries, ten rows asked for, and a search without a score cut-off.",
        n_compared=0,
        evidence={"measure": f"ann_recall@{K}"},
    )
