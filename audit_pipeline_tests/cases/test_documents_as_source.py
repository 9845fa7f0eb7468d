"""A folder of Markdown and a Lance table that fill a managed index: what an edit of the one changes in the other."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.managed import bring_up_to_date
from audit_pipeline_tests.encoder.planted import docstrings

FILES = 8
SECTIONS = 3


def ingested(folder: Path, model: str, source: dict[str, Any]) -> tuple[list[str], Workspace]:
    """The batches that changed, brought up to date, and the workspace that did it first."""
    attributes = {"name": "managed", "sources": [source], "encoder": {"model": model}, "sample": {"arms": 0}}
    used: list[Workspace] = []

    def opened() -> Workspace:
        used.append(Workspace(parse_settings(attributes, "test", folder), folder / "state"))
        return used[-1]

    return [change.key for change in bring_up_to_date(opened)], used[0]


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The managed table's rows by chunk_id."""
    table = lancedb.connect(str(folder / "state" / "index" / "managed.lance")).open_table("chunks").to_arrow()
    listed = table.select(["chunk_id", "text", "heading", "position", "doc_id", "batch", "vector"]).to_pylist()
    assert len({row["chunk_id"] for row in listed}) == len(listed)
    return {row["chunk_id"]: row for row in listed}


def changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[str]]:
    """Per id the fields that differ; of an id that only one side has "new" or "gone"."""
    told = {}
    for key in before.keys() | after.keys():
        if key not in before or key not in after:
            told[key] = ["gone" if key in before else "new"]
        elif before[key] != after[key]:
            told[key] = [name for name in before[key] if before[key][name] != after[key][name]]
    return told


def write_page(folder: Path, number: int, sections: dict[str, str], day: int) -> None:
    path = folder / "docs" / f"{number}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# Page {number}\n\n" + "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items()))
    moment = dt.datetime(2026, 1, day, 12, tzinfo=dt.UTC).timestamp()
    os.utime(path, (moment, moment))


@pytest.mark.timeout(240)
def test_an_edit_of_a_folder_of_markdown_changes_the_rows_of_what_was_edited(
    tmp_path: Path, fast_encoder: Encoder
) -> None:
    texts = [" ".join(text.split()) for text in docstrings("rich", FILES * SECTIONS)]
    pages = [{f"Part {part}": texts[page * SECTIONS + part] for part in range(SECTIONS)} for page in range(FILES)]
    for number, page in enumerate(pages):
        write_page(tmp_path, number, page, 2 + number % 2)
    model = str(fast_encoder.files.folder)
    source = {"name": "docs", "uri": "docs", "format": "markdown", "markdown": {"words": 100_000}}
    changes, workspace = ingested(tmp_path, model, source)
    assert changes == ["2026-01-02|docs", "2026-01-03|docs"]
    for asset in CORPUS_ASSETS:
        asset.stage(workspace)
    audit = load(tmp_path / "state", "managed").audit
    assert (audit["index"]["rows"], audit["corpus"]["batches"]) == (FILES * SECTIONS, 2)
    assert {one["code"] for one in audit["findings"] if one["severity"] == "error"} == set()
    before = rows(tmp_path)
    row = before["docs:3.md#Page 3|Part 1"]
    told = {name: row[name] for name in ("doc_id", "heading", "position", "batch")}
    assert told == {"doc_id": "3.md", "heading": "Page 3 > Part 1", "position": 1, "batch": "2026-01-03|docs"}
    assert ingested(tmp_path, model, source)[0] == []

    # One text of page 0, one section of page 2, the whole of page 4, a title of page 6: all of one day.
    write_page(tmp_path, 0, pages[0] | {"Part 1": "Salt is mined below the hill."}, 2)
    write_page(tmp_path, 2, {title: text for title, text in pages[2].items() if title != "Part 0"}, 2)
    (tmp_path / "docs" / "4.md").unlink()
    write_page(tmp_path, 6, {title.replace("Part 2", "Rest"): text for title, text in pages[6].items()}, 2)
    changes, workspace = ingested(tmp_path, model, source)
    assert changes == ["2026-01-02|docs"]
    assert workspace.vectors.texts_encoded == 1  # a section that is renamed or moved keeps its text's vector
    after = rows(tmp_path)
    assert changed(before, after) == {
        "docs:0.md#Page 0|Part 1": ["text", "vector"],
        "docs:2.md#Page 2|Part 0": ["gone"],
        "docs:2.md#Page 2|Part 1": ["position"],
        "docs:2.md#Page 2|Part 2": ["position"],
        **{f"docs:4.md#Page 4|Part {part}": ["gone"] for part in range(SECTIONS)},
        "docs:6.md#Page 6|Part 2": ["gone"],
        "docs:6.md#Page 6|Rest": ["new"],
    }

    # Touched, and nothing else: all its rows move to the day of the touch, in both cells.
    write_page(tmp_path, 1, pages[1], 9)
    changes, workspace = ingested(tmp_path, model, source)
    assert (changes, workspace.vectors.texts_encoded) == (["2026-01-03|docs", "2026-01-09|docs"], 0)
    moved = rows(tmp_path)
    assert changed(after, moved) == {f"docs:1.md#Page 1|Part {part}": ["batch"] for part in range(SECTIONS)}
    assert ingested(tmp_path, model, source)[0] == []
    # Clean twin: where the front matter or the settings date the files, a touch is none.
    dated = source | {"ingestion_date": "2026-01-05"}
    ingested(tmp_path, model, dated)
    write_page(tmp_path, 1, pages[1], 10)
    assert ingested(tmp_path, model, dated)[0] == []


def test_a_lance_table_fills_a_managed_index_version_by_version(tmp_path: Path, fast_encoder: Encoder) -> None:
    texts = docstrings("rich", 12)
    stored = [{"id": i, "body": text, "loaded": f"2026-01-0{2 + i % 2}"} for i, text in enumerate(texts)]
    table = lancedb.connect(str(tmp_path / "db")).create_table("docs", pa.Table.from_pylist(stored[:10]))
    columns = {"chunk_id": "id", "text": "body", "ingestion_date": "loaded"}
    source = {"name": "docs", "uri": "db/docs.lance", "format": "lance", "columns": columns}
    model = str(fast_encoder.files.folder)
    assert ingested(tmp_path, model, source)[0] == ["2026-01-02|docs", "2026-01-03|docs"]
    before = rows(tmp_path)
    assert {key: row["text"] for key, row in before.items()} == {str(i): text for i, text in enumerate(texts[:10])}

    table.add(pa.Table.from_pylist([stored[10] | {"loaded": "2026-01-07"}]))
    table.update(where="id = 3", values={"body": "Salt is mined below the hill."})
    table.delete("id = 5")
    assert ingested(tmp_path, model, source)[0] == ["2026-01-03|docs", "2026-01-07|docs"]
    after = rows(tmp_path)
    assert changed(before, after) == {"10": ["new"], "3": ["text", "vector"], "5": ["gone"]}
    table.optimize()
    assert ingested(tmp_path, model, source)[0] == []
    # Back at an earlier version, the index is that of then.
    ingested(tmp_path, model, source | {"lance": {"version": 1}})
    assert changed(before, rows(tmp_path)) == {}
