"""A retired source keeps its rows, also where another source brings their ids, and where the table is made anew."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.stages.changes import BatchChange, changed_batches
from audit_pipeline.stages.forecast import forecast
from audit_pipeline.stages.ingest import integrity_faults
from audit_pipeline.stages.sources import batches_of_source
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.managed import BATCH_STAGES, bring_up_to_date
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.stages.builders import workspace

A, B = "2026-01-02|a", "2026-01-03|b"
TEXTS = docstrings("rich", 6)
ENDED = [{"name": "a", "uri": "a.jsonl", "format": "jsonl"}, {"name": "b", "uri": "b.jsonl", "format": "jsonl"}]
Run = Callable[..., tuple[Workspace, list[tuple[str, str]]]]
Open = Callable[..., Workspace]


def write(folder: Path, key: str, numbers: range) -> None:
    day, source = key.split("|")
    rows = [{"chunk_id": f"c{number}", "ingestion_date": day, "text": TEXTS[number]} for number in numbers]
    (folder / f"{source}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def retired() -> list[dict[str, Any]]:
    return [ENDED[0] | {"retired": True}, ENDED[1]]


@pytest.fixture
def opened(tmp_path: Path, fast_encoder: Encoder) -> Open:
    def of_new_process(sources: list[dict[str, Any]], prompt: str = "", **attributes: Any) -> Workspace:
        encoder = {"model": str(fast_encoder.files.folder), "passage_prompt": prompt}
        work = workspace(tmp_path, sources=sources, encoder=encoder, **attributes)
        work.__dict__["encoder"] = fast_encoder
        return work

    return of_new_process


@pytest.fixture
def run(opened: Open) -> Run:
    """Brings every batch up to date in a process of its own; what was done, after which nothing is left to do."""

    def brought(sources: list[dict[str, Any]], **attributes: Any) -> tuple[Workspace, list[tuple[str, str]]]:
        changes = bring_up_to_date(lambda: opened(sources, **attributes))
        after = opened(sources, **attributes)
        assert table(after) == sorted(zip(*population(after), strict=True))
        return after, [(change.key, change.reason) for change in changes]

    return brought


def stages(work: Workspace, key: str, last: str = "finish_batch") -> None:
    for stage in BATCH_STAGES[: [each.__name__ for each in BATCH_STAGES].index(last) + 1]:
        stage(work, key)


def table(work: Workspace) -> list[tuple[str, str]]:
    held = lancedb.connect(work.index_uri).open_table(work.settings.index.table).to_arrow()
    return sorted(zip(held["chunk_id"].to_pylist(), held["batch"].to_pylist(), strict=True))


def population(work: Workspace) -> tuple[list[str], list[str]]:
    rows = work.population()
    return rows["chunk_id"].to_pylist(), rows["batch"].to_pylist()


def test_rows_with_ids_of_a_retired_source_are_rejected_and_named(tmp_path: Path, run: Run) -> None:
    write(tmp_path, A, range(3))
    write(tmp_path, B, range(3, 5))
    run(ENDED)
    write(tmp_path, B, range(2, 6))  # c2 is of the source that ended, c5 is new
    work, changes = run(retired())
    assert changes == [(B, "changed")]
    assert table(work) == [("c0", A), ("c1", A), ("c2", A), ("c3", B), ("c4", B), ("c5", B)]
    (rejected,) = work.rejected().to_pylist()
    assert (rejected["chunk_id"], rejected["reason"]) == ("c2", "id_collision")
    assert rejected["detail"] == "the id belongs to a row of batch 2026-01-02|a, whose source is retired"
    assert integrity_faults(work, B) == {"missing_rows": 1}


def test_a_source_that_brings_ids_of_its_own_beside_a_retired_one_loses_nothing(tmp_path: Path, run: Run) -> None:
    write(tmp_path, A, range(3))
    write(tmp_path, B, range(3, 5))
    run(ENDED)
    write(tmp_path, B, range(3, 6))
    work, changes = run(retired())
    assert changes == [(B, "changed")]
    assert len(table(work)) == 6
    assert len(work.rejected()) == 0
    assert integrity_faults(work, B) == {}


def test_rows_that_were_rejected_come_in_once_the_retired_source_is_given_up(tmp_path: Path, run: Run) -> None:
    write(tmp_path, A, range(3))
    write(tmp_path, B, range(3, 5))
    run(ENDED)
    write(tmp_path, B, range(2, 5))
    run(retired())
    work, changes = run(ENDED[1:])
    assert changes == [(A, "emptied"), (B, "changed")]
    assert table(work) == [("c2", B), ("c3", B), ("c4", B)]
    assert len(work.rejected()) == 0


def test_rows_that_moved_before_their_source_was_retired_stay_where_they_went(tmp_path: Path, run: Run) -> None:
    write(tmp_path, A, range(3))
    write(tmp_path, B, range(3, 5))
    run(ENDED)
    write(tmp_path, A, range(2))
    write(tmp_path, B, range(2, 5))
    run(ENDED)
    write(tmp_path, B, range(2, 6))
    work, _ = run(retired())
    assert table(work) == [("c0", A), ("c1", A), ("c2", B), ("c3", B), ("c4", B), ("c5", B)]
    assert len(work.rejected()) == 0


@pytest.mark.parametrize("last", ["ingest_index_rows", "check_batch_integrity", "finish_batch"])
def test_a_row_that_was_taken_over_before_the_source_was_retired_is_not_lost(
    last: str, tmp_path: Path, opened: Open, run: Run
) -> None:
    write(tmp_path, A, range(3))
    write(tmp_path, "2026-01-09|b", range(3, 4))
    run(ENDED)
    earlier = "2026-01-01|b"  # so the id is that source's by now
    write(tmp_path, earlier, range(1))
    stages(opened(ENDED), earlier, last)  # and the run ends before the batch that had it is written
    work, changes = run(retired())
    assert (A, "unfinished") in changes
    assert table(work) == [("c0", earlier), ("c1", A), ("c2", A)]
    write(tmp_path, "2026-01-03|b", range(1))  # later than the row that the retired source had
    work, _ = run(retired())
    assert table(work) == [("c0", "2026-01-03|b"), ("c1", A), ("c2", A)]
    assert len(work.rejected()) == 0


def test_a_row_that_was_to_be_taken_over_and_was_not_stays_with_the_retired_source(
    tmp_path: Path, opened: Open, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, A, range(3))
    write(tmp_path, B, range(3, 4))
    run(ENDED)
    write(tmp_path, "2026-01-01|b", range(1))
    with monkeypatch.context() as patched:
        patched.setattr("lancedb.merge.LanceMergeInsertBuilder.execute", lambda *_: 1 / 0)  # dies before its commit
        with pytest.raises(ZeroDivisionError):
            stages(opened(ENDED), "2026-01-01|b")
    write(tmp_path, B, range(3, 4))
    work, changes = run(retired())
    assert changes == [("2026-01-01|b", "emptied"), (A, "unfinished")]
    assert table(work) == [("c0", A), ("c1", A), ("c2", A), ("c3", B)]


def test_a_batch_that_was_half_done_when_its_source_was_retired_is_brought_to_its_end(
    tmp_path: Path, opened: Open, run: Run
) -> None:
    write(tmp_path, A, range(2))
    write(tmp_path, B, range(3, 4))
    run(ENDED)
    write(tmp_path, A, range(1, 3))
    stages(opened(ENDED), A, "ingest_index_rows")
    work, changes = run(retired())
    assert changes == [(A, "unfinished")]
    assert table(work) == [("c1", A), ("c2", A), ("c3", B)]
    assert run(ENDED)[1] == []


def test_the_rows_of_a_retired_source_are_written_again_where_the_table_is_gone_or_another(
    tmp_path: Path, run: Run
) -> None:
    write(tmp_path, A, range(2))
    write(tmp_path, B, range(3, 4))
    run(ENDED)
    rows = [("c0", A), ("c1", A), ("c3", B)]
    (tmp_path / "a.jsonl").unlink()
    shutil.rmtree(tmp_path / "state" / "index")
    work, changes = run(retired())
    assert (table(work), changes) == (rows, [(A, "lost"), (B, "lost")])
    work, changes = run(retired(), prompt="passage: ")
    assert (table(work), changes) == (rows, [(A, "resettled"), (B, "resettled")])
    assert [integrity_faults(work, key) for key in (A, B)] == [{}, {}]
    work, changes = run(retired(), index={"table": "other"})
    assert (table(work), changes) == (rows, [(A, "resettled"), (B, "resettled")])


def test_a_retired_source_is_counted_and_written_again_where_that_is_asked_for(
    tmp_path: Path, opened: Open, run: Run
) -> None:
    write(tmp_path, A, range(2))
    write(tmp_path, B, range(3, 4))
    run(ENDED)
    work = opened(retired(), prompt="passage: ")
    assert forecast(work, changed_batches(work)).texts == 3
    work = opened(retired())
    assert batches_of_source(work, "a", None) == []
    assert batches_of_source(work, "a", None, again=True) == [BatchChange(A, "again", 2)]
    lancedb.connect(work.index_uri).open_table("chunks").delete("chunk_id = 'c0'")
    stages(work, A)
    assert table(work) == [("c0", A), ("c1", A), ("c3", B)]


def test_an_emptied_batch_whose_rows_are_back_with_an_older_version_of_the_table_is_written_again_on_demand(
    tmp_path: Path, opened: Open, run: Run
) -> None:
    write(tmp_path, A, range(2))
    write(tmp_path, B, range(3, 4))
    work, _ = run(ENDED)
    table_of_both = lancedb.connect(work.index_uri).open_table("chunks")
    version = table_of_both.version
    write(tmp_path, "2026-01-09|a", range(4, 5))
    run(ENDED)
    table_of_both.restore(version)
    work = opened(ENDED)
    work.state.extend_back_to(dt.date(2026, 1, 2))  # as the run did that found the batch first
    changes = batches_of_source(work, "a", None, again=True)
    assert changes == [BatchChange(A, "again", 0), BatchChange("2026-01-09|a", "again", 1)]
    for change in changes:
        stages(work, change.key)
    assert table(work) == [("c3", B), ("c4", "2026-01-09|a")]
    assert [one.key for one in batches_of_source(opened(ENDED), "a", None, again=True)] == ["2026-01-09|a"]
