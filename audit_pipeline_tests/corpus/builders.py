"""Small inputs of the corpus tests: settings of one or more sources, files of rows."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.columns import RAW
from audit_pipeline.corpus.store import SourceStore

TODAY = dt.date(2026, 6, 30)


def settings_of(
    *sources: dict[str, Any], grain: str = "day", index_uri: str = "somewhere", table: str = "t", timezone: str = "UTC"
) -> IndexAuditSettings:
    return IndexAuditSettings.model_validate(
        {
            "name": "t",
            "sources": list(sources),
            "ingestion_grain": grain,
            "timezone": timezone,
            "encoder": {"kind": "none"},
            "index": {"managed": False, "uri": index_uri, "table": table},
        }
    )


def store_of(*sources: dict[str, Any], start_date: dt.date | None = None, **settings: str) -> SourceStore:
    return SourceStore(settings_of(*sources, **settings), today=TODAY, start_date=start_date)


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def raw_rows(*rows: dict[str, Any]) -> pa.Table:
    """RAW rows with defaults: source s, 2026-01-02, file f, row by place."""
    filled = [
        {"row": place, "origin": "f", "source": "s", "ingestion_date": dt.date(2026, 1, 2), **row}
        for place, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(filled, schema=RAW)
