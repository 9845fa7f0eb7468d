"""The Arrow tables of the runs: columns in schema order, rankings and judgements. No figure is computed here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.retrieval.ranking import NONE, Identities, Ranking, nullable

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


def rank_columns(
    ranking: Ranking, others: tuple[np.ndarray, np.ndarray], identities: Identities
) -> dict[str, pa.Array]:
    """The columns of exact ranks and scores, (m,) each, null where there is none.

    ``others`` are (m,) row and (m,) score of the best row that is no answer.
    """
    other_row, other_score = others
    return {
        "rank_min": nullable(ranking.rank_min, pa.int32()),
        "rank_max": nullable(ranking.rank_max, pa.int32()),
        "score": nullable(ranking.score, pa.float64()),
        "best_other_score": nullable(other_score, pa.float64()),
        "best_other_id": identities.ids_of(other_row),
        "haystack": pa.array(ranking.haystacks),
    }


def retrieved_table(
    run: str, query_ids: pa.Array, rows: np.ndarray, queries: np.ndarray, exact: ExactSearch, identities: Identities
) -> pa.Table:
    """The rankings as they came, (m, limit) rows, with exact scores; rows without a score are left out."""
    scores = exact.scores(queries, rows)
    return retrieved_with_scores(run, query_ids, np.where(np.isnan(scores), NONE, rows), scores, identities)


def retrieved_with_scores(
    run: str, query_ids: pa.Array, rows: np.ndarray, scores: np.ndarray, identities: Identities
) -> pa.Table:
    """The rankings of these rows, (m, limit) with their scores alike; -1 is left out."""
    query, rank = np.nonzero(rows >= 0)
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
