"""The checks on all batches together: what is behind or half done, and what is only on its way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from audit_pipeline.stages.batches import batch_check, batches_to_bring_in, mended_batches
from audit_pipeline.stages.unsettled import begin_writing
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import write_json, write_table
from audit_pipeline_tests.stages.test_discovery import DAYS, A, B, ingest, two_sources, write


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    """Six batches, of which the last of each source is not in the table."""
    for source in "ab":
        write(tmp_path, source, {day: f"{source} on {day}" for day in DAYS})
    found = two_sources(tmp_path)
    ingest(found, *A[:2], *B[:2])
    return found


def pending(work: Workspace, key: str, generation: str) -> None:
    work.state.batch(key).mkdir(parents=True, exist_ok=True)
    write_json(work.state.batch(key) / "pending.json", {"generation": generation})


def test_a_batch_that_is_behind_fails_and_is_listed(work: Workspace) -> None:
    found = batch_check(work, "covers_all_batches")
    assert (found.passed, found.text) == (
        False,
        "2 batches behind the source store: 2026-01-05|a (new), 2026-01-05|b (new)",
    )
    listed = ["2026-01-05|a (new)", "2026-01-05|b (new)"]
    assert found.figures == {"batches": 2, "under way": 0, "n": 6, "which": listed}


def test_batches_behind_whose_run_is_under_way_pass_and_are_listed(work: Workspace) -> None:
    found = batch_check(work, "covers_all_batches", {A[2], B[2], A[0]})
    assert (found.passed, found.text) == (
        True,
        "none behind the source store; 2 batches under way: 2026-01-05|a, 2026-01-05|b",
    )
    assert found.figures == {"batches": 0, "under way": 2, "n": 6, "which are under way": [A[2], B[2]]}


def test_batches_that_wait_for_a_backfill_pass_and_are_listed_and_hide_no_other(work: Workspace) -> None:
    found = batch_check(work, "covers_all_batches", set(), {A[2], B[2]})
    assert (found.passed, found.text) == (
        True,
        "none behind the source store; 2 batches left to a backfill: 2026-01-05|a, 2026-01-05|b",
    )
    found = batch_check(work, "covers_all_batches", set(), {A[2]})
    assert (found.passed, found.text) == (
        False,
        "1 batch behind the source store: 2026-01-05|b (new); 1 batch left to a backfill: 2026-01-05|a",
    )


def test_one_under_way_hides_no_other(work: Workspace) -> None:
    found = batch_check(work, "covers_all_batches", {A[2]})
    assert (found.passed, found.figures["which"]) == (False, ["2026-01-05|b (new)"])


def test_a_batch_left_half_done_fails_unless_a_run_has_it_in_hand(work: Workspace, tmp_path: Path) -> None:
    write(tmp_path, "a", {day: f"a on {day}" for day in DAYS} | {DAYS[0]: "newer"})
    pending(work, A[0], "newer")  # ingested before, being ingested anew
    pending(work, A[2], "first")  # never ingested
    left = batch_check(work, "no_failed_batches")
    assert (left.passed, left.text) == (
        False,
        "2 batches failed: 2026-01-02|a (not finished), 2026-01-05|a (not finished)",
    )
    found = batch_check(work, "no_failed_batches", {A[0], A[2]})
    assert (found.passed, found.text) == (True, "none failed; 2 batches under way: 2026-01-02|a, 2026-01-05|a")


def test_a_batch_that_was_stopped_and_is_as_the_table_has_it_again_is_no_failure(
    work: Workspace, tmp_path: Path
) -> None:
    pending(work, A[0], "stopped")
    pending(work, A[2], "stopped, and never in the table")
    assert batch_check(work, "no_failed_batches").figures["which"] == ["2026-01-05|a (not finished)"]
    assert mended_batches(work) == {A[0]}
    asked = [(one.key, one.reason) for one in batches_to_bring_in(work)]
    assert asked == [(A[0], "restored"), (A[2], "new"), (B[2], "new")]
    assert batch_check(work, "covers_all_batches").figures["which"] == [f"{A[2]} (new)", f"{B[2]} (new)"]
    write(tmp_path, "a", {DAYS[0]: "broken", DAYS[1]: f"a on {DAYS[1]}"})  # and the last batch is gone again
    later = two_sources(tmp_path)
    assert batch_check(later, "no_failed_batches").figures["which"] == ["2026-01-02|a (not finished)"]
    assert mended_batches(later) == {A[2]}
    (tmp_path / "a.jsonl").write_text("{broken\n", encoding="utf-8")
    assert mended_batches(two_sources(tmp_path)) == set()


def test_a_batch_whose_run_died_after_it_wrote_is_not_mended_by_its_file_alone(work: Workspace) -> None:
    pending(work, A[0], "newer")
    begin_writing(work, A[0], "newer")
    assert mended_batches(work) == set()
    assert batch_check(work, "no_failed_batches").figures["which"] == ["2026-01-02|a (not finished)"]


def test_a_batch_that_is_faulty_in_the_table_fails_whatever_is_under_way(work: Workspace) -> None:
    manifest = work.manifest(A[0])
    assert manifest is not None
    pending(work, A[0], manifest.generation)
    write_table(work.generation(manifest) / "integrity.parquet", pa.table({"missing_rows": [3]}))
    found = batch_check(work, "no_failed_batches", {A[0]})
    assert (found.passed, found.figures["which"]) == (False, ["2026-01-02|a (missing_rows)"])


def test_a_source_that_cannot_be_read_is_named_without_its_error(work: Workspace, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{broken\n", encoding="utf-8")
    found = batch_check(two_sources(tmp_path), "covers_all_batches", {*A, *B})
    assert (found.passed, found.figures["which"]) == (False, ["source a (cannot be read)"])
