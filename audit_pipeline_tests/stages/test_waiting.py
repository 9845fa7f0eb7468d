"""Ids that a batch which waits for its backfill shares with another stay with the other one until it is brought in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lancedb
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.stages.changes import changed_batches
from audit_pipeline.stages.discovery import discover
from audit_pipeline.stages.sources import batches_of_source
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.managed import BATCH_STAGES
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.stages.builders import workspace

HELD = "2026-01-03|docs"
TEXTS = docstrings("rich", 6)
Open = Callable[..., Workspace]


def write(folder: Path, key: str, rows: dict[str, int]) -> None:
    """The one batch of a source: id -> which of the texts."""
    day, source = key.split("|")
    lines = [{"chunk_id": one, "ingestion_date": day, "text": TEXTS[number]} for one, number in rows.items()]
    (folder / f"{source}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def opened(tmp_path: Path, fast_encoder: Encoder) -> Open:
    def of_new_process(*sources: str) -> Workspace:
        work = workspace(
            tmp_path,
            sources=[{"name": name, "uri": f"{name}.jsonl", "format": "jsonl"} for name in sources],
            encoder={"model": str(fast_encoder.files.folder)},
            automation={"mode": "sensors", "history": "wait"},
        )
        work.__dict__["encoder"] = fast_encoder
        return work

    return of_new_process


def ingest(work: Workspace, key: str, last: str = "finish_batch") -> None:
    for stage in BATCH_STAGES[: [each.__name__ for each in BATCH_STAGES].index(last) + 1]:
        stage(work, key)


def table(work: Workspace) -> dict[str, tuple[str, int]]:
    """id -> its batch, and which of the texts it has."""
    rows = lancedb.connect(work.index_uri).open_table(work.settings.index.table).to_arrow().to_pylist()
    assert len({row["chunk_id"] for row in rows}) == len(rows)
    return {row["chunk_id"]: (row["batch"], TEXTS.index(row["text"])) for row in rows}


def population(work: Workspace) -> dict[str, tuple[str, int]]:
    rows = work.population().to_pylist()
    assert len({row["chunk_id"] for row in rows}) == len(rows)
    return {row["chunk_id"]: (row["batch"], TEXTS.index(row["text"])) for row in rows}


def behind(work: Workspace) -> list[tuple[str, str]]:
    return [(change.key, change.reason) for change in changed_batches(work)]


def held_and_waited_for(folder: Path, opened: Open, waits: str) -> tuple[str, str]:
    """c0, c1, c2 are brought in; then another source is seen, which has c1, c2 and c3. Its name, and the cursor."""
    source = waits.split("|")[1]
    write(folder, HELD, {"c0": 0, "c1": 1, "c2": 2})
    work = opened("docs")
    cursor = discover(work, None).cursor
    ingest(work, HELD)
    write(folder, waits, {"c1": 1, "c2": 5, "c3": 3})
    found = discover(opened("docs", source), cursor)
    assert [(one.change.key, one.change.reason) for one in found.requests] == [(HELD, "changed")]
    assert found.notes == [
        f"1 batch of {source} from before it was first seen: backfill them (audit-pipeline backfill --source {source})"
    ]
    return source, found.cursor


@pytest.mark.parametrize("waits", ["2026-01-02|other", "2026-01-03|api"], ids=["an earlier day", "an earlier name"])
def test_ids_stay_with_the_batch_that_holds_them_until_the_other_one_is_backfilled(
    waits: str, tmp_path: Path, opened: Open
) -> None:
    source, cursor = held_and_waited_for(tmp_path, opened, waits)
    ingest(opened("docs", source), HELD)
    work = opened("docs", source)
    as_before = {"c0": (HELD, 0), "c1": (HELD, 1), "c2": (HELD, 2)}
    assert table(work) == population(work) == as_before
    assert (behind(work), work.rejected().to_pylist()) == ([(waits, "new")], [])
    assert discover(work, cursor).requests == []

    for change in batches_of_source(opened("docs", source), source, None):
        ingest(opened("docs", source), change.key)
    taken = {"c0": (HELD, 0), "c1": (waits, 1), "c2": (waits, 5), "c3": (waits, 3)}
    assert table(work) == taken
    assert behind(opened("docs", source)) == [(HELD, "changed")]
    ingest(opened("docs", source), HELD)
    work = opened("docs", source)
    assert table(work) == population(work) == taken
    assert behind(work) == []
    assert sorted(work.rejected()["chunk_id"].to_pylist()) == ["c1", "c2"]


def test_a_row_that_is_kept_has_the_text_of_its_source_and_goes_when_no_source_has_it_so_any_more(
    tmp_path: Path, opened: Open
) -> None:
    waits = "2026-01-02|other"
    source, _ = held_and_waited_for(tmp_path, opened, waits)
    ingest(opened("docs", source), HELD)
    write(tmp_path, HELD, {"c0": 0, "c2": 4})
    assert behind(opened("docs", source)) == [(waits, "new"), (HELD, "changed")]
    ingest(opened("docs", source), HELD)
    work = opened("docs", source)
    assert table(work) == population(work) == {"c0": (HELD, 0), "c1": (HELD, 1), "c2": (HELD, 4)}
    write(tmp_path, HELD, {"c0": 0})  # the row of c2 that waits has another text
    ingest(opened("docs", source), HELD)
    assert table(opened("docs", source)) == {"c0": (HELD, 0), "c1": (HELD, 1)}
    assert behind(opened("docs", source)) == [(waits, "new")]
    write(tmp_path, waits, {"c3": 3})
    assert behind(opened("docs", source)) == [(waits, "new"), (HELD, "changed")]
    ingest(opened("docs", source), HELD)
    work = opened("docs", source)
    assert table(work) == population(work) == {"c0": (HELD, 0)}
    assert behind(work) == [(waits, "new")]


def test_rows_are_kept_of_a_run_that_died_and_not_taken_back_from_one_that_did(tmp_path: Path, opened: Open) -> None:
    write(tmp_path, HELD, {"c0": 0})
    ingest(opened("docs"), HELD)
    write(tmp_path, HELD, {"c0": 0, "c1": 1})
    ingest(opened("docs"), HELD, last="ingest_index_rows")  # c1 is in the table, and no manifest says so
    waits = "2026-01-02|other"
    write(tmp_path, waits, {"c1": 5})
    ingest(opened("docs", "other"), HELD)
    work = opened("docs", "other")
    assert table(work) == population(work) == {"c0": (HELD, 0), "c1": (HELD, 1)}
    ingest(opened("docs", "other"), waits, last="ingest_index_rows")
    assert table(work) == {"c0": (HELD, 0), "c1": (waits, 5)}
    ingest(opened("docs", "other"), HELD)
    assert table(work) == {"c0": (HELD, 0), "c1": (waits, 5)}
    for change in changed_batches(opened("docs", "other")):
        ingest(opened("docs", "other"), change.key)
    work = opened("docs", "other")
    assert behind(work) == []
    assert table(work) == population(work) == {"c0": (HELD, 0), "c1": (waits, 5)}
