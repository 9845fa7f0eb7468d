"""Batches that a run left between two states of their source, and what the next run does about them.

Each case ends with the table as the store has it; where the defence is missing, rows are lost for ever.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.errors import AuditInputError
from audit_pipeline.stages import ingest
from audit_pipeline.stages.changes import changed_batches
from audit_pipeline.stages.grid import first_day
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.managed import BATCH_STAGES, bring_up_to_date
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.stages.builders import workspace, write_rows

DAY, NEXT = "2026-01-02", "2026-01-09"
A, B, A_NEXT = f"{DAY}|a", f"{DAY}|b", f"{NEXT}|a"
TEXTS = docstrings("rich", 8)
Row = tuple[str, str, str, str]
Open = Callable[..., Workspace]


def rows(source: str, numbers: range, day: str = DAY) -> list[Row]:
    return [(f"c{number}", source, day, TEXTS[number]) for number in numbers]


@pytest.fixture
def opened(tmp_path: Path, fast_encoder: Encoder) -> Open:
    def of_new_process(table: str = "chunks", **attributes: Any) -> Workspace:
        encoder, index = {"model": str(fast_encoder.files.folder)}, {"table": table}
        work = workspace(tmp_path, encoder=encoder, index=index, **attributes)
        work.__dict__["encoder"] = fast_encoder
        return work

    return of_new_process


def stages(work: Workspace, key: str, *, first: str = "ingest_chunks", last: str = "finish_batch") -> None:
    names = [stage.__name__ for stage in BATCH_STAGES]
    for stage in BATCH_STAGES[names.index(first) : names.index(last) + 1]:
        stage(work, key)


def run(opened: Open) -> list[tuple[str, str]]:
    """The batches that runs bring up to date at first, and why; nothing is left to do after them."""
    return [(change.key, change.reason) for change in bring_up_to_date(opened)]


def table(work: Workspace) -> dict[str, str]:
    held = lancedb.connect(work.index_uri).open_table("chunks").to_arrow().to_pylist()
    assert len({row["chunk_id"] for row in held}) == len(held)
    return {row["chunk_id"]: row["batch"] for row in held}


def of_store(store: list[Row]) -> dict[str, str]:
    return {row[0]: f"{row[2]}|{row[1]}" for row in store}


def test_the_check_of_a_batch_alone_says_nothing_of_rows_that_came_since(tmp_path: Path, opened: Open) -> None:
    write_rows(tmp_path, rows("a", range(3)))
    assert run(opened) == [(A, "new")]
    write_rows(tmp_path, rows("a", range(5)))
    stages(opened(), A, first="check_batch_integrity")
    manifest = opened().manifest(A)
    assert manifest is not None
    assert manifest.rows == 3
    assert run(opened) == [(A, "changed")]
    assert table(opened()) == of_store(rows("a", range(5)))


def test_chunks_that_were_never_written_to_the_table_are_not_declared_current(tmp_path: Path, opened: Open) -> None:
    write_rows(tmp_path, rows("a", range(3)))
    run(opened)
    write_rows(tmp_path, rows("a", range(5)))
    stages(opened(), A, last="ingest_signatures")
    with pytest.raises(AuditInputError, match=r"the table does not have batch 2026-01-02\|a as its chunks were last"):
        stages(opened(), A, first="check_batch_integrity")
    assert run(opened) == [(A, "changed")]
    assert table(opened()) == of_store(rows("a", range(5)))


def test_chunks_of_an_older_read_in_the_place_of_newer_ones_end_as_changed(tmp_path: Path, opened: Open) -> None:
    write_rows(tmp_path, rows("a", range(2)))
    run(opened)
    write_rows(tmp_path, rows("a", range(3)))
    older = opened()
    older.scan()
    older.store.read_batch(A)
    write_rows(tmp_path, rows("a", range(5)))
    newer = opened()
    stages(newer, A, last="ingest_chunks")
    stages(older, A, last="ingest_chunks")
    stages(newer, A, first="ingest_probes")
    manifest = opened().manifest(A)
    assert manifest is not None
    assert manifest.rows == len(table(opened())) == 3
    assert run(opened) == [(A, "changed")]
    assert table(opened()) == of_store(rows("a", range(5)))


def test_an_older_read_that_is_committed_amid_a_newer_one_fails_and_the_next_run_mends_it(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audit_pipeline.index import managed

    write_rows(tmp_path, rows("a", range(3)))
    older, newer = opened(), opened()
    stages(older, A, last="ingest_signatures")
    replace_batch, store = managed.replace_batch, rows("a", range(5))

    def after_the_newer(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(managed, "replace_batch", replace_batch)
        write_rows(tmp_path, store)
        stages(newer, A)
        return replace_batch(*arguments, **options)

    monkeypatch.setattr(managed, "replace_batch", after_the_newer)
    with pytest.raises(AuditInputError, match="was written by two runs at once"):
        stages(older, A, first="ingest_index_rows")
    assert len(table(opened())) == 3
    assert run(opened) == [(A, "unfinished")]
    assert table(opened()) == of_store(store)


def test_a_row_that_another_batch_took_over_comes_back_with_the_store(tmp_path: Path, opened: Open) -> None:
    store = rows("a", range(3)) + rows("b", range(3, 6))
    write_rows(tmp_path, store)
    run(opened)
    write_rows(tmp_path, rows("b", range(1)) + store[1:])
    stages(opened(), B)
    assert table(opened())["c0"] == B
    write_rows(tmp_path, store)
    assert run(opened) == [(A, "unfinished"), (B, "changed")]
    assert table(opened()) == of_store(store)


def test_rows_of_a_day_that_was_put_right_and_back_amid_a_run_are_not_lost(tmp_path: Path, opened: Open) -> None:
    right, wrong = rows("a", range(3)), rows("a", range(3), NEXT)
    write_rows(tmp_path, wrong)
    assert run(opened) == [(A_NEXT, "new")]
    write_rows(tmp_path, right)
    stages(opened(), A)
    write_rows(tmp_path, wrong)
    assert run(opened) == [(A, "emptied"), (A_NEXT, "unfinished")]
    assert table(opened()) == of_store(wrong)


@pytest.mark.parametrize("last", ["ingest_index_rows", "check_batch_integrity"])
@pytest.mark.parametrize("before", [[], rows("a", range(3))], ids=["a new batch", "a batch that was there"])
def test_a_run_that_dies_after_its_commit_is_undone_where_the_store_goes_back(
    before: list[Row], last: str, tmp_path: Path, opened: Open
) -> None:
    other = rows("b", range(6, 7))
    write_rows(tmp_path, before + other)
    run(opened)
    write_rows(tmp_path, rows("a", range(5)) + other)
    stages(opened(), A, last=last)
    assert len(table(opened())) == 6
    write_rows(tmp_path, before + other)
    assert run(opened) == [(A, "unfinished" if before else "emptied")]
    assert table(opened()) == of_store(before + other)


def test_rows_that_move_as_the_store_has_it_leave_nothing_to_do(tmp_path: Path, opened: Open) -> None:
    write_rows(tmp_path, rows("a", range(3)) + rows("b", range(3, 6)))
    run(opened)
    moved = rows("a", range(1, 3)) + rows("b", range(1)) + rows("b", range(3, 6))
    write_rows(tmp_path, moved)
    for key in (B, A):  # the batch that takes the row is first
        stages(opened(), key)
    assert changed_batches(opened()) == []
    assert table(opened()) == of_store(moved)
    assert list(opened().state.batches.glob("*/unsettled.json")) == []


def test_chunks_made_under_other_settings_are_not_written(tmp_path: Path, opened: Open) -> None:
    write_rows(tmp_path, rows("a", range(3)))
    stages(opened(), A, last="ingest_signatures")
    other = workspace(tmp_path, encoder=opened().settings.encoder.model_dump() | {"passage_prompt": "passage: "})
    with pytest.raises(AuditInputError, match="made under other settings: materialise 'chunks' again"):
        ingest.ingest_index_rows(other, A)


def test_a_table_that_is_gone_is_made_whole_though_the_run_that_makes_it_dies(tmp_path: Path, opened: Open) -> None:
    store = rows("a", range(2)) + rows("a", range(2, 4), NEXT) + rows("b", range(4, 6))
    write_rows(tmp_path, store)
    run(opened)
    shutil.rmtree(tmp_path / "state" / "index")
    stages(opened(), A)
    assert len(table(opened())) == 2
    assert run(opened) == [(B, "unfinished"), (A_NEXT, "unfinished")]
    assert table(opened()) == of_store(store)


def test_a_batch_that_was_emptied_while_the_settings_named_another_table_is_emptied_in_this_one_too(
    tmp_path: Path, opened: Open
) -> None:
    store = rows("a", range(2)) + rows("b", range(4, 6))
    write_rows(tmp_path, store)
    run(opened)
    assert run(lambda: opened(table="other")) == [(A, "resettled"), (B, "resettled")]
    write_rows(tmp_path, store[:2])
    assert run(lambda: opened(table="other")) == [(B, "emptied")]
    state = opened().state
    assert first_day(opened(start_date=NEXT, table="other").settings, state) == dt.date.fromisoformat(DAY)
    assert run(opened) == [(A, "resettled"), (B, "emptied")]
    assert table(opened()) == of_store(store[:2])
    assert run(opened) == []
