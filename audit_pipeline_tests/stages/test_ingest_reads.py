"""What an ingest reads of the source store. What becomes of the rows is not tested here."""

from __future__ import annotations

import json
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from audit_pipeline.corpus import store as source_store
from audit_pipeline.source_settings import SourceSettings
from audit_pipeline.stages.ingest import generation_of, ingest_chunks, pending_folder, pending_generation
from audit_pipeline.state import read_table
from audit_pipeline_tests.stages.builders import workspace

KEY = "2026-01-02|a"


def write(folder: Path, text: str) -> None:
    row = {"chunk_id": "1", "ingestion_date": "2026-01-02", "text": text}
    (folder / "a.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")


def test_rows_and_content_hash_of_a_batch_are_of_one_read_even_while_its_file_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes = {"sources": [{"name": "a", "uri": "a.jsonl", "format": "jsonl"}]}
    write(tmp_path, "before")
    old = workspace(tmp_path, **attributes)
    generation = generation_of(old, old.scan().batches[KEY])
    read_entry, reads = source_store.read_entry, []

    def rewritten_afterwards(entry: SourceSettings, zone: ZoneInfo) -> list[pa.Table]:
        rows = read_entry(entry, zone)
        reads.append(entry.name)
        write(tmp_path, f"after read {len(reads)}")
        return rows

    monkeypatch.setattr(source_store, "read_entry", rewritten_afterwards)
    work = workspace(tmp_path, **attributes)
    assert ingest_chunks(work, KEY) == {"rows": 1, "rejected": 0}
    assert reads == ["a"]
    assert pending_generation(work, KEY) == generation
    assert read_table(pending_folder(work, KEY) / "chunks.parquet")["text"].to_pylist() == ["before"]
