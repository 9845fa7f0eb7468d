"""Rows whose date can be used no more belong to no batch: the batch that held them may not lose them by that."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.stages import ingest
from audit_pipeline.stages.batches import rows_that_would_vanish
from audit_pipeline.stages.changes import changed_batches
from audit_pipeline.stages.ingest import ingest_chunks, pending_manifest
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.stages.builders import workspace, write_rows

DAY, LATER = "2026-01-02", "2026-01-05"
KEY = f"{DAY}|a"
ROWS = [("a1", "a", DAY, "one"), ("a2", "a", DAY, "two"), ("a3", "a", DAY, "three"), ("b1", "b", DAY, "four")]
NO_DAY = "02/01/2026"  # the second of January, or the first of February


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of an ingest of all of ROWS are; no encoder is asked for, so no token is counted."""
    monkeypatch.setattr(ingest, "with_tokens", lambda work, chunks: chunks)
    write_rows(tmp_path, ROWS)
    for change in changed_batches(workspace(tmp_path)):
        finish(tmp_path, change.key)
    return tmp_path


def finish(folder: Path, key: str) -> None:
    work = workspace(folder)
    ingest_chunks(work, key)
    work.write_manifest(pending_manifest(work, key))


def brought_in(folder: Path, key: str = KEY, **attributes: Any) -> dict[str, int]:
    """What the guard says of the batch as the store has it now."""
    work = workspace(folder, **attributes)
    ingest_chunks(work, key)
    return rows_that_would_vanish(work, key)


def test_a_batch_whose_dates_are_written_another_way_is_not_emptied(folder: Path) -> None:
    write_rows(folder, [*((i, source, NO_DAY, text) for i, source, _, text in ROWS[:3]), ROWS[3]])
    assert brought_in(folder) == {"rows_without_a_day": 3, "rows_in_table": 3}
    assert brought_in(folder, f"{DAY}|b") == {}


def test_a_batch_does_not_lose_the_one_row_whose_date_cannot_be_used(folder: Path) -> None:
    write_rows(folder, [("a1", "a", NO_DAY, "one"), *ROWS[1:]])
    assert brought_in(folder)["rows_without_a_day"] == 1


def test_rows_that_the_store_holds_no_more_may_go_whatever_else_has_no_date(folder: Path) -> None:
    other = ("a9", "a", NO_DAY, "never held")
    write_rows(folder, [*ROWS[1:], other])
    assert brought_in(folder) == {}
    write_rows(folder, [ROWS[3], other])
    assert brought_in(folder) == {}


def test_rows_that_stand_in_another_batch_have_moved_though_a_copy_has_no_date(folder: Path) -> None:
    moved = [(i, source, LATER, text) for i, source, _, text in ROWS[:3]]
    write_rows(folder, [*moved, ROWS[3], ("a1", "a", NO_DAY, "one")])
    assert brought_in(folder) == {}


def test_rows_before_a_start_date_are_left_out_as_the_settings_say(folder: Path) -> None:
    assert brought_in(folder, start_date="2026-01-03") == {}


def test_rows_with_neither_id_nor_date_may_be_all_that_an_emptied_batch_held(folder: Path) -> None:
    def write(nameless: int, source: str = "a") -> None:
        lines = [
            {"source": source, "ingestion_date": NO_DAY, "text": f"row {n}", "chunk_id": ""} for n in range(nameless)
        ]
        last = dict(zip(("chunk_id", "source", "ingestion_date", "text"), ROWS[3], strict=True))
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, [*lines, last])) + "\n", encoding="utf-8")

    write(3)
    assert brought_in(folder)["rows_without_a_day"] == 3
    write(2)  # too few to be the batch's three
    assert brought_in(folder) == {}
    write(3, "b")
    assert brought_in(folder) == {}


def test_a_batch_dated_after_today_is_left_as_it_is_until_its_day_comes(folder: Path) -> None:
    settings = workspace(folder).settings
    before = Workspace(settings, folder / "state", today=dt.date(2026, 1, 1))
    assert changed_batches(before) == []
    write_rows(folder, [ROWS[3]])
    assert changed_batches(before) == []
    assert (KEY, "emptied") in [(one.key, one.reason) for one in changed_batches(workspace(folder))]


def test_a_batch_whose_ids_all_stand_in_an_earlier_batch_may_be_emptied(folder: Path) -> None:
    earlier = [(i, "b", "2026-01-01", text) for i, _, _, text in ROWS[:3]]
    write_rows(folder, [*ROWS, *earlier])
    finish(folder, "2026-01-01|b")
    assert brought_in(folder) == {}
    assert pending_manifest(workspace(folder), KEY).rows == 0
    blank = [(i, source, day, "  ") for i, source, day, _ in ROWS[2:3]]
    write_rows(folder, [*ROWS[:2], *blank, ROWS[3], *earlier[:2]])
    assert brought_in(folder) == {"rejected": 1, "rows_in_table": 3}  # the third one would be lost


def test_a_batch_whose_rows_are_gone_but_for_one_that_an_earlier_batch_has_may_be_emptied(folder: Path) -> None:
    earlier = ("a1", "b", "2026-01-01", "one")
    write_rows(folder, [ROWS[0], ROWS[3], earlier])
    finish(folder, "2026-01-01|b")
    assert brought_in(folder) == {}
    assert pending_manifest(workspace(folder), KEY).rejected == 1
    stranger = ("b1", "a", DAY, "an id that the batch never had, as after a change of the column")
    write_rows(folder, [stranger, ROWS[3], earlier, ("b1", "b", "2026-01-01", "four")])
    assert brought_in(folder) == {"rejected": 1, "rows_in_table": 3}


def test_a_row_that_is_kept_for_another_batch_does_not_hide_that_no_other_can_be_used(folder: Path) -> None:
    blank = [(i, source, day, "  ") for i, source, day, _ in ROWS[1:3]]
    write_rows(folder, [("a1", "a", LATER, "one"), *blank, ROWS[3]])  # the batch of a1 has yet to come in
    assert brought_in(folder) == {"rejected": 2, "rows_in_table": 3}
    assert pending_manifest(workspace(folder), KEY).rows == 1
