"""The application's search on one pinned table version, and the same with one thing changed. It writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.config import IndexSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.connection import first_line
from audit_pipeline.index.snapshot import SearchHits
from audit_pipeline.index.vector_index import VectorIndex

VARIANTS = ("without_filter", "without_cutoff", "with_tail", "nprobes", "ef", "refine", "exact")
"""Names of the counterfactual searches: one thing of the declared search lifted or raised, the rest as declared."""

_QUERIES_AT_ONCE = 200
_ALL_PARTITIONS = 1_000_000
_HIGH_EF = 1000
_HIGH_REFINE = 20


@dataclass(frozen=True)
class SearchRequest:
    """One way to search: the declared settings, or a variant of them."""

    metric: str
    filter: str | None
    prefilter: bool
    nprobes: int | None
    ef: int | None
    refine_factor: int | None
    fast_search: bool
    min_score: float | None
    exact: bool = False

    @classmethod
    def declared(cls, settings: IndexSettings) -> SearchRequest:
        search = settings.search
        return cls(
            metric=settings.metric,
            filter=settings.filter,
            prefilter=search.prefilter,
            nprobes=search.nprobes,
            ef=search.ef,
            refine_factor=search.refine_factor,
            fast_search=search.fast_search,
            min_score=search.min_score,
        )

    def variant(self, name: str) -> SearchRequest:
        """This search with the one change that the name in ``VARIANTS`` stands for."""
        changes: dict[str, Callable[[], SearchRequest]] = {
            "without_filter": lambda: replace(self, filter=None),
            "without_cutoff": lambda: replace(self, min_score=None),
            "with_tail": lambda: replace(self, fast_search=False),
            "nprobes": lambda: replace(self, nprobes=_ALL_PARTITIONS),
            "ef": lambda: replace(self, ef=max(_HIGH_EF, 4 * (self.ef or 0))),
            "refine": lambda: replace(self, refine_factor=max(_HIGH_REFINE, 4 * (self.refine_factor or 0))),
            "exact": lambda: replace(self, exact=True, fast_search=False),
        }
        return changes[name]()


class LanceSearch:
    """Searches one checked-out table and answers in row ordinals of its snapshot.

    ``row_ids`` (n,) uint64 are the table's row ids of that version in snapshot order; ``id_codes`` (n,) int64 equal
    numbers for equal chunk ids.
    """

    def __init__(
        self,
        table: Any,
        column: str,
        index: VectorIndex | None,
        settings: IndexSettings,
        row_ids: np.ndarray,
        id_codes: np.ndarray,
    ) -> None:
        self._table, self._column, self._index = table, column, index
        self._declared = SearchRequest.declared(settings)
        self._order = np.argsort(row_ids)
        self._sorted_ids = row_ids[self._order]
        self._id_codes = id_codes

    def check(self, limit: int) -> None:
        """Raises AuditInputError for settings with which LanceDB refuses every search on this index."""
        ef, refine = self._declared.ef, self._declared.refine_factor or 1
        if self._index is not None and self._index.is_graph and ef is not None and ef < limit * refine:
            wanted = f"limit {limit}" if refine == 1 else f"limit {limit} x refine_factor {refine}"
            raise AuditInputError(
                f"index.search: ef {ef} is under {wanted}, and LanceDB refuses such a search: correct one of them"
            )

    def search(self, queries: np.ndarray, limit: int) -> SearchHits:
        """The search as declared: ``queries`` (m, d) float32."""
        return self._run(self._declared, queries, limit)

    def variant(self, queries: np.ndarray, limit: int, name: str) -> SearchHits:
        """The declared search with the one change that a name in ``VARIANTS`` stands for."""
        return self._run(self._declared.variant(name), queries, limit)

    def explain(self, query: np.ndarray, limit: int) -> str:
        """LanceDB's plan of the declared search. Raises AuditInputError where it refuses the settings."""
        try:
            return str(self._builder(self._declared, query, limit).explain_plan())
        except (RuntimeError, ValueError) as error:
            raise self._refused(error) from error

    def passing_rows(self) -> np.ndarray | None:
        """(n,) bool: rows that the declared filter lets through; None without a filter."""
        return None if self._declared.filter is None else self._rows_where(self._declared.filter)

    def undecided_rows(self) -> np.ndarray | None:
        """(n,) bool: rows for which a null leaves the filter neither true nor false; None without one."""
        return None if self._declared.filter is None else self._rows_where(f"({self._declared.filter}) IS NULL")

    def _rows_where(self, condition: str) -> np.ndarray:
        try:
            found = self._table.search().where(condition).with_row_id(True).select(["_rowid"]).to_arrow()
        except (RuntimeError, ValueError) as error:
            raise self._refused(error) from error
        rows = np.zeros(len(self._sorted_ids), dtype=bool)
        rows[self._ordinals(found["_rowid"].to_numpy())] = True
        return rows

    def _run(self, request: SearchRequest, queries: np.ndarray, limit: int) -> SearchHits:
        rows = np.full((len(queries), limit), -1, dtype=np.int64)
        returned = np.zeros(len(queries), dtype=np.int64)
        askable = np.flatnonzero(_askable(queries, request.metric))
        for start in range(0, len(askable), _QUERIES_AT_ONCE):
            part = askable[start : start + _QUERIES_AT_ONCE]
            query, ordinals = self._answers(request, queries[part], limit)
            rows[part], returned[part] = self._distinct(query, ordinals, len(part), limit)
        return SearchHits(rows=rows, returned=returned)

    def _answers(self, request: SearchRequest, queries: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """(query of each answer, its row ordinal), by query and in the order returned."""
        try:
            found = self._builder(request, list(queries.astype(np.float32)), limit).to_arrow()
        except (RuntimeError, ValueError) as error:
            raise self._refused(error) from error
        if request.min_score is not None:
            found = found.filter(pa.array(found["_distance"].to_numpy() <= request.min_score))
        # A single query comes back without the column that numbers the queries.
        query = (
            found["query_index"].to_numpy().astype(np.int64)
            if "query_index" in found.column_names
            else np.zeros(found.num_rows, dtype=np.int64)
        )
        order = np.argsort(query, kind="stable")
        return query[order], self._ordinals(found["_rowid"].to_numpy())[order]

    def _builder(self, request: SearchRequest, query: Any, limit: int) -> Any:
        builder = self._table.search(query, vector_column_name=self._column, query_type="vector")
        # Without the metric LanceDB takes the index's, or l2; with bypass_vector_index it always takes l2.
        builder = builder.distance_type(request.metric).limit(limit).select(["_distance"]).with_row_id(True)
        if request.filter is not None:
            builder = builder.where(request.filter, prefilter=request.prefilter)
        if request.exact:
            return builder.bypass_vector_index()
        if request.fast_search:
            builder = builder.fast_search()
        if self._index is None:
            return builder
        if request.nprobes is not None:
            builder = builder.nprobes(request.nprobes)
        if request.refine_factor is not None:
            builder = builder.refine_factor(request.refine_factor)
        if request.ef is not None and self._index.is_graph:
            # LanceDB refuses an ef under the rows asked for; more rows than the application's are asked for here too.
            builder = builder.ef(max(request.ef, limit * (request.refine_factor or 1)))
        return builder

    def _ordinals(self, row_ids: np.ndarray) -> np.ndarray:
        return self._order[np.searchsorted(self._sorted_ids, row_ids)]

    def _distinct(self, query: np.ndarray, ordinals: np.ndarray, m: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Answers as a padded matrix, only the first row of each chunk id kept."""
        keys = query * (int(self._id_codes.max(initial=0)) + 1) + self._id_codes[ordinals]
        _, first = np.unique(keys, return_index=True)
        first.sort()
        query, ordinals = query[first], ordinals[first]
        counts = np.bincount(query, minlength=m)
        place = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = np.full((m, limit), -1, dtype=np.int64)
        rows[query, place] = ordinals
        return rows, counts

    def _refused(self, error: BaseException) -> AuditInputError:
        where = "index.filter" if "Schema error" in str(error) or "sql parser" in str(error) else "index.search"
        return AuditInputError(f"{where}: LanceDB refuses the search ({first_line(error)}): correct it in the settings")


def _askable(queries: np.ndarray, metric: str) -> np.ndarray:
    """(m,) bool: queries that can be answered; a zero vector has no direction under cosine and finds nothing."""
    finite = np.isfinite(queries).all(axis=1)
    return finite & (queries != 0).any(axis=1) if metric == "cosine" else finite
