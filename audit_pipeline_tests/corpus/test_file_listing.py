"""Which files a folder holds: links, names, folders of others. What stands in them is tested elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from audit_pipeline.corpus import json_lines
from audit_pipeline.corpus.files import find_files
from audit_pipeline.source_settings import SourceSettings
from audit_pipeline_tests.corpus.builders import store_of, write_jsonl


def origins(folder: Path, uri: str = "", file_format: str = "markdown") -> list[str]:
    entry = SourceSettings.model_validate({"name": "s", "uri": str(folder / uri), "format": file_format})
    return [file.origin for file in find_files(entry)]


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")


def test_links_that_lead_back_give_no_file_twice_and_others_are_followed(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "docs/sub/b.md", "shared/c.md")
    (tmp_path / "docs/sub/up").symlink_to(tmp_path / "docs")
    (tmp_path / "docs/self").symlink_to(".")
    (tmp_path / "docs/shared").symlink_to(tmp_path / "shared")
    (tmp_path / "docs/one.md").symlink_to("a.md")
    assert origins(tmp_path, "docs") == ["a.md", "one.md", "shared/c.md", "sub/b.md"]
    assert origins(tmp_path, "docs/") == origins(tmp_path, "docs")
    assert origins(tmp_path, "doc*") == [f"docs/{origin}" for origin in origins(tmp_path, "docs")]


def test_what_is_hidden_or_of_others_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".git/b.md", "_draft/c.md", ".d.md", "node_modules/pkg/README.md", "x/node_modules/e.md")
    assert origins(tmp_path) == ["a.md"]
    assert origins(tmp_path, "node_modules") == ["pkg/README.md"]  # named outright


def test_names_of_any_script_and_of_files_that_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path, "f\u00fc\u00df \u2713 a#b|c.md", "\u65e5\u672c/\u8a9e.md")
    Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.txt")).write_text("no Markdown")
    assert origins(tmp_path) == ["f\u00fc\u00df \u2713 a#b|c.md", "\u65e5\u672c/\u8a9e.md"]


def test_a_folder_that_is_named_like_a_file(tmp_path: Path) -> None:
    write(tmp_path, "x.parquet/part.parquet", "x.parquet/_metadata.parquet")
    assert origins(tmp_path, "", "parquet") == ["x.parquet/part.parquet"]
    assert origins(tmp_path, "x.parquet", "parquet") == ["part.parquet"]
    assert origins(tmp_path, "*.parquet", "parquet") == ["x.parquet/part.parquet"]


def test_lines_are_read_by_bytes_where_they_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"chunk_id": i, "text": "t" * 100, "unused": "u" * 1000} for i in range(40)]
    uri = write_jsonl(tmp_path / "a.jsonl", rows)
    entry = {"name": "s", "uri": uri, "format": "jsonl", "ingestion_date": "2026-01-02"}
    monkeypatch.setattr(json_lines, "_BYTES_AT_ONCE", 5_000)
    made: list[int] = []
    column = json_lines._json_column
    monkeypatch.setattr(
        json_lines, "_json_column", lambda records, *rest: made.append(len(records)) or column(records, *rest)
    )
    assert store_of(entry).read_all().chunks["chunk_id"].to_pylist() == sorted(str(i) for i in range(40))
    assert max(made) == 5


def test_quotes_within_values_close_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('chunk_id,text\na,a 5" pipe\nb,"two ""x"" words, and\nlines"\nc,end\n')
    rows = store_of({"name": "s", "uri": str(tmp_path), "format": "csv", "ingestion_date": "2026-01-02"}).read_all()
    assert rows.chunks["text"].to_pylist() == ['a 5" pipe', 'two "x" words, and\nlines', "end"]
