"""Snapshots of tables made of documents: rows in table order with document, position, date and text. No vectors."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.corpus.text import count_words, sha256_hex
from audit_pipeline.index.snapshot import TableSnapshot

WORDS = [f"word{number}" for number in range(3000)]


@dataclass(frozen=True)
class Row:
    doc: str | None
    position: int | None
    text: str
    date: dt.date | None = None
    source: str = "a"


def prose(seed: str, n_words: int = 40) -> str:
    """Text of its own for each seed: two of them share hardly a word."""
    return " ".join(random.Random(seed).choices(WORDS, k=n_words))


def page(doc: str, chunks: int = 5, version: str = "", **fields: Any) -> list[Row]:
    """A document of several chunks; another ``version`` has other last words in each of them."""
    return [Row(doc, i, f"{prose(f'{doc}/{i}')} {version}".strip(), **fields) for i in range(chunks)]


def corpus(documents: int = 20, chunks: int = 5, **fields: Any) -> list[Row]:
    return [row for number in range(documents) for row in page(f"doc-{number:02}", chunks, **fields)]


def without_positions(rows: list[Row]) -> list[Row]:
    return [Row(row.doc, None, row.text, row.date, row.source) for row in rows]


def snapshot(rows: list[Row], ids: list[str] | None = None) -> TableSnapshot:
    """A snapshot of these rows, whose ids are row-0000 and so on; vectors, index and search are of no matter."""
    n = len(rows)
    text = pa.array([row.text for row in rows], pa.string())
    fields = {
        "chunk_id": pa.array(ids or [f"row-{number:04}" for number in range(n)]),
        "source": pa.array([row.source for row in rows], pa.string()),
        "ingestion_date": pa.array([row.date for row in rows], pa.date32()),
        "batch": pa.array([f"{row.date or dt.date(2026, 1, 1)}|{row.source}" for row in rows]),
        "doc_id": pa.array([row.doc for row in rows], pa.string()),
        "heading": pa.nulls(n, pa.string()),
        "position": pa.array([row.position for row in rows], pa.int32()),
        "text": text,
        "text_sha256": sha256_hex(text),
        "n_words": count_words(text),
        "n_tokens": pa.nulls(n, pa.int32()),
    }
    table = pa.table([fields[name] for name in schemas.CHUNKS.names], schema=schemas.CHUNKS)
    nothing: Any = None
    return TableSnapshot(table, np.zeros((n, 1), np.float32), np.zeros(n, np.uint8), "cosine", nothing, nothing)
