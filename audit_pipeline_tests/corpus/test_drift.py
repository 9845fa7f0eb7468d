"""Files of one source whose columns differ: brought together where nothing is lost, else rejected with a reason."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.corpus.scans import StoreRows
from audit_pipeline_tests.corpus.builders import store_of, write_jsonl

DAY = "2026-01-02"


def read(folder: Path, *tables: dict[str, Any], **entry: Any) -> StoreRows:
    """The rows of a source with one Parquet file for each table of columns."""
    for number, columns in enumerate(tables):
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    return store_of({"name": "s", "uri": str(folder), "format": "parquet", **entry}).read_all()


def test_ids_of_every_type_come_together_as_strings(tmp_path: Path) -> None:
    rows = read(
        tmp_path,
        {"chunk_id": [7], "text": ["integer"]},
        {"chunk_id": ["008"], "text": ["string"]},
        {"chunk_id": [9.0, float("nan"), None], "text": ["float of pandas", "gap", "gap"]},
        {"chunk_id": [decimal.Decimal(10)], "text": ["decimal"]},
        {"chunk_id": [decimal.Decimal("11.000"), None], "text": ["of a database", "gap"]},
        {"chunk_id": [decimal.Decimal("13.50")], "text": ["with a fraction"]},
        {"chunk_id": pa.array(["14"], pa.string_view()), "text": pa.array(["view"], pa.string_view())},
        {"chunk_id": pa.array([2**64 - 1], pa.uint64()), "text": ["unsigned"]},
        {"chunk_id": pa.array(["12"]).dictionary_encode(), "text": pa.array(["large"], pa.large_string())},
        ingestion_date=DAY,
    )
    assert rows.chunks["chunk_id"].to_pylist() == sorted(
        ["7", "008", "9", "10", "11", "13.50", "14", "18446744073709551615", "12"]
    )
    assert rows.rejected["reason"].to_pylist() == ["missing_id"] * 3


def test_integers_of_jsonl_keep_all_their_digits_and_a_gap_of_pandas_is_no_id(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"chunk_id": 9007199254740993, "text": "a"}\n{"chunk_id": 8.0, "text": "b"}\n{"chunk_id": NaN, "text": "c"}\n'
    )
    rows = store_of({"name": "s", "uri": str(tmp_path), "format": "jsonl", "ingestion_date": DAY}).read_all()
    assert rows.chunks["chunk_id"].to_pylist() == ["8", "9007199254740993"]
    assert rows.rejected["reason"].to_pylist() == ["missing_id"]


def test_columns_that_only_one_file_has(tmp_path: Path) -> None:
    rows = read(
        tmp_path,
        {"chunk_id": ["1"], "text": ["one"], "heading": ["H"], "position": [1.0], "ingestion_date": [DAY]},
        {"chunk_id": ["2"], "text": ["two"], "position": ["2"], "ingestion_date": [1767312000], "unused": [3]},
        {"chunk_id": ["3"], "text": ["three"], "ingestion_date": pa.array([20455], pa.int32()).cast(pa.date32())},
    )
    assert rows.chunks.select(["chunk_id", "heading", "position", "batch"]).to_pylist() == [
        {"chunk_id": "1", "heading": "H", "position": 1, "batch": "2026-01-02|s"},
        {"chunk_id": "2", "heading": None, "position": 2, "batch": "2026-01-02|s"},
        {"chunk_id": "3", "heading": None, "position": None, "batch": "2026-01-02|s"},
    ]
    assert len(rows.rejected) == 0


@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_a_file_without_dates_beside_dated_ones_does_not_take_its_own(tmp_path: Path, file_format: str) -> None:
    dated = {"chunk_id": "1", "text": "one", "ingestion_date": DAY}
    undated = [{"chunk_id": "2", "text": "two"}, {"chunk_id": "3", "text": " "}]
    if file_format == "jsonl":
        write_jsonl(tmp_path / "1.jsonl", [dated])
        write_jsonl(tmp_path / "2.jsonl", undated)
    else:
        pq.write_table(pa.Table.from_pylist([dated]), tmp_path / "1.parquet")
        pq.write_table(pa.Table.from_pylist(undated), tmp_path / "2.parquet")
    entry = {"name": "s", "uri": str(tmp_path), "format": file_format}
    store = store_of(entry)
    assert list(store.scan().batches) == ["2026-01-02|s"]
    lost = store.unplaced().select(["chunk_id", "reason", "detail"]).to_pylist()
    told = "the file has no dates, though others of its source do"
    assert lost == [{"chunk_id": one, "reason": "bad_date", "detail": told} for one in ("2", "3")]
    # Clean twin: the source's own date is for just such rows.
    named = store_of(entry | {"ingestion_date": "2026-01-09"})
    assert list(named.scan().batches) == ["2026-01-02|s", "2026-01-09|s"]


@pytest.mark.parametrize(
    "positions",
    [
        pa.array([3.0, float("nan"), None]),
        pa.array(["3", "", " "]),
        pa.array(["3.0", None, ""], pa.large_string()),
        pa.array([decimal.Decimal("3.0"), None, None]),
    ],
    ids=str,
)
def test_positions_in_every_form_and_gaps(tmp_path: Path, positions: pa.Array) -> None:
    rows = read(tmp_path, {"chunk_id": list("abc"), "text": ["t"] * 3, "position": positions}, ingestion_date=DAY)
    assert rows.chunks.sort_by("chunk_id")["position"].to_pylist() == [3, None, None]


def test_a_day_that_may_be_two_is_rejected_and_the_reason_says_so(tmp_path: Path) -> None:
    ids, dates = list("abcd"), ["03/04/2026", "3/3/2026", "soon", "04-03-2026 10:00"]
    rows = read(tmp_path, {"chunk_id": ids, "text": ["t"] * 4, "ingestion_date": dates})
    assert rows.chunks.select(["chunk_id", "batch"]).to_pylist() == [{"chunk_id": "b", "batch": "2026-03-03|s"}]
    either = (
        "column 'ingestion_date' does not show which part is the month: write 03/04/2026 as 2026-04-03 or 2026-03-04"
    )
    lost = dict(zip(rows.rejected["chunk_id"].to_pylist(), rows.rejected["detail"].to_pylist(), strict=True))
    assert lost == {"a": either, "c": "column 'ingestion_date' holds no date", "d": either}


def test_times_fall_on_their_day_in_utc(tmp_path: Path) -> None:
    dates = ["2026-03-01T23:30:00-05:00", "2026-03-02T00:30:00+01:00", "2026-03-01T10:00:00Z", "2026-03-01 23:59"]
    rows = read(tmp_path, {"chunk_id": list("abcd"), "text": ["t"] * 4, "ingestion_date": dates})
    days = [f"2026-03-0{day}|s" for day in (2, 1, 1, 1)]
    assert rows.chunks.sort_by("chunk_id")["batch"].to_pylist() == days
