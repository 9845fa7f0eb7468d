"""One look at an index as it stands after the other: when its audit is asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import lancedb
import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline.stages.table_look import look_at_table
from audit_pipeline_tests.stages.builders import as_it_stands
from audit_pipeline_tests.stages.test_discovery import DAYS, store, write

__all__ = ["store"]


def test_a_new_version_of_a_table_is_audited_once_it_is_left_alone(tmp_path: Path) -> None:
    table = lancedb.connect(str(tmp_path / "db")).create_table("docs", [{"text": "one", "vector": [1.0, 0.0]}])
    cursor, keys = None, []
    for step in ("look", "look", "look", "write", "write", "look", "look", "look"):
        if step == "write":
            table.add([{"text": "two", "vector": [0.0, 1.0]}])
        found = look_at_table(as_it_stands(tmp_path), cursor)
        cursor = found.cursor
        keys.append(found.run_key)
    assert [key is not None for key in keys] == [False, True, False, False, False, True, False, False]
    assert keys[1] != keys[5]
    assert found.notes == ["no change since the last audit: docs at version 3"]


def test_a_table_that_was_dropped_and_made_again_is_another_at_the_same_version(tmp_path: Path) -> None:
    cursor, keys = None, []
    for vector in ([1.0, 0.0], None, None, [0.0, 1.0], None, None):  # as many rows and bytes
        if vector is not None:
            shutil.rmtree(tmp_path / "db", ignore_errors=True)
            database = lancedb.connect(str(tmp_path / "db"))
            assert database.create_table("docs", [{"text": "one", "vector": vector}]).version == 1
        found = look_at_table(as_it_stands(tmp_path), cursor)
        cursor = found.cursor
        keys.append(found.run_key is not None)
    assert keys == [False, True, False, False, True, False]


def test_a_table_that_is_written_all_day_is_audited_after_thirty_looks_and_then_again(tmp_path: Path) -> None:
    table = lancedb.connect(str(tmp_path / "db")).create_table("docs", [{"text": "one", "vector": [1.0, 0.0]}])
    cursor, asked_at = None, []
    for look in range(1, 64):
        table.add([{"text": f"at look {look}", "vector": [1.0, 0.0]}])
        found = look_at_table(as_it_stands(tmp_path), cursor)
        cursor = found.cursor
        if found.run_key:
            asked_at.append(look)
    assert asked_at == [30, 60]


def test_a_changed_source_store_has_the_table_audited_too(store: Path) -> None:
    lancedb.connect(str(store / "db")).create_table("docs", [{"chunk_id": "x", "text": "one", "vector": [1.0, 0.0]}])
    sources = [{"name": "a", "uri": "a.jsonl", "format": "jsonl"}]
    cursor, keys = None, []
    for changed in (False, False, False, True, False, False):
        if changed:
            write(store, "a", {DAYS[0]: "another text"})
        found = look_at_table(as_it_stands(store, sources=sources), cursor)
        cursor = found.cursor
        keys.append(found.run_key is not None)
    assert keys == [False, True, False, False, True, False]
    (store / "a.jsonl").write_text("{broken\n", encoding="utf-8")
    with pytest.raises(AuditInputError, match=r"a\.jsonl"):
        look_at_table(as_it_stands(store, sources=sources), cursor)
