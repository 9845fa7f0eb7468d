"""Which batches give rows to others, and in which order a run takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.stages.changes import BatchChange, changed_batches
from audit_pipeline.stages.ingest import ingest_chunks, pending_manifest
from audit_pipeline.stages.moves import in_order, moves_between
from audit_pipeline_tests.stages.builders import workspace, write_rows

FIRST, SECOND, OTHER = "2026-01-02|a", "2026-01-03|a", "2026-01-03|b"


@pytest.mark.parametrize(
    ("moves", "order"),
    [
        ({}, "abcd"),
        ({"a": {"b"}}, "bcda"),
        ({"a": {"b"}, "b": {"c"}}, "cdba"),
        ({"c": {"a"}}, "abdc"),
        ({"a": {"b"}, "b": {"a"}}, "cdab"),
        ({"a": {"of another source"}}, "abcd"),
    ],
    ids=["none", "one", "a chain", "already so", "a circle", "not of this run"],
)
def test_a_batch_that_takes_rows_over_comes_before_the_one_that_gives_them_up(
    moves: dict[str, set[str]], order: str
) -> None:
    changes = [BatchChange(key, "changed", 1) for key in "abcd"]
    assert "".join(change.key for change in in_order(changes, moves)) == order


def test_rows_move_from_the_batch_that_held_them_to_those_that_have_them_now(
    tmp_path: Path, fast_encoder: Encoder
) -> None:
    settings = {"encoder": {"model": str(fast_encoder.files.folder)}}
    days = {"stays": 2, "to second": 3, "to other": 3, "gone": 2, "to first": 2}
    rows = [(each, "a", "2026-01-02", each) for each in ("stays", "to second", "to other", "gone")]
    write_rows(tmp_path, [*rows, ("to first", "a", "2026-01-03", "to first")])
    work = workspace(tmp_path, **settings)
    for key in (FIRST, SECOND):
        ingest_chunks(work, key)
        work.write_manifest(pending_manifest(work, key))
    now = [(each, "b" if each == "to other" else "a", f"2026-01-0{day}", each) for each, day in days.items()]
    write_rows(tmp_path, [*(row for row in now if row[0] != "gone"), ("new", "a", "2026-01-03", "new")])
    work = workspace(tmp_path, **settings)
    changes = changed_batches(work)
    assert [change.key for change in changes] == [FIRST, SECOND, OTHER]
    assert moves_between(work, changes) == {FIRST: {SECOND, OTHER}, SECOND: {FIRST}}
    assert moves_between(work, changes[:2]) == {FIRST: {SECOND}, SECOND: {FIRST}}
    assert moves_between(work, changes[1:]) == {}
    assert moves_between(work, changes[2:]) == {}
