"""A retired source keeps its rows, also where another source brings their ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.stages.ingest import changed_batches, integrity_faults
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.managed import BATCH_STAGES
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.stages.builders import workspace

A, B = "2026-01-02|a", "2026-01-03|b"
TEXTS = docstrings("rich", 6)
ENDED = [{"name": "a", "uri": "a.jsonl", "format": "jsonl"}, {"name": "b", "uri": "b.jsonl", "format": "jsonl"}]
Run = Callable[[list[dict[str, Any]]], tuple[Workspace, list[tuple[str, str]]]]


def write(folder: Path, key: str, numbers: range) -> None:
    day, source = key.split("|")
    rows = [{"chunk_id": f"c{number}", "ingestion_date": day, "text": TEXTS[number]} for number in numbers]
    (folder / f"{source}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def retired() -> list[dict[str, Any]]:
    return [ENDED[0] | {"retired": True}, ENDED[1]]


@pytest.fixture
def run(tmp_path: Path, fast_encoder: Encoder) -> Run:
    """Brings every batch up to date in a process of its own; what was done, after which nothing is left to do."""

    def opened(sources: list[dict[str, Any]]) -> Workspace:
        work = workspace(tmp_path, sources=sources, encoder={"model": str(fast_encoder.files.folder)})
        work.__dict__["encoder"] = fast_encoder
        return work

    def brought(sources: list[dict[str, Any]]) -> tuple[Workspace, list[tuple[str, str]]]:
        work = opened(sources)
        changes = changed_batches(work)
        for change in changes:
            for stage in BATCH_STAGES:
                stage(work, change.key)
        after = opened(sources)
        assert changed_batches(after) == []
        assert table(after) == sorted(zip(*population(after), strict=True))
        return after, [(change.key, change.reason) for change in changes]

    return brought


def table(work: Workspace) -> list[tuple[str, str]]:
    held = lancedb.connect(work.index_uri).open_table("chunks").to_arrow()
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
