"""What the checks on one batch say of it: what is wrong, where, and what to do; and a few words where nothing is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.stages import ingest
from audit_pipeline.stages.batch_checks import CHECKS_OF_BATCH, outcome_of
from audit_pipeline.stages.batches import ObservedBatch
from audit_pipeline.stages.ingest import ingest_chunks, pending_folder, pending_manifest
from audit_pipeline.stages.limits import CheckOutcome
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import write_table
from audit_pipeline_tests.stages.builders import workspace, write_rows

DAY = "2026-01-02"
KEY = f"{DAY}|a"
GOOD = [("a1", "a", DAY, "one"), ("a2", "a", DAY, "two"), ("a3", "a", DAY, "three")]
COLLIDED = ("a1", "b", DAY, "another text under an id in use")


@pytest.fixture(autouse=True)
def _no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """No encoder is asked for, so no token is counted."""
    monkeypatch.setattr(ingest, "with_tokens", lambda work, chunks: chunks)


def read(folder: Path, rows: list[tuple[str, str, str, str]], key: str = KEY) -> Workspace:
    """The batch as a run that has just read it finds it."""
    write_rows(folder, rows)
    work = workspace(folder)
    ingest_chunks(work, key)
    return work


def said(work: Workspace, name: str, key: str = KEY) -> CheckOutcome:
    (check,) = [one for one in CHECKS_OF_BATCH if one.name == name]
    return check.outcome(work, key)


def test_rows_that_are_left_out_are_counted_by_reason(tmp_path: Path) -> None:
    work = read(tmp_path, [*GOOD, ("a4", "a", DAY, " ")])
    assert said(work, "no_rows_rejected") == CheckOutcome(
        False,
        error=False,
        text=f"batch {KEY}: 1 of 4 rows cannot be used, so the index is without (1 empty_text): "
        "correct or delete such rows in the source store",
        figures={"empty_text": 1},
    )
    other = f"{DAY}|b"
    assert said(read(tmp_path, [*GOOD, COLLIDED], other), "no_rows_rejected", other).text == (
        f"batch {other}: 1 of 1 row cannot be used, so the index is without (1 id_collision; the ids stand in {KEY}): "
        "correct or delete such rows in the source store"
    )
    assert said(read(tmp_path, GOOD), "no_rows_rejected") == CheckOutcome(
        True, error=False, text="3 rows, none rejected"
    )


def test_a_batch_that_would_vanish_says_why_and_that_the_table_keeps_it(tmp_path: Path) -> None:
    work = read(tmp_path, GOOD)
    assert said(work, "batch_keeps_rows").text == "no row that the source store still has would be deleted"
    work.write_manifest(pending_manifest(work, KEY))
    blank = said(read(tmp_path, [(i, "a", DAY, "") for i in ("a1", "a2")]), "batch_keeps_rows")
    assert (blank.passed, blank.error, blank.text) == (
        False,
        True,
        f"batch {KEY}: none of its 2 rows can be used any more (2 empty_text), so the 3 rows that the table has of it "
        "stay as they were: correct the rows in the source store (was a column renamed?), or delete them there",
    )
    undated = said(read(tmp_path, [*GOOD[:2], ("a3", "a", "02/01/2026", "three")]), "batch_keeps_rows")
    assert (undated.passed, undated.error, undated.text) == (
        False,
        True,
        f"batch {KEY}: 1 row of it can be placed nowhere, for the date cannot be used, so the 3 rows that the table "
        "has of it stay as they were: correct the dates in the source store, or delete the rows there",
    )
    assert undated.figures == {"rows_without_a_day": 1, "rows_in_table": 3}


def test_vectors_that_no_search_finds_are_counted_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Encoded:
        vectors = np.array([[1.0, 0.0], [np.nan, 0.0], [0.0, 0.0]])

    monkeypatch.setattr(Workspace, "encode", lambda *given, **more: Encoded)
    work = read(tmp_path, GOOD)
    assert said(work, "vectors_can_be_written").text == (
        f"batch {KEY}: 2 of 3 vectors hold NaN or infinite values or only zeros (1 not_finite, 1 zero), which no "
        "search finds, so nothing of it was written: check encoder.model and encoder.dtype, or the server at "
        "encoder.base_url"
    )
    Encoded.vectors = np.eye(3)
    assert said(work, "vectors_can_be_written").text == "3 vectors, each finite and not zero"


@pytest.mark.parametrize(
    ("rows", "key", "faults", "to_do"),
    [
        (
            GOOD,
            KEY,
            {"text_drift": 2},
            "write the batch once more: audit-pipeline backfill --source a --since 2026-01-02 --again",
        ),
        (
            [*GOOD, COLLIDED],
            f"{DAY}|b",
            {"missing_rows": 1},
            "give the 1 row rejected as id_collision an id of their own",
        ),
    ],
    ids=["a table that was changed", "an id in use"],
)
def test_a_batch_that_the_table_has_otherwise_says_what_heals_it(
    tmp_path: Path, rows: list[tuple[str, str, str, str]], key: str, faults: dict[str, int], to_do: str
) -> None:
    work = read(tmp_path, rows, key)
    write_table(pending_folder(work, key) / "integrity.parquet", pa.table({name: [n] for name, n in faults.items()}))
    found = said(work, "table_holds_batch", key)
    (name, count), *_ = faults.items()
    assert found.text == f"batch {key}: the table does not have it as the source store does ({count} {name}): {to_do}"
    assert (found.passed, found.error, found.figures) == (False, True, faults)


def test_a_batch_that_the_table_has_says_so(tmp_path: Path) -> None:
    work = read(tmp_path, GOOD)
    write_table(pending_folder(work, KEY) / "integrity.parquet", pa.table({"missing_rows": [0]}))
    assert said(work, "table_holds_batch").text == "3 rows of the source store in the table, each once"


def test_a_batch_of_a_table_of_others_says_what_the_audit_found() -> None:
    assert outcome_of(ObservedBatch(KEY, 12, {"text_drift": 3}, error=True)).text == (
        f"batch {KEY}: of its 12 rows in the table the last audit found 3 text_drift: the findings of the report say "
        "what is wrong and what mends it"
    )
    both = outcome_of(ObservedBatch(KEY, 12, {"text_drift": 3, "role_mismatch": 4}, error=True))
    assert "found 3 text_drift and 4 role_mismatch among the few vectors that it encoded anew: the" in both.text
    assert both.figures == {"text_drift": 3, "role_mismatch": 4}
    assert outcome_of(ObservedBatch(KEY, 12, {}, error=False)) == CheckOutcome(
        True, error=False, text="12 rows in the table, and no finding"
    )
