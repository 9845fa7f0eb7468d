"""LanceDB tables as sources of the store."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus import lance_tables
from audit_pipeline.corpus.stamps import store_stamp
from audit_pipeline.corpus.store import SourceStore
from audit_pipeline.errors import AuditInputError
from audit_pipeline_tests.corpus.builders import TODAY, settings_of, store_of, write_jsonl

ROWS = [
    {"id": 1, "meta": {"body": "one"}, "loaded": "2026-01-02T23:30:00-05:00", "vector": [1.0, 0.0]},
    {"id": 2, "meta": {"body": "two"}, "loaded": "2026-01-04", "vector": [0.0, 1.0]},
]
COLUMNS = {"chunk_id": "id", "text": "meta.body", "ingestion_date": "loaded"}
LATER = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    return lancedb.connect(str(tmp_path / "store.lance")).create_table("docs", pa.Table.from_pylist(ROWS))


def entry(folder: Path, uri: str = "store.lance/docs.lance", **lance: Any) -> dict[str, Any]:
    part = {"lance": lance} if lance else {}
    return {"name": "s", "uri": str(folder / uri), "format": "lance", "columns": COLUMNS, **part}


def hashes(source: dict[str, Any]) -> dict[str, str]:
    return {key: info.content_hash for key, info in store_of(source).scan().batches.items()}


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("uri", "lance"),
    [
        ("store.lance/docs.lance", {}),
        ("store.lance/docs.lance/", {}),
        ("store.lance", {}),
        ("store.lance", {"table": "docs"}),
    ],
)
def test_a_table_by_its_folder_or_by_name_gives_the_rows_of_a_file(
    tmp_path: Path, uri: str, lance: dict[str, Any]
) -> None:
    beside = write_jsonl(tmp_path / "rows.jsonl", ROWS)
    plain = hashes({"name": "s", "uri": beside, "format": "jsonl", "columns": COLUMNS})
    assert list(plain) == ["2026-01-03|s", "2026-01-04|s"]
    assert hashes(entry(tmp_path, uri, **lance)) == plain


def test_a_new_version_changes_the_batches_whose_rows_changed(tmp_path: Path, table: Any) -> None:
    source = entry(tmp_path)
    before, stamp = hashes(source), store_stamp(settings_of(source), TODAY, LATER)
    assert stamp == store_stamp(settings_of(source), TODAY, LATER) is not None
    table.update(where="id = 2", values={"loaded": "2026-01-05"})
    table.add(pa.Table.from_pylist([ROWS[0] | {"id": 3}]))
    after = hashes(source)
    assert store_stamp(settings_of(source), TODAY, LATER) != stamp
    assert list(after) == ["2026-01-03|s", "2026-01-05|s"]
    assert after["2026-01-03|s"] != before["2026-01-03|s"]
    # Clean twin: a compaction is a version too, and no row of it is another.
    version = table.version
    table.optimize()
    assert table.version > version
    assert hashes(source) == after
    assert hashes(entry(tmp_path, version=1)) == before


def test_rows_that_arrive_while_the_table_is_read_are_not_seen(
    tmp_path: Path, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_lance = lance_tables.open_lance

    def opened_before_a_write(source: Any) -> lance_tables.LanceTable:
        opened = open_lance(source)
        table.add(pa.Table.from_pylist([ROWS[0] | {"id": 3}]))
        return opened

    monkeypatch.setattr(lance_tables, "open_lance", opened_before_a_write)
    assert store_of(entry(tmp_path)).read_all().chunks["chunk_id"].to_pylist() == ["1", "2"]
    assert store_of(entry(tmp_path)).read_all().chunks["chunk_id"].to_pylist() == ["1", "2", "3"]


def test_rows_without_dates_take_the_day_of_the_version(tmp_path: Path, table: Any) -> None:
    source = entry(tmp_path) | {"columns": COLUMNS | {"ingestion_date": None}}
    day = table.list_versions()[-1]["timestamp"].astimezone(dt.UTC).date()
    store = SourceStore(settings_of(source), today=day, start_date=None)
    assert {key: info.rows for key, info in store.scan().batches.items()} == {f"{day}|s": 2}
    assert list(store_of(source | {"ingestion_date": "2026-01-09"}).scan().batches) == ["2026-01-09|s"]


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("uri", "lance", "index_uri", "refused"),
    [
        ("store.lance/docs.lance", {}, "store.lance", True),
        ("store.lance/docs.lance/", {}, "beside/../store.lance/", True),
        ("store.lance", {}, "store.lance", True),
        ("link", {"table": "docs"}, "store.lance", True),
        ("store.lance", {"table": "docs", "version": 1}, "store.lance", False),  # what stood there once
        ("store.lance/docs.lance", {}, "another", False),
        ("store.lance", {"table": "faq"}, "store.lance", False),
    ],
)
def test_the_audited_table_is_not_its_own_source(
    tmp_path: Path, uri: str, lance: dict[str, Any], index_uri: str, refused: bool
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store.lance")
    (tmp_path / "beside").mkdir()
    lancedb.connect(str(tmp_path / "link")).create_table("faq", pa.Table.from_pylist(ROWS)) if lance else None
    store = store_of(entry(tmp_path, uri, **lance), index_uri=str(tmp_path / index_uri), table="docs")
    unread = store.scan(partial=True).unread
    assert ["is the audited table 'docs' itself" in str(error) for error in unread.values()] == [True] * refused


def test_a_managed_table_is_not_read_as_its_own_source_at_any_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "index")
    lancedb.connect(uri).create_table("chunks", pa.Table.from_pylist(ROWS))
    source = entry(tmp_path, "index/chunks.lance", version=1)
    settings = IndexAuditSettings.model_validate({"name": "t", "sources": [source], "encoder": {"model": "m"}})
    store = SourceStore(settings, today=TODAY, start_date=None, index_uri=uri)  # the state folder's own
    with pytest.raises(AuditInputError, match=r"name the table that it is filled from$"):
        store.scan()


def test_nothing_is_created_where_there_is_no_table(tmp_path: Path) -> None:
    assert store_of(entry(tmp_path)).scan(partial=True).unread.keys() == {"s"}
    assert list(tmp_path.iterdir()) == []
