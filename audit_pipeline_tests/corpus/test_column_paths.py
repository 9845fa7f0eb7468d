"""A source's columns named as in index.columns: fields of objects, keys of JSON strings, composite ids, none."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline_tests.corpus.builders import store_of, write_jsonl
from audit_pipeline_tests.index.builders import lists, snapshot_of, unit_vectors, write

ROWS: list[dict[str, Any]] = [
    {
        "page": page,
        "part": part,
        "payload": json.dumps({"content": f"text of {page} {part}", "when": "2026-01-02", "by": {"team": team}}),
        "meta": {"title": f"Title {part}", "inner": {"n": part}},
        "source": f"file {page}",
    }
    for page, part, team in (("a.md", 0, "red"), ("a|b.md", 1, "blue"), (None, 2, "red"))
]
COLUMNS = {
    "chunk_id": ["page", "part"],
    "text": "payload$.content",
    "ingestion_date": "payload$.when",
    "doc_id": "payload$.by.team",
    "source": None,
}
IDS = ["a.md|0", "a\\|b.md|1", "\\N|2"]


def written(folder: Path, file_format: str, rows: list[dict[str, Any]] = ROWS) -> str:
    path = folder / f"rows.{file_format}"
    if file_format == "jsonl":
        return write_jsonl(path, rows)
    if file_format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="", encoding="utf-8") as handle:
            flat = csv.DictWriter(handle, ["page", "part", "payload", "source"], extrasaction="ignore")
            flat.writeheader()
            flat.writerows(rows)
    return str(path)


def entry_of(uri: str, file_format: str, **columns: Any) -> dict[str, Any]:
    return {"name": "s", "uri": uri, "format": file_format, "columns": {**COLUMNS, **columns}}


@pytest.mark.parametrize("file_format", ["parquet", "jsonl", "csv"])
def test_json_strings_and_composite_ids_are_read_from_every_format(tmp_path: Path, file_format: str) -> None:
    chunks = store_of(entry_of(written(tmp_path, file_format), file_format)).read_all().chunks
    found = sorted(chunks.select(["chunk_id", "text", "doc_id", "batch"]).to_pylist(), key=lambda row: row["text"])
    assert [row["chunk_id"] for row in found] == [IDS[2], IDS[0], IDS[1]]
    assert [row["text"] for row in found] == ["text of None 2", "text of a.md 0", "text of a|b.md 1"]
    assert [row["doc_id"] for row in found] == ["red", "red", "blue"]
    assert {row["batch"] for row in found} == {"2026-01-02|s"}  # null: the data's own source column is no source


def test_composite_ids_of_store_and_table_are_the_same_strings(tmp_path: Path) -> None:
    flat = pa.table({name: [row[name] for row in ROWS] for name in ("page", "part", "payload")})
    write(tmp_path / "db", flat.append_column("vector", lists(unit_vectors(len(ROWS)))))
    columns = {"chunk_id": COLUMNS["chunk_id"], "text": COLUMNS["text"]}
    table = snapshot_of(tmp_path / "db", tmp_path / "work", columns=columns)
    chunks = store_of(entry_of(written(tmp_path, "jsonl"), "jsonl")).read_all().chunks
    assert sorted(table.chunk_ids.to_pylist()) == sorted(chunks["chunk_id"].to_pylist()) == sorted(IDS)
    assert sorted(table.rows["text_sha256"].to_pylist()) == sorted(chunks["text_sha256"].to_pylist())


@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_fields_of_objects_are_read_from_what_holds_objects(tmp_path: Path, file_format: str) -> None:
    entry = entry_of(written(tmp_path, file_format), file_format, heading="meta.title", position="meta.inner.n")
    chunks = store_of(entry).read_all().chunks
    assert sorted(zip(chunks["heading"].to_pylist(), chunks["position"].to_pylist(), strict=True)) == [
        ("Title 0", 0),
        ("Title 1", 1),
        ("Title 2", 2),
    ]


def test_a_json_line_that_lacks_a_key_costs_one_row(tmp_path: Path) -> None:
    rows = [*ROWS, {"page": "z.md", "part": 9, "payload": "{}"}, {"page": "z.md", "part": 10, "payload": "no json"}]
    entry = entry_of(written(tmp_path, "jsonl", rows), "jsonl", ingestion_date=None) | {"ingestion_date": "2026-01-02"}
    read = store_of(entry).read_all()
    assert read.chunks.num_rows == len(ROWS)
    assert read.rejected["reason"].to_pylist() == ["missing_text", "missing_text"]


@pytest.mark.parametrize(
    ("file_format", "columns", "message"),
    [
        ("parquet", {"heading": "meta.titel"}, r"no column 'meta\.titel' for heading; 'meta' holds title, inner"),
        ("parquet", {"text": "meta$.title"}, r"no column 'meta\$\.title' for text; 'meta' holds title, inner"),
        ("parquet", {"chunk_id": ["page", "prt"]}, r"no column 'prt' for chunk_id; did you mean 'part'\?"),
        ("csv", {"doc_id": "payload.by"}, r"no column 'payload\.by' for doc_id; 'payload' is of type string, not a"),
        ("csv", {"text": "payload$.contents"}, r"no row of .* has the column 'payload\$\.contents'; its JSON holds by"),
        ("jsonl", {"text": "payload$.contents"}, r"has the column 'payload\$\.contents'; its JSON holds by, content,"),
        ("parquet", {"chunk_id": ["page", "payload$.nr"]}, r"has the column \['page', 'payload\$\.nr'\]; its JSON"),
        ("jsonl", {"heading": "meta.titel"}, r"no row of .* has the column 'meta\.titel': correct columns"),
        ("jsonl", {"heading": "meta$.title"}, r"'meta\$\.title' for heading holds a JSON object, expected a string of"),
        ("jsonl", {"chunk_id": ["page", "prt"]}, r"no column 'prt' for chunk_id; did you mean 'part'\?"),
    ],
)
def test_a_place_that_is_not_there_is_named_with_what_is(
    tmp_path: Path, file_format: str, columns: dict[str, Any], message: str
) -> None:
    entry = entry_of(written(tmp_path, file_format), file_format, **columns)
    with pytest.raises(AuditInputError, match=message):
        store_of(entry).scan()
