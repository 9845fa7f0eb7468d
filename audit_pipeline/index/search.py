"""The application's search on one pinned table version, and the same with one thing changed. It writes nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.ann_settings import AnnSettings
from audit_pipeline.index.blocks import version_gone
from audit_pipeline.index.connection import first_line
from audit_pipeline.index.snapshot import SearchHits
from audit_pipeline.index.vector_index import VectorIndex
from audit_pipeline.index_settings import IndexSettings

VARIANTS = ("without_filter", "filter_first", "without_cutoff", "with_tail", "nprobes", "ef", "refine", "exact")
"""Names of the counterfactual searches: one thing of the declared search lifted or raised, the rest as declared."""

_QUERIES_AT_ONCE = 200
_FILTERS_AT_ONCE = 64  # conditions that one scan of the table evaluates
_ALL_PARTITIONS = 1_000_000
_HIGH_EF = 1000
_HIGH_REFINE = 20
_PARTITIONS = re.compile(r"\bpartitions_ranked=(\d+)")
_DELTAS = re.compile(r"\bdeltas_searched=(\d+)")


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
    max_distance: float | None
    exact: bool = False

    @classmethod
    def declared(cls, settings: IndexSettings) -> SearchRequest:
        search = settings.search
        return cls(
            metric=settings.metric,
            filter=None,
            prefilter=search.prefilter,
            nprobes=search.nprobes,
            ef=search.ef,
            refine_factor=search.refine_factor,
            fast_search=search.fast_search,
            max_distance=search.furthest(settings.metric),
        )

    def variant(self, name: str) -> SearchRequest:
        """This search with the one change that the name in ``VARIANTS`` stands for."""
        changes: dict[str, Callable[[], SearchRequest]] = {
            "without_filter": lambda: replace(self, filter=None),
            "filter_first": lambda: replace(self, prefilter=True),
            "without_cutoff": lambda: replace(self, max_distance=None),
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
    numbers for equal chunk ids. ``declared_filter`` is the filter of every search that is not given one of its own, and
    ``own_filter`` the condition that holds for a row exactly where its own filter does (default: the same).
    """

    def __init__(
        self,
        table: Any,
        column: str,
        index: VectorIndex | None,
        settings: IndexSettings,
        row_ids: np.ndarray,
        id_codes: np.ndarray,
        declared_filter: str | None = None,
        own_filter: str | None = None,
    ) -> None:
        self._table, self._column, self._index = table, column, index
        self._declared = replace(SearchRequest.declared(settings), filter=declared_filter)
        self._own_filter = declared_filter if own_filter is None else own_filter
        self._passing: dict[str, np.ndarray] = {}
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

    def search(self, queries: np.ndarray, limit: int, filters: np.ndarray | None = None, /) -> SearchHits:
        """The search as declared: ``queries`` (m, d) float32, ``filters`` (m,) as in ``snapshot.SearchFunction``."""
        return self._run(self._declared, None, queries, limit, filters)

    def variant(self, queries: np.ndarray, limit: int, name: str, filters: np.ndarray | None = None, /) -> SearchHits:
        """The declared search with the one change that a name in ``VARIANTS`` stands for."""
        return self._run(self._declared, name, queries, limit, filters)

    @property
    def index(self) -> VectorIndex | None:
        """The ANN index of the searched column."""
        return self._index

    def partitions(self) -> int:
        """IVF partitions of the index, as LanceDB counts them in a search of all of them; 1 where it does not say."""
        every = replace(self._declared, filter=None, nprobes=_ALL_PARTITIONS)
        kind = self._table.schema.field(self._column).type
        plan = str(self._builder(every, np.ones(kind.list_size, np.float32), 1).analyze_plan())
        ranked, deltas = _PARTITIONS.search(plan), _DELTAS.search(plan)
        # An index that was brought up to date has further parts, each with as many partitions.
        return max(int(ranked[1]) // max(int(deltas[1]), 1), 1) if ranked and deltas else 1

    def ask(
        self, query: np.ndarray, limit: int, settings: AnnSettings | None = None, condition: str | None = None
    ) -> tuple[np.ndarray, float]:
        """One query by itself, as ``ann_settings.AnnSearch`` says; the seconds are those of the call to LanceDB."""
        request = replace(self._declared, filter=self._declared.filter if condition is None else condition)
        if settings is not None:
            nprobes, ef, refine_factor = settings.nprobes, settings.ef, settings.refine_factor
            request = replace(request, nprobes=nprobes, ef=ef, refine_factor=refine_factor)
        builder = self._builder(request, np.asarray(query, np.float32), limit)
        started = time.perf_counter()
        try:
            found = builder.to_arrow()
        except (RuntimeError, ValueError) as error:
            raise self._refused(error) from error
        seconds = time.perf_counter() - started
        ordinals = self._ordinals(found["_rowid"].to_numpy())
        ordinals = ordinals[self._first_of_each_id(np.zeros(len(ordinals), np.int64), ordinals)]
        rows = np.full(limit, -1, dtype=np.int64)
        rows[: len(ordinals)] = ordinals
        return rows, seconds

    def explain(self, query: np.ndarray, limit: int) -> str:
        """LanceDB's plan of the declared search. Raises AuditInputError where it refuses the settings."""
        try:
            return str(self._builder(self._declared, query, limit).explain_plan())
        except (RuntimeError, ValueError) as error:
            raise self._refused(error) from error

    def own_rows(self) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
        """(passing, undecided), each (n,) bool: rows that their own filter lets through, and those for which a null
        leaves it neither true nor false; None without a filter."""
        if self._own_filter is None:
            return None, None
        [(passing, undecided)] = self._evaluate([self._own_filter])
        return passing, undecided

    def rows_passing(self, filters: list[str]) -> list[np.ndarray]:
        """Ascending row ordinals that each filter lets through; each is evaluated once."""
        new = [condition for condition in dict.fromkeys(filters) if condition not in self._passing]
        for start in range(0, len(new), _FILTERS_AT_ONCE):
            part = new[start : start + _FILTERS_AT_ONCE]
            for condition, (passing, _) in zip(part, self._evaluate(part), strict=True):
                self._passing[condition] = np.flatnonzero(passing).astype(np.int32)
        return [self._passing[condition] for condition in filters]

    def _evaluate(self, conditions: list[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """(true, neither true nor false), each (n,) bool, of each condition, in one scan of the table."""
        columns = {f"c{number}": condition for number, condition in enumerate(conditions)}
        try:
            found = self._table.search().select({**columns, "_rowid": "_rowid"}).to_arrow()
        except (RuntimeError, ValueError) as error:
            raise self._refused(error) from error
        ordinals = self._ordinals(found["_rowid"].to_numpy())
        evaluated = []
        for name in columns:
            held = np.zeros(len(ordinals), dtype=bool)
            unknown = np.zeros(len(ordinals), dtype=bool)
            held[ordinals] = found[name].fill_null(False).to_numpy()
            unknown[ordinals] = found[name].is_null().to_numpy()
            evaluated.append((held, unknown))
        return evaluated

    def _run(
        self, declared: SearchRequest, variant: str | None, queries: np.ndarray, limit: int, filters: np.ndarray | None
    ) -> SearchHits:
        """The declared search, or its variant, of all queries; those of one filter are sent together."""
        rows = np.full((len(queries), limit), -1, dtype=np.int64)
        distances = np.full((len(queries), limit), np.nan, dtype=np.float32)
        returned = np.zeros(len(queries), dtype=np.int64)
        beyond = np.zeros(len(queries), dtype=np.int64)
        askable = np.flatnonzero(_askable(queries, declared.metric))
        for condition, places in _by_filter(askable, declared.filter, filters):
            request = replace(declared, filter=condition)
            request = request if variant is None else request.variant(variant)
            for start in range(0, len(places), _QUERIES_AT_ONCE):
                part = places[start : start + _QUERIES_AT_ONCE]
                query, ordinals, distance = self._answers(request, queries[part], limit)
                furthest = request.max_distance
                kept = np.ones(len(query), bool) if furthest is None else distance <= furthest
                beyond[part] = np.bincount(query[~kept], minlength=len(part))
                query, ordinals, distance = query[kept], ordinals[kept], distance[kept]
                counts = np.bincount(query, minlength=len(part))
                rank = np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
                rows[part[query], rank], distances[part[query], rank] = ordinals, distance
                returned[part] = counts
        return SearchHits(rows, returned, distances, beyond)

    def _answers(
        self, request: SearchRequest, queries: np.ndarray, limit: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(query of each answer, its row ordinal, its distance), by query and in the order returned, each id once."""
        try:
            found = self._builder(request, list(queries.astype(np.float32)), limit).to_arrow()
        except (RuntimeError, ValueError) as error:
            raise self._refused(error) from error
        # A single query comes back without the column that numbers the queries.
        query = (
            found["query_index"].to_numpy().astype(np.int64)
            if "query_index" in found.column_names
            else np.zeros(found.num_rows, dtype=np.int64)
        )
        order = np.argsort(query, kind="stable")
        query, ordinals = query[order], self._ordinals(found["_rowid"].to_numpy())[order]
        first = self._first_of_each_id(query, ordinals)
        return query[first], ordinals[first], found["_distance"].to_numpy()[order][first]

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

    def _first_of_each_id(self, query: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Positions of the answers that are the first of their chunk id to their query, in order."""
        keys = query * (int(self._id_codes.max(initial=0)) + 1) + self._id_codes[ordinals]
        first = np.unique(keys, return_index=True)[1]
        first.sort()
        return first

    def _refused(self, error: BaseException) -> AuditInputError:
        gone = version_gone(error, self._table)
        if gone is not None:
            return gone
        where = "index.filter" if "Schema error" in str(error) or "sql parser" in str(error) else "index.search"
        return AuditInputError(f"{where}: LanceDB refuses the search ({first_line(error)}): correct it in the settings")


def _by_filter(
    askable: np.ndarray, declared: str | None, filters: np.ndarray | None
) -> list[tuple[str | None, np.ndarray]]:
    """(filter, the queries that are sent with it), in the order of their first queries."""
    if filters is None:
        return [(declared, askable)]
    places: dict[str, list[int]] = {}
    for place in askable.tolist():
        if filters[place] is not None:
            places.setdefault(filters[place], []).append(place)
    return [(condition, np.array(own)) for condition, own in places.items()]


def _askable(queries: np.ndarray, metric: str) -> np.ndarray:
    """(m,) bool: queries that can be answered; a zero vector has no direction under cosine and finds nothing."""
    finite = np.isfinite(queries).all(axis=1)
    return finite & (queries != 0).any(axis=1) if metric == "cosine" else finite
