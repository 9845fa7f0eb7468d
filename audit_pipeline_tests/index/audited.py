"""A small table audited against a store, for tests of findings about rows and the index."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.findings import Finding
from audit_pipeline.index.integrity import check_corpus
from audit_pipeline.results import StageResult
from audit_pipeline_tests.index.builders import (
    DAY,
    as_it_stands,
    audit_settings,
    chunks,
    foreign,
    snapshot_of,
    unit_vectors,
)

D1, D2 = DAY, DAY + dt.timedelta(days=1)
IDS = [f"c{n}" for n in range(8)]
NO_REJECTED = schemas.REJECTED_CHUNKS.empty_table()


def audited(
    folder: Path,
    store: pa.Table | None,
    rejected: pa.Table | None = NO_REJECTED,
    sources: tuple[str, ...] = ("a", "b"),
    max_tokens: int | None = 256,
    **settings: Any,
) -> StageResult:
    """The integrity of the table docs in folder/db against a store."""
    snapshot = snapshot_of(folder / "db", folder / "work", **settings)
    index = as_it_stands(folder / "db", **settings)
    return check_corpus(snapshot, store, rejected, max_tokens, audit_settings(index, sources))


def told(result: StageResult, code: str) -> list[Finding]:
    return [finding for finding in result.findings if finding.code == code]


def codes(result: StageResult) -> set[str]:
    return {finding.code for finding in result.findings}


def four_cells(n: int = 2) -> pa.Table:
    """n rows in each of the cells (a, D1), (a, D2), (b, D1), (b, D2), ids like a1-0."""
    parts = [
        chunks([f"{source}{number}-{i}" for i in range(n)], source, day)
        for source in ("a", "b")
        for number, day in ((1, D1), (2, D2))
    ]
    return pa.concat_tables(parts)


def stored_as(store: pa.Table, vectors: np.ndarray | None = None) -> pa.Table:
    """The table that a faithful writer makes of a store."""
    made = foreign(
        store["chunk_id"].to_pylist(),
        unit_vectors(store.num_rows) if vectors is None else vectors,
        source=store["source"],
        ingestion_date=store["ingestion_date"],
    )
    return made.set_column(1, "text", store["text"])


def edited(table: pa.Table, texts: dict[str, str]) -> pa.Table:
    pairs = zip(table["chunk_id"].to_pylist(), table["text"].to_pylist(), strict=True)
    return table.set_column(1, "text", pa.array([texts.get(name, text) for name, text in pairs]))
