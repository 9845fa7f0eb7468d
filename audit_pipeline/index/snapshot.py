"""One table at one pinned version as arrays: rows, vectors, their state, and the application's search over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.index.ann_settings import AnnSearch
from audit_pipeline.index.row_filter import RowFilter

USABLE, NULL, NAN, INFINITE, ZERO, WRONG_DIMENSION = range(6)
VECTOR_STATES = ("usable", "null", "nan", "infinite", "zero", "wrong_dimension")


@dataclass(frozen=True)
class FtsIndex:
    """A full-text index as LanceDB lists it."""

    name: str
    column: str
    indexed_rows: int
    unindexed_rows: int


@dataclass(frozen=True)
class IndexInfo:
    """What audit.json says of the table under "index"."""

    uri: str
    table: str
    version: int
    rows: int
    dimension: int
    metric: str  # the application's
    index_type: str | None  # None: no ANN index on the vector column
    index_metric: str | None
    indexed_rows: int
    unindexed_rows: int
    plan: dict[str, Any] = field(default_factory=dict)
    layout: str = "plain"
    fts: tuple[FtsIndex, ...] = ()
    tables: tuple[IndexInfo, ...] = ()  # each of several tables that are audited as one; version is 0 then

    @property
    def pinned(self) -> dict[str, int]:
        """The version of each table that was read."""
        return {info.table: info.version for info in self.tables or (self,)}

    @property
    def why_exact(self) -> str | None:
        """Why no search of this table is approximate; None where an ANN index answers."""
        if self.plan.get("engine") == "exact":
            return str(self.plan["reason"])
        if self.index_type is None:
            return "every search is exact: no ANN index"
        if self.plan.get("index", True):
            return None
        if self.index_metric is not None and self.index_metric != self.metric:
            return f"every search is exact: the {self.index_type} index is for {self.index_metric}, not {self.metric}"
        return f"every search is exact: LanceDB leaves the {self.index_type} index out"


@dataclass(frozen=True)
class UnreadDates:
    """Values of a date column that were not understood: their rows have no date."""

    column: str
    rows: int
    of: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class SearchHits:
    """Answers of one batch of searches as row ordinals of the snapshot, (m, limit) int64, padded with -1.

    Rows are de-duplicated by chunk id in the order returned; ``returned`` (m,) counts the distinct ids. ``distances``
    (m, limit) are the store's own ``_distance``, NaN where padded, and ``beyond_cutoff`` (m,) counts the distinct ids
    that the search answered with and the score cut-off dropped; None where the search does not say.
    """

    rows: np.ndarray
    returned: np.ndarray
    distances: np.ndarray | None = None
    beyond_cutoff: np.ndarray | None = None


class SearchFunction(Protocol):
    """search(queries (m, d) float32, limit) -> SearchHits.

    ``filters`` (m,) object holds the filter of each query where it is filled from a row; a query whose filter is None
    is not sent. Without it the filter is the declared one.
    """

    def __call__(self, queries: np.ndarray, limit: int, filters: np.ndarray | None = None, /) -> SearchHits: ...


class VariantFunction(Protocol):
    """The search with one thing changed, by a name in ``index.search.VARIANTS``: (queries, limit, name, filters)."""

    def __call__(
        self, queries: np.ndarray, limit: int, name: str, filters: np.ndarray | None = None, /
    ) -> SearchHits: ...


RowsPassing = Callable[[list[str]], list[np.ndarray]]
"""rows(filters) -> ascending row ordinals that each of them lets through."""


@dataclass
class TableSnapshot:
    """The table's rows in table order beside their vectors.

    ``rows`` has the columns of ``schemas.CHUNKS`` that the table holds, always with chunk_id, text and batch;
    ``vectors`` is (n, d) float32 (a memory map where large), with unusable rows set to 0; ``vector_state`` is (n,)
    uint8 of the constants above. ``search`` is the application's search as declared in the settings and
    ``variant_search`` the same with one thing changed; None where there is no such search. ``passes_filter`` (n,) bool
    are the rows the declared filter lets through and ``filter_undecided`` those for which a null leaves it neither
    true nor false, which SQL drops; None without a filter. Where the filter names columns, ``row_filter`` fills it
    from a row, ``passes_filter`` is each row under its own filter, and ``rows_passing`` says what a filled one lets
    through; None otherwise. ``absent`` names the fields of
    ``config.CHUNK_COLUMNS`` that the table does not hold, ``nameless`` counts the rows whose id is null where it holds
    ids. ``rows`` may hold further fields, of ``index.embed_text`` and of the layout. ``zeros_meant`` says that the
    writer puts a zero vector where it has none on purpose. ``ann`` asks one query at a time through the ANN index under
    other settings; None where no ANN index answers.
    """

    rows: pa.Table
    vectors: np.ndarray
    vector_state: np.ndarray
    metric: str
    info: IndexInfo
    search: SearchFunction
    variant_search: VariantFunction | None = None
    passes_filter: np.ndarray | None = None
    filter_undecided: np.ndarray | None = None
    absent: tuple[str, ...] = ()
    unread_dates: UnreadDates | None = None
    nameless: int = 0
    zeros_meant: bool = False
    row_filter: RowFilter | None = None
    rows_passing: RowsPassing | None = None
    ann: AnnSearch | None = None

    @cached_property
    def searchable(self) -> np.ndarray:
        """(n,) bool: rows that a search under the metric can return. Zero vectors have no direction under cosine."""
        if self.metric == "cosine":
            return self.vector_state == USABLE
        return (self.vector_state == USABLE) | (self.vector_state == ZERO)

    @cached_property
    def chunk_ids(self) -> pa.Array:
        return self.rows["chunk_id"].combine_chunks()

    def row_of(self, chunk_ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """First row ordinal of each id, (len,) int64, -1 where the table has no such id."""
        found = pc.index_in(chunk_ids, value_set=self.chunk_ids)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)

    @cached_property
    def repeated_ids(self) -> pa.Array:
        """Ids that stand on more than one row."""
        counts = self.chunk_ids.value_counts()
        return counts.field("values").filter(pc.greater(counts.field("counts"), 1))
