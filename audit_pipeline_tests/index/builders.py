"""Small LanceDB tables for tests: rows with plain texts and random unit vectors, as managed or foreign tables."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import batch_key, slug
from audit_pipeline.corpus.text import count_words, sha256_hex
from audit_pipeline.index.reading import open_snapshot
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.index_settings import IndexSettings

DAY = dt.date(2026, 1, 2)


def unit_vectors(n: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def chunks(ids: list[str], source: str | None = "a", day: dt.date = DAY, texts: list[str] | None = None) -> pa.Table:
    """Rows of schemas.CHUNKS in one batch."""
    text = pa.array(texts if texts is not None else [f"text of {name}" for name in ids], pa.string())
    n = len(ids)
    return pa.table(
        {
            "chunk_id": pa.array(ids, pa.string()),
            "source": pa.array([source] * n, pa.string()),
            "ingestion_date": pa.array([day] * n, pa.date32()),
            "batch": pa.array([batch_key(day, slug(source))] * n, pa.string()),
            "doc_id": pa.nulls(n, pa.string()),
            "heading": pa.nulls(n, pa.string()),
            "position": pa.nulls(n, pa.int32()),
            "text": text,
            "text_sha256": sha256_hex(text),
            "n_words": count_words(text),
            "n_tokens": pa.array([5] * n, pa.int32()),
        },
        schema=schemas.CHUNKS,
    )


def lists(vectors: np.ndarray, kind: Any = np.float32) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(kind).ravel()), vectors.shape[1])


def foreign(ids: list[str], vectors: np.ndarray, **columns: Any) -> pa.Table:
    """A table as something else would write it: chunk_id, text, vector, and what is named."""
    return pa.table({"chunk_id": ids, "text": [f"text of {name}" for name in ids], **columns, "vector": lists(vectors)})


def write(uri: Path, table: pa.Table, name: str = "docs", **options: Any) -> Any:
    import lancedb

    return lancedb.connect(str(uri)).create_table(name, table, **options)


def as_it_stands(uri: Path, **settings: Any) -> IndexSettings:
    return IndexSettings.model_validate({"uri": str(uri), "table": "docs", "managed": False, **settings})


def snapshot_of(uri: Path, work: Path, version: int | None = None, **settings: Any) -> TableSnapshot:
    return open_snapshot(as_it_stands(uri, **settings), str(uri), work, undated=DAY, version=version)


def audit_settings(index: IndexSettings, sources: tuple[str, ...] = ()) -> IndexAuditSettings:
    return IndexAuditSettings.model_validate(
        {
            "name": "test",
            "encoder": {"kind": "none"},
            "index": index.model_dump(),
            "sources": [{"name": name, "uri": "x", "format": "jsonl"} for name in sources],
        }
    )
