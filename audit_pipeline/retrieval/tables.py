"""The Arrow tables of the runs: columns in schema order, rankings and judgements. No figure is computed here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.retrieval.ranking import Identities

PROBE_COLUMNS = (
    "source",
    "ingestion_date",
    "batch",
    "length_band",
    "n_tokens",
    "stratum",
    "stratum_chunks",
    "weight",
    "text_sha256",
    "n_words",
)
"""Columns that a run's table takes over from the probe plan."""


def as_schema(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """A table of exactly the schema's columns, cast to its types."""
    return pa.table(
        [pa.chunked_array(_chunked(columns[field.name])).cast(field.type) for field in schema], schema=schema
    )


def retrieved_table(
    run: str, query_ids: pa.Array, rows: np.ndarray, queries: np.ndarray, exact: ExactSearch, identities: Identities
) -> pa.Table:
    """The rankings as they came, (m, limit) rows, with exact scores; rows without a score are left out."""
    scores = exact.scores(queries, rows)
    query, rank = np.nonzero((rows >= 0) & ~np.isnan(scores))
    columns = {
        "run": pa.array([run] * len(query), pa.string()),
        "query_id": query_ids.take(pa.array(query)),
        "rank": pa.array(rank + 1, pa.int32()),
        "chunk_id": identities.ids_of(rows[query, rank]),
        "score": pa.array(scores[query, rank]),
    }
    return as_schema(columns, schemas.RETRIEVED).sort_by([("query_id", "ascending"), ("rank", "ascending")])


def qrels_table(run: str, query_ids: pa.Array, chunk_ids: pa.Array | pa.ChunkedArray) -> pa.Table:
    """One relevant chunk per query."""
    columns = {
        "run": pa.array([run] * len(query_ids), pa.string()),
        "query_id": query_ids,
        "chunk_id": chunk_ids,
        "relevance": pa.array(np.ones(len(query_ids), np.int32)),
    }
    return as_schema(columns, schemas.QRELS).sort_by("query_id")


def booleans(column: pa.ChunkedArray) -> np.ndarray:
    """A boolean column without nulls as (n,) bool."""
    return column.to_numpy(zero_copy_only=False).astype(bool)


def _chunked(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    if not isinstance(column, pa.ChunkedArray):
        return [column]
    return column.chunks or [pa.array([], column.type)]
