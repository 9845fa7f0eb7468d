"""Where the number of a table's rows fell between versions, from tables that LanceDB itself wrote."""

import datetime as dt
from pathlib import Path
from typing import Any

import lancedb
import pytest

from audit_pipeline.index import versions
from audit_pipeline.index.versions import History, falls_of, row_history, rows_fell
from audit_pipeline_tests.index.builders import foreign, unit_vectors, write


def rows(first: int, last: int) -> Any:
    return foreign([f"c{number}" for number in range(first, last)], unit_vectors(last - first))


def told(uri: Path, table: Any) -> list[Any]:
    return rows_fell(row_history(str(uri), {"docs": table.version}))


def test_a_lasting_fall_is_told_with_its_versions_and_counts(tmp_path: Path) -> None:
    table = write(tmp_path, rows(0, 40))
    table.add(rows(40, 50))
    table.delete("chunk_id IN ('c1', 'c2', 'c3')")
    table.add(rows(60, 61))
    (finding,) = told(tmp_path, table)
    (fall,) = finding.evidence["falls"]
    written = fall.pop("written")
    assert abs(dt.datetime.fromisoformat(written) - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)
    assert fall == {
        "table": "docs",
        "from_version": 2,
        "to_version": 3,
        "rows_before": 50,
        "rows_after": 47,
        "came_back": False,
    }
    assert (finding.code, finding.severity, finding.n_compared) == ("rows_fell", "info", 3)
    assert finding.share == pytest.approx(1 / 3)
    assert "never came back" in finding.message


def test_rows_deleted_and_written_again_are_told_as_that(tmp_path: Path) -> None:
    table = write(tmp_path, rows(0, 40))
    table.delete("chunk_id IN ('c1', 'c2')")
    table.add(rows(1, 3))
    (finding,) = told(tmp_path, table)
    assert finding.evidence["lasting"] == 0
    assert "as when rows are deleted and written again" in finding.message


def test_updates_upserts_indexes_and_compaction_are_no_fall(tmp_path: Path) -> None:
    table = write(tmp_path, rows(0, 300))
    upsert = table.merge_insert("chunk_id").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(rows(290, 310))
    table.update(where="chunk_id = 'c1'", values={"text": "another"})
    table.create_index("vector", config=lancedb.index.IvfFlat(num_partitions=2))
    table.optimize()
    assert table.version > 4
    assert told(tmp_path, table) == []


@pytest.mark.filterwarnings("ignore:optimize.cleanup_older_than=0")
def test_versions_after_the_audited_one_and_cleaned_up_ones_are_left_out(tmp_path: Path) -> None:
    table = write(tmp_path, rows(0, 40))
    table.delete("chunk_id = 'c1'")
    pinned = table.version
    table.delete("chunk_id = 'c2'")
    (history,) = row_history(str(tmp_path), {"docs": pinned})
    assert (history.versions, history.rows, history.not_kept) == ((1, 2), (40, 39), 0)
    table.delete("chunk_id = 'c3'")
    table.optimize(cleanup_older_than=dt.timedelta(0), delete_unverified=True)
    (history,) = row_history(str(tmp_path), {"docs": table.version})
    assert (len(history.versions), history.not_kept) == (1, table.version - 1)
    assert told(tmp_path, table) == []


def test_reading_the_history_changes_no_file_and_no_version(tmp_path: Path) -> None:
    table = write(tmp_path, rows(0, 40))
    table.delete("chunk_id = 'c1'")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    told(tmp_path, table)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_versions_without_a_count_are_opened_evenly_and_the_others_counted_as_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write(tmp_path, rows(0, 10))
    for number in range(8):
        table.delete(f"chunk_id = 'c{number}'")
    monkeypatch.setattr(versions, "_ROWS", "a key that no listing has")
    monkeypatch.setattr(versions, "MOST_COUNTED", 3)
    (history,) = row_history(str(tmp_path), {"docs": table.version})
    assert (history.versions, history.rows, history.not_counted) == ((1, 5, 9), (10, 6, 2), 6)
    (finding,) = rows_fell([history])
    assert "6 versions were not counted" in finding.message


def test_falls_are_judged_by_the_highest_count_after_them() -> None:
    history = History("docs", (1, 2, 3, 4, 5), (10, 8, 10, 9, 9), ("",) * 5, not_kept=0, not_counted=0)
    assert [(fall.version, fall.back) for fall in falls_of(history)] == [(2, True), (4, False)]
