"""Building the ANN index of the managed table. What an index is like, of any table, is in vector_index.py."""

from __future__ import annotations

from typing import Any

from audit_pipeline.index.commits import KEEP_VERSIONS, with_retries
from audit_pipeline.index.connection import connect, open_table
from audit_pipeline.index.vector_index import vector_index_of
from audit_pipeline.index_settings import VectorIndexSettings


def build_vector_index(
    uri: str,
    table: str,
    settings: VectorIndexSettings,
    metric: str,
    *,
    storage_options: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Bring the ANN index of a managed table in line with the settings.

    Built from ``min_rows`` rows on, rebuilt where type or metric differ, otherwise optimised so that no row stays
    outside; dropped below ``min_rows`` or for type none, where the search is exact. Returns action, version, rows,
    index_type, metric, indexed_rows, unindexed_rows.
    """
    return with_retries(lambda: _build(uri, table, settings, metric, storage_options))


def _build(
    uri: str, name: str, settings: VectorIndexSettings, metric: str, storage_options: dict[str, str] | None
) -> dict[str, Any]:
    target = open_table(connect(uri, storage_options), name)
    rows = target.count_rows()
    index = vector_index_of(target, "vector")
    wanted = settings.type != "none" and rows >= settings.min_rows
    action = "none"
    if index is not None and not wanted:
        target.drop_index(index.name)
        action = "dropped"
    elif wanted and (index is None or index.type != settings.type or index.metric != metric):
        target.create_index("vector", config=_index_config(settings.type, metric), replace=True)
        action = "created"
    elif wanted and index is not None and index.unindexed_rows > 0:
        target.optimize(cleanup_older_than=KEEP_VERSIONS)
        action = "optimised"
    index = vector_index_of(target, "vector")
    return {
        "action": action,
        "version": target.version,
        "rows": rows,
        "index_type": index.type if index else None,
        "metric": index.metric if index else None,
        "indexed_rows": index.indexed_rows if index else 0,
        "unindexed_rows": index.unindexed_rows if index else rows,
    }


def _index_config(kind: str, metric: str) -> Any:
    from lancedb import index

    kinds = {
        "IVF_HNSW_SQ": index.HnswSq,
        "IVF_HNSW_PQ": index.HnswPq,
        "IVF_PQ": index.IvfPq,
        "IVF_FLAT": index.IvfFlat,
    }
    return kinds[kind](distance_type=metric)
