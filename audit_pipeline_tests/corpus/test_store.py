import csv
import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline.schemas import CHUNKS, REJECTED_CHUNKS
from audit_pipeline_tests.corpus.builders import store_of, write_jsonl

DAY = "2026-01-02"
ROWS = [
    {"chunk_id": "a", "text": "one", "source": "x", "ingestion_date": DAY},
    {"chunk_id": "b", "text": "two", "source": "y|z", "ingestion_date": DAY},
    {"chunk_id": "c", "text": "three", "source": None, "ingestion_date": "2026-01-03T23:30:00-05:00"},
]


def write(path: Path, rows: list[dict], file_format: str) -> str:
    target = path / f"rows.{file_format}"
    if file_format == "jsonl":
        return write_jsonl(target, rows)
    target.parent.mkdir(parents=True, exist_ok=True)
    if file_format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), target)
    else:
        with target.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return str(target)


@pytest.mark.parametrize("file_format", ["parquet", "jsonl", "csv"])
def test_every_format_gives_the_same_batches(tmp_path: Path, file_format: str) -> None:
    uri = write(tmp_path, ROWS, file_format)
    store = store_of({"name": "*", "uri": uri, "format": file_format})
    scan = store.scan()
    assert {key: (info.source, info.rows) for key, info in scan.batches.items()} == {
        "2026-01-02|x": ("x", 1),
        "2026-01-02|y-z": ("y|z", 1),
        "2026-01-04|none": (None, 1),  # half past eleven at UTC-5 is the next day in UTC
    }
    assert scan.earliest == dt.date(2026, 1, 2)
    for key, info in scan.batches.items():
        rows = store.read_batch(key)
        assert (rows.chunks.schema, rows.rejected.schema) == (CHUNKS, REJECTED_CHUNKS)
        assert rows.chunks["batch"].to_pylist() == [key] * info.rows
    assert store.read_all().chunks["chunk_id"].to_pylist() == ["a", "b", "c"]


def test_a_content_hash_depends_on_the_rows_and_not_on_order_or_files(tmp_path: Path) -> None:
    rows = [{"chunk_id": str(i), "text": f"text {i}", "ingestion_date": DAY} for i in range(5)] + [
        {"chunk_id": "bad", "text": " ", "ingestion_date": DAY}
    ]

    def hash_of(folder: str, *parts: list[dict]) -> str:
        for number, part in enumerate(parts):
            write_jsonl(tmp_path / folder / f"{number}.jsonl", part)
        store = store_of({"name": "s", "uri": str(tmp_path / folder), "format": "jsonl"})
        return store.scan().batches["2026-01-02|s"].content_hash

    straight = hash_of("straight", rows)
    assert straight == hash_of("turned", rows[::-1]) == hash_of("split", rows[3:], rows[:3])
    changed = [rows[:-1], [*rows[:-1], rows[-1] | {"text": ""}], [rows[0] | {"heading": "h"}, *rows[1:]]]
    assert len({straight, *(hash_of(f"changed {i}", other) for i, other in enumerate(changed))}) == 4


def test_scanning_again_sees_what_changed(tmp_path: Path) -> None:
    uri = write_jsonl(tmp_path / "rows.jsonl", [{"chunk_id": "a", "text": "one", "ingestion_date": DAY}])
    store = store_of({"name": "s", "uri": uri, "format": "jsonl"})
    before = store.scan().batches
    write_jsonl(tmp_path / "rows.jsonl", [{"chunk_id": "a", "text": "two", "ingestion_date": "2026-01-05"}])
    after = store.scan().batches
    assert (list(before), list(after)) == (["2026-01-02|s"], ["2026-01-05|s"])
    assert len(store.read_batch("2026-01-02|s").chunks) == 0


def test_an_id_that_stands_in_two_sources_stays_with_the_earlier_one(tmp_path: Path) -> None:
    first = write_jsonl(tmp_path / "1.jsonl", [{"chunk_id": 7, "text": "late", "ingestion_date": "2026-02-01"}])
    second = write_jsonl(tmp_path / "2.jsonl", [{"chunk_id": "7", "text": "early", "ingestion_date": "2026-01-01"}])
    store = store_of({"name": "a", "uri": first, "format": "jsonl"}, {"name": "b", "uri": second, "format": "jsonl"})
    assert {key: (info.rows, info.rejected) for key, info in store.scan().batches.items()} == {
        "2026-01-01|b": (1, 0),
        "2026-02-01|a": (0, 1),
    }
    assert store.read_batch("2026-02-01|a").rejected["reason"].to_pylist() == ["id_collision"]


def test_an_entry_takes_only_the_rows_of_its_name(tmp_path: Path) -> None:
    uri = write(tmp_path, ROWS, "parquet")
    assert store_of({"name": "x", "uri": uri, "format": "parquet"}).read_all().chunks["chunk_id"].to_pylist() == ["a"]


