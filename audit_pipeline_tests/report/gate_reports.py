"""Report folders whose probe tables are made by hand: which questions were asked, and which were answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline import schemas

TABLES = {
    "self_retrieval": schemas.SELF_RETRIEVAL,
    "held_out_retrieval": schemas.HELD_OUT_RETRIEVAL,
    "labelled_retrieval": schemas.LABELLED_RETRIEVAL,
}


def table(schema: pa.Schema, columns: dict[str, Any], n: int) -> pa.Table:
    """A table of the schema's columns in which all that is not named is null."""
    arrays = {
        field.name: pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(n, field.type)
        for field in schema
    }
    return pa.table(arrays)


def hits(n: int, missed: int) -> np.ndarray:
    """(n,) bool, of which the first ``missed`` are misses."""
    return np.arange(n) >= missed


def write_report(
    folder: Path,
    *,
    own: np.ndarray,
    own_10: np.ndarray | None = None,
    held: np.ndarray | None = None,
    labelled: np.ndarray | None = None,
    cause: str = "ann_miss",
    findings: list[dict[str, Any]] | None = None,
    created_at: str = "2026-01-02T00:00:00+00:00",
    name: str = "handbook",
    chunks: int | None = None,
) -> Path:
    """A report folder; ``own``, ``held`` and ``labelled`` say of each question whether it was answered.

    Of how many ``chunks`` the corpus has, a report says nothing where that is None.
    """
    (folder / "tables").mkdir(parents=True)
    audit = {"name": name, "created_at": created_at, "encoder": {}, "index": {}, "findings": findings or []}
    if chunks is not None:
        audit |= {"corpus": {"chunks": chunks}, "self_retrieval": {"n": len(own)}}
    (folder / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    for run, schema in TABLES.items():
        answered = {"self_retrieval": own, "held_out_retrieval": held, "labelled_retrieval": labelled}[run]
        answered = np.zeros(0, bool) if answered is None else answered
        n = len(answered)
        ids = [f"{run[:4]}:{number:05d}" for number in range(n)]
        tenth = own_10 if run == "self_retrieval" and own_10 is not None else answered
        columns = {
            "probe_id": ids,
            "query_id": ids,
            "chunk_id": ids,
            "answer_id": ids,
            "text_sha256": ids,
            "hit_1": answered,
            "hit_10": tenth,
            "success_10": answered,
            "cause": [None if hit else cause for hit in answered],
            "eligible": [True] * n,
            "overlap": [False] * n,
            "held": ["middle"] * n,
            "n_words": [20] * n,
            "weight": [1.0] * n,
        }
        pq.write_table(table(schema, columns, n), folder / "tables" / f"{run}.parquet")
    return folder


def error(code: str = "missing_rows", scope: dict[str, Any] | None = None, message: str = "Rows are gone.") -> Any:
    return {"code": code, "severity": "error", "scope": scope or {}, "message": message, "remedy": "Ingest again."}
