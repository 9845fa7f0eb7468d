"""A table as it stands, written from rows and vectors that a test has spoilt, and its whole audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.encoder.planted import DAYS, SOURCES, docstrings

PER_CELL = 8
CELLS = [(source, day) for source in SOURCES for day in DAYS]
ROWS = PER_CELL * len(CELLS)


def vector_column(vectors: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float32).reshape(-1)), vectors.shape[1])


def rows_of_cells(texts: list[str], **more: Any) -> pa.Table:
    """The texts in two sources on three days, eight of them each."""
    cells = [CELLS[i // PER_CELL] for i in range(ROWS)]
    columns = {
        "chunk_id": [f"c{i:03}" for i in range(ROWS)],
        "text": texts,
        "source": [source for source, _ in cells],
        "ingestion_date": [day for _, day in cells],
    }
    return pa.table(columns | more)


def in_cell(source: str, day: str) -> np.ndarray:
    """(ROWS,) bool: the rows of one batch."""
    return np.repeat([cell == (source, day) for cell in CELLS], PER_CELL)


def long_and_short_texts() -> list[str]:
    """In each batch four texts of one docstring and four of nine, about 200 words."""
    parts = docstrings("rich", 136)
    rng = np.random.default_rng(0)
    texts = []
    for i in range(ROWS):
        some = parts[i : i + 1] if i % 2 else rng.choice(parts, 9, replace=False).tolist()
        texts.append("\n".join(some))
    assert len(set(texts)) == ROWS
    return texts


def audited(folder: Path, table: pa.Table, store: pa.Table | None, encoder: dict[str, Any], **more: Any) -> Any:
    """audit.json of a table (all of its columns, with its vectors) against a store of rows; as ``audited_again``."""
    lancedb.connect(str(folder / "db")).create_table("docs", table, on_bad_vectors="null")
    return audited_again(folder, store, encoder, **more)


def audited_again(
    folder: Path, store: pa.Table | None, encoder: dict[str, Any], *, whole: bool = True, **more: Any
) -> Any:
    """audit.json of the table ``docs`` below a folder as it is now.

    Without ``whole`` only its findings, roles and encoder, and only from the stages that look at rows and vectors.
    """
    index = {"uri": "db", "table": "docs", "managed": False} | more.pop("index", {})
    more["sample"] = {"arms": 0, "ann_sweep": 0} | more.get("sample", {})
    attributes: dict[str, Any] = {"name": "planted", "encoder": encoder, "index": index, **more}
    if store is not None:
        pq.write_table(store, folder / "store.parquet")
        attributes["sources"] = [{"name": "*", "uri": "store.parquet", "format": "parquet"}]
    workspace = Workspace(parse_settings(attributes, "test", folder), folder / "state")
    stages = [asset.stage for asset in CORPUS_ASSETS]
    for stage in stages if whole else stages[:3]:
        stage(workspace)
    if whole:
        return load(folder / "state", "planted").audit
    found = [finding.as_dict() for stage in stages[:3] for finding in workspace.findings(stage.__name__)]
    summary = workspace.summary("role_fingerprint")
    return {"findings": found, "roles": summary["roles"], "encoder": summary}


def findings(audit: dict[str, Any], *codes: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(code, severity, scope) of the findings of these codes."""
    return [(f["code"], f["severity"], f["scope"]) for f in audit["findings"] if f["code"] in codes]


def errors(audit: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f["code"], f["scope"]) for f in audit["findings"] if f["severity"] == "error"]


def finding(audit: dict[str, Any], code: str) -> dict[str, Any]:
    """The only finding of a code."""
    (found,) = [f for f in audit["findings"] if f["code"] == code]
    return found
