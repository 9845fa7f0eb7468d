"""A managed index of small sources in a Dagster home of its own: made, brought in, read. No test stands here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import lancedb
import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration import workspaces
from audit_pipeline.orchestration.home import prepare_home
from audit_pipeline.settings_file import parse_settings

DAY, LATER = "2026-01-02", "2026-01-03"
SMALL_SAMPLE = {"arms": 0, "ann_sweep": 0, "total": 200}


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))
    prepare_home(tmp_path / "state")
    workspaces._WORKSPACES.clear()
    with dg.DagsterInstance.get() as kept:
        yield kept
    workspaces._WORKSPACES.clear()


def managed(folder: Path, encoder: Encoder, **more: Any) -> IndexAuditSettings:
    attributes = {
        "name": "managed",
        "sources": [{"name": "docs", "uri": "docs.jsonl", "format": "jsonl"}],
        "encoder": {"model": str(encoder.files.folder)},
        "sample": SMALL_SAMPLE,
    }
    workspaces._WORKSPACES.clear()  # each run is a process of its own
    return parse_settings(attributes | more, "test", folder)


def write(folder: Path, rows: dict[str, tuple[str, str | None]], name: str = "docs") -> None:
    """id -> (day, text) as the whole of one source's file."""
    lines = [json.dumps({"chunk_id": i, "ingestion_date": day, "text": text}) for i, (day, text) in rows.items()]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(folder: Path, name: str = "managed") -> dict[str, str]:
    rows = lancedb.connect(str(folder / "state" / "index" / f"{name}.lance")).open_table("chunks").to_arrow()
    return dict(zip(rows["chunk_id"].to_pylist(), rows["text"].to_pylist(), strict=True))


def passed(instance: dg.DagsterInstance, index: str, asset: str, check: str) -> dict[str | None, bool]:
    """Partition -> whether the check passed when it last ran there."""
    key = dg.AssetCheckKey(dg.AssetKey([index, asset]), check)
    history = instance.event_log_storage.get_asset_check_execution_history(key, limit=1000)
    return {record.partition: record.status.value == "SUCCEEDED" for record in reversed(history)}


def told(audit: dict[str, Any], *severities: str) -> list[tuple[str, dict[str, Any]]]:
    return [(one["code"], one["scope"]) for one in audit["findings"] if one["severity"] in severities]
