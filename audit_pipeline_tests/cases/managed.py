"""A managed index from a folder of rows, stage by stage as both jobs run them, without Dagster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb

from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages import changes, ingest
from audit_pipeline.stages.workspace import Workspace

BATCH_STAGES = (
    ingest.ingest_chunks,
    ingest.ingest_probes,
    ingest.ingest_passage_vectors,
    ingest.ingest_signatures,
    ingest.ingest_index_rows,
    ingest.check_batch_integrity,
    ingest.finish_batch,
)
DAY = "2026-01-02"
MOST_PASSES = 3


def bring_up_to_date(opened: Callable[[], Workspace]) -> list[changes.BatchChange]:
    """Ingest what is behind the store, as ticks do, each in a workspace of its own, until nothing is: the first of it.

    A batch that gives rows up before another takes them over is brought in once more afterwards.
    """
    first = None
    for _ in range(MOST_PASSES):
        workspace = opened()
        behind = changes.changed_batches(workspace)
        first = behind if first is None else first
        for change in behind:
            for stage in BATCH_STAGES:
                stage(workspace, change.key)
    assert changes.changed_batches(opened()) == []
    return first or []


def audited_managed(folder: Path, model: str, rows: list[tuple[str, str | None]], **settings: Any) -> dict[str, Any]:
    """audit.json after the batches that changed were brought up to date: (id, text) of each row, all of one day."""
    lines = [json.dumps({"chunk_id": chunk_id, "text": text}) for chunk_id, text in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    attributes = {
        "name": "managed",
        "sources": [{"name": "docs", "uri": "rows.jsonl", "format": "jsonl", "ingestion_date": DAY}],
        "encoder": {"model": model},
        "sample": {"arms": 0},
    }
    workspace = Workspace(parse_settings(attributes | settings, "test", folder), folder / "state")
    for change in changes.changed_batches(workspace):
        for stage in BATCH_STAGES:
            stage(workspace, change.key)
    for asset in CORPUS_ASSETS:
        asset.stage(workspace)
    return load(folder / "state", "managed").audit


def table_rows(folder: Path) -> dict[str, str]:
    """chunk_id -> text of the managed table."""
    table = lancedb.connect(str(folder / "state" / "index" / "managed.lance")).open_table("chunks").to_arrow()
    return dict(zip(table["chunk_id"].to_pylist(), table["text"].to_pylist(), strict=True))
