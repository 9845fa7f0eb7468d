"""Folders of Markdown files as a source of the store."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.corpus.store import SourceStore
from audit_pipeline.errors import AuditInputError
from audit_pipeline_tests.corpus.builders import store_of


def store(folder: Path, uri: str = "", **entry: Any) -> SourceStore:
    return store_of({"name": "docs", "uri": str(folder / uri), "format": "markdown", **entry})


def write(folder: Path, name: str, text: str | bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    moment = dt.datetime(2026, 3, 4, 12, tzinfo=dt.UTC).timestamp()
    os.utime(path, (moment, moment))


def test_a_folder_of_files(tmp_path: Path) -> None:
    write(
        tmp_path, "guide/install.md", "\ufeff---\ntitle: T\n---\n# Install\r\n\r\nRun it.\r\n\r\n## Linux\r\nNow.\r\n"
    )
    write(tmp_path, "README.markdown", "\ufeffNo title.")
    write(tmp_path, "empty.md", "")
    write(tmp_path, "notes.txt", "no Markdown")
    rows = store(tmp_path).read_all()
    assert len(rows.rejected) == 0
    fields = ["chunk_id", "doc_id", "heading", "position", "text", "batch"]
    assert [list(row.values()) for row in rows.chunks.select(fields).to_pylist()] == [
        ["docs:README.markdown", "README.markdown", None, 0, "No title.", "2026-03-04|docs"],
        ["docs:guide/install.md#Install", "guide/install.md", "Install", 0, "Run it.", "2026-03-04|docs"],
        ["docs:guide/install.md#Install|Linux", "guide/install.md", "Install > Linux", 1, "Now.", "2026-03-04|docs"],
    ]
    assert len(store(tmp_path, "*/*.md").read_all().chunks) == 2
    assert store(tmp_path, "README.markdown").read_all().chunks["text"].to_pylist() == ["No title."]


def test_length_and_overlap_are_settings(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "a b c\n\nd e f\n")
    chunks = store(tmp_path, markdown={"words": 4, "overlap": 1}).read_all().chunks
    assert chunks["text"].to_pylist() == ["a b c", "c\n\nd e f"]


@pytest.mark.parametrize(
    ("front", "batch"),
    [
        ("date: 2026-01-02", "2026-01-02|docs"),
        ("date: 2026-01-02T23:30:00-05:00", "2026-01-03|docs"),
        ("date: '20260102'", "2026-01-02|docs"),
        ("date: 1767312000", "2026-01-02|docs"),
    ],
)
def test_the_date_of_the_front_matter(tmp_path: Path, front: str, batch: str) -> None:
    write(tmp_path, "a.md", f"---\n{front}\n---\ntext\n")
    assert list(store(tmp_path, columns={"ingestion_date": "date"}).scan().batches) == [batch]
    assert list(store(tmp_path).scan().batches) == ["2026-03-04|docs"]  # not named, not used


def test_dates_below_another_key_and_in_toml(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "---\npage:\n  date: 2026-01-02\n---\ntext\n")
    write(tmp_path, "b.md", "+++\n[page]\ndate = 2026-01-02T10:00:00Z\n+++\nother\n")
    scan = store(tmp_path, columns={"ingestion_date": "page.date"}).scan()
    assert {key: info.rows for key, info in scan.batches.items()} == {"2026-01-02|docs": 2}


def test_files_without_the_date_or_with_one_that_may_be_two_are_rejected_and_told(tmp_path: Path) -> None:
    write(tmp_path, "good.md", "---\ndate: 2026-01-02\n---\ngood\n")
    write(tmp_path, "lacks.md", "lacks\n")
    write(tmp_path, "either.md", "---\ndate: 03/04/2026\n---\neither\n")
    write(tmp_path, "list.md", "---\ndate: [1]\n---\nlist\n")
    entry = {"columns": {"ingestion_date": "date"}}
    rows = store(tmp_path, **entry).read_all()
    assert rows.chunks["text"].to_pylist() == ["good"]
    assert dict(zip(rows.rejected["text"].to_pylist(), rows.rejected["detail"].to_pylist(), strict=True)) == {
        "lacks": "the file has no dates, though others of its source do",
        "either": "column 'date' does not show which part is the month: write 03/04/2026 as 2026-04-03 or 2026-03-04",
        "list": "column 'date' holds no date",
    }
    assert set(rows.rejected["reason"].to_pylist()) == {"bad_date"}
    (tmp_path / "good.md").unlink()
    (tmp_path / "either.md").unlink()
    (tmp_path / "list.md").unlink()
    with pytest.raises(AuditInputError, match=r"no row of .* has the column 'date': correct columns"):
        store(tmp_path, **entry).scan()


def test_broken_front_matter_is_kept_out_where_no_date_is_wanted(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "---\ntitle: a: b\n---\ntext\n")
    assert store(tmp_path).read_all().chunks["text"].to_pylist() == ["text"]


def test_a_bad_byte_costs_the_chunk_that_it_stands_in(tmp_path: Path) -> None:
    write(tmp_path, "a.md", b"# A\n\ngood \xef\xbf\xbd\n\n# B\n\nb\xffd\n\n# C\n\nfine\n")
    rows = store(tmp_path).read_all()
    assert rows.chunks["chunk_id"].to_pylist() == ["docs:a.md#A", "docs:a.md#C"]
    assert rows.rejected.select(["chunk_id", "reason"]).to_pylist() == [
        {"chunk_id": "docs:a.md#B", "reason": "invalid_utf8"}
    ]


def test_an_edit_changes_the_batch_of_its_file_alone(tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path, f"{day}.md", f"---\ndate: 2026-01-0{day}\n---\n# A\n\none\n\n# B\n\ntwo\n")
    entry = {"columns": {"ingestion_date": "date"}}
    before = {key: info.content_hash for key, info in store(tmp_path, **entry).scan().batches.items()}
    write(tmp_path, "1.md", "---\ndate: 2026-01-01\n---\n# A\n\nnew words\n\n# B\n\ntwo\n")
    after = {key: info.content_hash for key, info in store(tmp_path, **entry).scan().batches.items()}
    assert [key for key in before if before[key] != after[key]] == ["2026-01-01|docs"]
