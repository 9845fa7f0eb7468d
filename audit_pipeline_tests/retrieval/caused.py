"""The causes that self-retrieval gives in a world of four rows, for tests of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.retrieval.self_retrieval import run_self_retrieval
from audit_pipeline_tests.retrieval.worlds import (
    chunk_table,
    column,
    plan,
    settings,
)

IDS = ["a", "b", "c", "d"]


TEXTS = [
    "how to open a valve",
    "seasons of the northern sea",
    "a ledger of unpaid invoices",
    "four notes for a small choir",
]


def rows(texts: list[str] = TEXTS, ids: list[str] = IDS) -> pa.Table:
    return chunk_table(ids, texts)


def causes_of(
    made: TableSnapshot, queries: np.ndarray, store: pa.Table | None = None, **options: Any
) -> dict[str, Any]:
    store = rows() if store is None else store
    if "fidelity" in options:
        judged = options.pop("fidelity")
        options["fidelity"] = lambda missed: judged
    result = run_self_retrieval(
        made,
        options.pop("plan", plan(store)),
        queries,
        store,
        options.pop("with_settings", settings()),
        **options,
    )
    causes = column(result.tables["self_retrieval"], "cause")
    notes = column(result.tables["self_retrieval"], "evidence")
    return {key: (cause, json.loads(notes[key])) for key, cause in causes.items() if cause is not None}


def one(found: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    ((chunk_id, (cause, evidence)),) = found.items()
    return chunk_id, cause, evidence
