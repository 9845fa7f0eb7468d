"""Tiny audited tables made from arrays, with a search that can be made to lose rows on purpose."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.index.snapshot import USABLE, IndexInfo, SearchHits, TableSnapshot

DAY = dt.date(2026, 1, 2)


def settings(**parts: Any) -> IndexAuditSettings:
    index = {"managed": False, "uri": "memory", "table": "t"} | parts.pop("index", {})
    return IndexAuditSettings.model_validate({"name": "tiny", "encoder": {"kind": "none"}, "index": index, **parts})


def chunk_table(
    ids: Sequence[str],
    texts: Sequence[str],
    sources: Sequence[str] | None = None,
    dates: Sequence[dt.date] | None = None,
) -> pa.Table:
    sources = sources or ["a"] * len(ids)
    dates = dates or [DAY] * len(ids)
    rows = [
        {
            "chunk_id": chunk_id,
            "source": source,
            "ingestion_date": date,
            "batch": f"{date}|{source}",
            "text": text,
            "text_sha256": "0" * 64,
            "n_words": len(text.split()),
            "n_tokens": None,
        }
        for chunk_id, text, source, date in zip(ids, texts, sources, dates, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.CHUNKS)


def snapshot(
    rows: pa.Table,
    vectors: np.ndarray,
    *,
    metric: str = "cosine",
    state: np.ndarray | None = None,
    lose: Callable[[int, int], bool] | None = None,
    variant_search: Any = None,
    passes_filter: np.ndarray | None = None,
    **info: Any,
) -> TableSnapshot:
    """A snapshot whose search is exact, except for the (query, row) pairs that ``lose`` says are lost."""
    vectors = np.asarray(vectors, np.float32)
    state = np.full(len(vectors), USABLE, np.uint8) if state is None else state
    about = {"uri": "memory", "table": "t", "version": 1, "rows": len(vectors), "dimension": vectors.shape[1]}
    about |= {"metric": metric, "index_type": None, "index_metric": None, "indexed_rows": 0, "unindexed_rows": 0}
    made = TableSnapshot(
        rows,
        vectors,
        state,
        metric,
        IndexInfo(**(about | info)),
        lambda queries, limit: _search(made, queries, limit, lose),
        variant_search,
        passes_filter,
    )
    return made


def full_search(made: TableSnapshot) -> Callable[[np.ndarray, int], SearchHits]:
    return lambda queries, limit: _search(made, queries, limit, None)


def _search(
    made: TableSnapshot, queries: np.ndarray, limit: int, lose: Callable[[int, int], bool] | None
) -> SearchHits:
    exact = ExactSearch(made.vectors, made.searchable, made.metric)
    ids = made.chunk_ids.to_pylist()
    rows = np.full((len(queries), limit), -1, np.int64)
    returned = np.zeros(len(queries), np.int64)
    best = exact.ranks(queries, None, max(len(ids), 1)).top_rows
    for query in range(len(queries)):
        seen: list[int] = []
        for row in best[query]:
            lost = lose is not None and lose(query, int(row))
            if row >= 0 and not lost and ids[row] not in {ids[other] for other in seen} and len(seen) < limit:
                seen.append(int(row))
        rows[query, : len(seen)] = seen
        returned[query] = len(seen)
    return SearchHits(rows, returned)


def plan(rows: pa.Table, stratum_chunks: int | None = None) -> pa.Table:
    """Every row a probe, in one stratum; a census unless the stratum is said to hold more."""
    n = rows.num_rows
    chunks = n if stratum_chunks is None else stratum_chunks
    columns = {
        "length_band": pa.array(["0-39"] * n, pa.string()),
        "stratum": pa.array(["all"] * n, pa.string()),
        "stratum_chunks": pa.array([chunks] * n, pa.int64()),
        "stratum_probes": pa.array([n] * n, pa.int64()),
        "weight": pa.array([chunks / max(n, 1)] * n, pa.float64()),
    }
    return pa.table(
        [
            columns.get(field.name, rows[field.name] if field.name in rows.column_names else None)
            for field in schemas.PROBE_PLAN
        ],
        schema=schemas.PROBE_PLAN,
    )


def on_circle(*degrees: float) -> np.ndarray:
    """Unit vectors in the plane: cosines are those of the differences of the angles."""
    angles = np.deg2rad(degrees)
    return np.stack((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32)


def axes(n: int) -> np.ndarray:
    """n orthogonal unit vectors."""
    return np.eye(n, dtype=np.float32)


def column(table: pa.Table, name: str, key: str = "chunk_id") -> dict[str, Any]:
    return dict(zip(table[key].to_pylist(), table[name].to_pylist(), strict=True))