def test_folders_globs_hive_folders_and_files_of_differing_schema(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "ingestion_date=2026-01-02" / "source=x%20y" / "a.jsonl", [{"chunk_id": 1, "text": "one"}])
    write_jsonl(
        tmp_path / "ingestion_date=2026-01-03" / "source=z" / "b.jsonl",
        [{"chunk_id": "2", "text": "two", "heading": "h", "position": 4}],
    )
    write_jsonl(tmp_path / "_temporary" / "c.jsonl", [{"broken": True}])
    (tmp_path / "README.md").write_text("not data")
    (tmp_path / "ingestion_date=2026-01-03" / "source=z" / "empty.jsonl").write_text("")
    whole = store_of({"name": "*", "uri": str(tmp_path), "format": "jsonl"}).read_all().chunks
    assert whole["batch"].to_pylist() == ["2026-01-02|x-y", "2026-01-03|z"]
    assert whole["position"].to_pylist() == [None, 4]
    pattern = str(tmp_path / "*" / "*" / "b.jsonl")
    assert store_of({"name": "*", "uri": pattern, "format": "jsonl"}).read_all().chunks["chunk_id"].to_pylist() == ["2"]


def test_without_dates_rows_take_the_date_of_the_entry_or_of_the_file(tmp_path: Path) -> None:
    uri = write_jsonl(tmp_path / "rows.jsonl", [{"chunk_id": "a", "text": "one"}])
    moment = dt.datetime(2026, 3, 4, 23, 59, tzinfo=dt.UTC).timestamp()
    os.utime(uri, (moment, moment))
    entry = {"name": "s", "uri": uri, "format": "jsonl"}
    assert list(store_of(entry).scan().batches) == ["2026-03-04|s"]
    assert list(store_of(entry | {"ingestion_date": "2026-01-09"}).scan().batches) == ["2026-01-09|s"]


def test_beir_files_are_read_through_a_column_mapping(tmp_path: Path) -> None:
    uri = write_jsonl(tmp_path / "c.jsonl", [{"_id": "1", "title": "T", "text": "2026-01-01"}, {"_id": 2, "text": "b"}])
    entry = {
        "name": "s",
        "uri": uri,
        "format": "jsonl",
        "ingestion_date": DAY,
        "columns": {"chunk_id": "_id", "text": "text", "heading": "title"},
    }
    chunks = store_of(entry).read_all().chunks
    assert chunks.select(["chunk_id", "heading", "text"]).to_pylist() == [
        {"chunk_id": "1", "heading": "T", "text": "2026-01-01"},
        {"chunk_id": "2", "heading": None, "text": "b"},
    ]


def test_a_mapped_column_may_lack_in_one_jsonl_file_but_not_in_all(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "1.jsonl", [{"chunk_id": "1", "text": "one"}])
    entry = {"name": "s", "uri": str(tmp_path), "format": "jsonl", "columns": {"heading": "title"}}
    entry["ingestion_date"] = DAY
    with pytest.raises(AuditInputError, match=r"no row of .* has the column 'title': correct columns: \{heading"):
        store_of(entry).scan()
    write_jsonl(tmp_path / "2.jsonl", [{"chunk_id": "2", "text": "two", "title": "T"}])
    assert store_of(entry).read_all().chunks["heading"].to_pylist() == [None, "T"]


def test_one_bad_byte_costs_one_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"chunk_id": 1, "text": "good"}\n{"chunk_id": 2, "text": "b\xffd"}\n')
    (tmp_path / "a.csv").write_bytes(b'chunk_id,text\n3,"good, ""old""\nfriend"\n4,b\xffd\n')
    binary = pa.table({"chunk_id": [5, 6], "text": pa.array([b"good", b"b\xffd"])})
    pq.write_table(binary, tmp_path / "a.parquet")
    for file_format, ids in (("jsonl", ("1", "2")), ("csv", ("3", "4")), ("parquet", ("5", "6"))):
        entry = {"name": "s", "uri": str(tmp_path), "format": file_format, "ingestion_date": DAY}
        rows = store_of(entry).read_all()
        assert rows.chunks["chunk_id"].to_pylist() == [ids[0]]
        assert (rows.rejected["chunk_id"].to_pylist(), rows.rejected["reason"].to_pylist()) == (
            [ids[1]],
            ["invalid_utf8"],
        )


def test_timestamps_with_zones_and_odd_arrow_types_are_cast(tmp_path: Path) -> None:
    moment = dt.datetime(2026, 1, 2, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-5)))
    table = pa.table(
        {
            "id": pa.array([1.0, None]),
            "meta": pa.array([{"body": "one"}, {"body": "two"}]),
            "source": pa.array(["s", "s"]).dictionary_encode(),
            "when": pa.array([moment, moment], pa.timestamp("ms", "America/New_York")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    columns = {"chunk_id": "id", "text": "meta.body", "ingestion_date": "when"}
    rows = store_of({"name": "s", "uri": str(tmp_path), "format": "parquet", "columns": columns}).read_all()
    assert rows.chunks.select(["chunk_id", "text", "batch"]).to_pylist() == [
        {"chunk_id": "1", "text": "one", "batch": "2026-01-03|s"}
    ]
    assert rows.rejected["reason"].to_pylist() == ["missing_id"]


def test_a_store_of_empty_files_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    store = store_of({"name": "s", "uri": str(tmp_path), "format": "csv"})
    scan = store.scan()
    assert (scan.batches, scan.earliest, scan.slugs) == ({}, None, {"s": "s"})
    assert len(store.read_all().chunks) == 0
