"""Every writer's table is recognised and read: ids, texts, documents, dates, what is left out."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from lancedb.index import FTS

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.index.integrity import check_corpus
from audit_pipeline.index.layouts import layout_of
from audit_pipeline.index.reading import open_snapshot
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.index_settings import IndexSettings
from audit_pipeline_tests.index.builders import DAY, lists, unit_vectors, write
from audit_pipeline_tests.index.layouts.writers import (
    EMBEDDED,
    WITH_DATES,
    WRITERS,
    anythingllm,
    graphrag,
    llama_index,
    llama_index_embedded,
)

TEXTS = [f"Sentence number {i} about the letter {chr(97 + i)}." for i in range(12)]


def settings_of(uri: Path, table: str, **index: object) -> IndexAuditSettings:
    return IndexAuditSettings.model_validate(
        {
            "name": "t",
            "encoder": {"kind": "none"},
            "index": {"uri": str(uri), "table": table, "managed": False, **index},
        }
    )


def snapshot_of(
    uri: Path, table: str, work: Path, embed_fields: tuple[str, ...] = (), **index: object
) -> TableSnapshot:
    settings: IndexSettings = settings_of(uri, table, **index).index
    return open_snapshot(settings, str(uri), work, undated=DAY, embed_fields=embed_fields)


@pytest.mark.parametrize("name", WRITERS)
def test_each_layout_is_recognised_and_its_rows_are_read(name: str, tmp_path: Path) -> None:
    table = WRITERS[name](tmp_path / "db", TEXTS, unit_vectors(len(TEXTS)))
    schema = lancedb.connect(str(tmp_path / "db")).open_table(table).schema
    assert layout_of(schema, "auto", table)[0].name == name
    assert layout_of(schema, name, table)[0].name == name
    snapshot = snapshot_of(tmp_path / "db", table, tmp_path / "work")
    assert snapshot.info.layout == name
    rows = snapshot.rows
    assert len(set(rows["chunk_id"].to_pylist())) == len(rows)
    if name == "graphrag":
        assert set(rows["text"].to_pylist()) == {""}
        assert "text" in snapshot.absent
    else:
        assert rows["text"].to_pylist()[: len(TEXTS)] == (EMBEDDED[name](TEXTS) if name == "anythingllm" else TEXTS)
    assert (rows["ingestion_date"].null_count == 0) == (name in WITH_DATES)
    assert snapshot.search(np.asarray(snapshot.vectors[:3]), 2).rows[:, 0].tolist()[1:] == [1, 2]


def test_documents_of_a_second_table_give_title_and_date(tmp_path: Path) -> None:
    table = WRITERS["haiku_rag"](tmp_path / "db", TEXTS, unit_vectors(len(TEXTS)))
    rows = snapshot_of(tmp_path / "db", table, tmp_path / "work").rows
    assert rows["heading"].to_pylist()[:3] == ["guide.md", "api.md", "faq.md"]
    assert rows["ingestion_date"].to_pylist()[:2] == [dt.date(2026, 1, 5), dt.date(2026, 1, 6)]
    named = {"source": "documents[id=document_id].uri"}
    rows = snapshot_of(tmp_path / "db", table, tmp_path / "work", columns=named).rows
    assert rows["source"].to_pylist()[:2] == ["file:///guide.md", "file:///api.md"]


def test_what_llama_index_put_before_a_text_is_rebuilt(tmp_path: Path) -> None:
    table = llama_index(tmp_path / "db", TEXTS, unit_vectors(len(TEXTS)))
    rows = snapshot_of(tmp_path / "db", table, tmp_path / "work").rows
    whole = [before + text for before, text in zip(rows["before_text"].to_pylist(), TEXTS, strict=True)]
    assert whole == llama_index_embedded(TEXTS)


@pytest.mark.parametrize("name", ["haiku_rag", "crewai", "graphrag"])
def test_stand_ins_and_meant_zero_vectors_are_one_finding(name: str, tmp_path: Path) -> None:
    table = WRITERS[name](tmp_path / "db", TEXTS, unit_vectors(len(TEXTS)))
    settings = settings_of(tmp_path / "db", table)
    found = check_corpus(snapshot_of(tmp_path / "db", table, tmp_path / "work"), None, None, None, settings).findings
    codes = [finding.code for finding in found]
    assert codes.count("placeholder_rows") == 1
    assert not {"invalid_vectors", "empty_text", "duplicate_ids"} & set(codes)


def test_a_zero_vector_that_nobody_meant_is_a_fault(tmp_path: Path) -> None:
    vectors = unit_vectors(len(TEXTS))
    vectors[3] = 0
    table = WRITERS["haystack"](tmp_path / "db", TEXTS, vectors)
    settings = settings_of(tmp_path / "db", table)
    found = check_corpus(snapshot_of(tmp_path / "db", table, tmp_path / "work"), None, None, None, settings).findings
    assert [finding.code for finding in found if finding.severity == "error"] == ["invalid_vectors"]


def test_an_index_over_a_stand_in_alone_is_empty(tmp_path: Path) -> None:
    table = graphrag(tmp_path / "db", TEXTS, unit_vectors(len(TEXTS)))
    settings = settings_of(tmp_path / "db", table, metric="l2")
    snapshot = snapshot_of(tmp_path / "db", table, tmp_path / "work", metric="l2")
    errors = [f for f in check_corpus(snapshot, None, None, None, settings).findings if f.severity == "error"]
    assert [finding.code for finding in errors] == ["index_empty"]


def test_settings_win_over_the_layout_and_null_takes_a_field_away(tmp_path: Path) -> None:
    table = anythingllm(tmp_path / "db", TEXTS, unit_vectors(len(TEXTS)))
    columns = {"source": "docAuthor", "ingestion_date": None}
    snapshot = snapshot_of(tmp_path / "db", table, tmp_path / "work", columns=columns)
    assert set(snapshot.rows["source"].to_pylist()) == {"Unknown"}
    assert snapshot.rows["ingestion_date"].null_count == len(TEXTS)
    assert "ingestion_date" in snapshot.absent


def test_a_composite_id_is_unambiguous(tmp_path: Path) -> None:
    parts = {"file": ["a|b", "a", "a\\", None, "n"], "part": ["c", "b|c", "|", "x", None]}
    write(tmp_path / "db", pa.table({**parts, "text": list("vwxyz"), "vector": lists(unit_vectors(5))}))
    snapshot = snapshot_of(tmp_path / "db", "docs", tmp_path / "work", columns={"chunk_id": ["file", "part"]})
    assert snapshot.chunk_ids.to_pylist() == ["a\\|b|c", "a|b\\|c", "a\\\\|\\|", "\\N|x", "n|\\N"]


def test_a_column_of_the_table_may_be_what_was_embedded(tmp_path: Path) -> None:
    write(
        tmp_path / "db",
        pa.table(
            {
                "text": ["a", "b"],
                "context": ["of x", None],
                "meta": ['{"t": 1}', "no"],
                "vector": lists(unit_vectors(2)),
            }
        ),
    )
    rows = snapshot_of(tmp_path / "db", "docs", tmp_path / "work", embed_fields=("context", "text", "meta$.t")).rows
    assert rows["context"].to_pylist() == ["of x", None]
    assert rows["meta$.t"].to_pylist() == ["1", None]


def test_dates_that_are_not_understood_are_null_and_told(tmp_path: Path) -> None:
    days = ["1/2/2026", "2/1/2026", None, "2026-01-05"]
    write(tmp_path / "db", pa.table({"text": list("abcd"), "when": days, "vector": lists(unit_vectors(4))}))
    columns = {"ingestion_date": "when"}
    settings = settings_of(tmp_path / "db", "docs", columns=columns)
    snapshot = snapshot_of(tmp_path / "db", "docs", tmp_path / "work", columns=columns)
    assert snapshot.rows["ingestion_date"].to_pylist() == [None, None, None, dt.date(2026, 1, 5)]
    told = [f.message for f in check_corpus(snapshot, None, None, None, settings).findings if "dates" in f.message]
    assert told == [
        "2 of 4 dates in column 'when' were not understood (such as '1/2/2026', '2/1/2026'): their rows have no date."
    ]


def test_all_tables_of_one_shape_are_read_as_one_with_a_version_each(tmp_path: Path) -> None:
    uri = tmp_path / "db"
    for name, start in (("red", 0), ("blue", 4)):
        rows = {
            "chunk_id": list("abcd"),
            "text": TEXTS[start : start + 4],
            "vector": lists(unit_vectors(4, seed=start)),
        }
        write(uri, pa.table(rows), name)
    write(uri, pa.table({"key": ["x"]}), "settings")
    lancedb.connect(str(uri)).open_table("red").delete("chunk_id = 'd'")
    snapshot = snapshot_of(uri, "*", tmp_path / "work")
    assert snapshot.chunk_ids.to_pylist() == ["blue|a", "blue|b", "blue|c", "blue|d", "red|a", "red|b", "red|c"]
    assert snapshot.rows["source"].to_pylist() == ["blue"] * 4 + ["red"] * 3
    assert snapshot.info.pinned == {"blue": 1, "red": 2}
    assert snapshot.search(np.asarray(snapshot.vectors), 1).rows.ravel().tolist() == list(range(7))
    found = check_corpus(snapshot, None, None, None, settings_of(uri, "*")).findings
    several = [f for f in found if f.code == "not_measured" and "tables" in f.evidence]
    assert several[0].evidence == {"tables": ["blue", "red"], "left_out": ["settings"]}
    write(uri, pa.table({"chunk_id": ["e"], "text": ["new"], "vector": lists(unit_vectors(1))}), "green")
    again = open_snapshot(
        settings_of(uri, "*").index, str(uri), tmp_path / "again", undated=DAY, version={"blue": 1, "red": 1}
    )
    assert len(again.rows) == 8


@pytest.mark.parametrize("rows_added", [0, 12])
def test_a_full_text_index_that_does_not_cover_the_rows_is_stale(tmp_path: Path, rows_added: int) -> None:
    rows = pa.table({"text": TEXTS, "vector": lists(unit_vectors(len(TEXTS)))})
    table = write(tmp_path / "db", rows)
    table.create_index("text", config=FTS())
    if rows_added:
        table.add(rows)
    found = check_corpus(
        snapshot_of(tmp_path / "db", "docs", tmp_path / "work"), None, None, None, settings_of(tmp_path / "db", "docs")
    ).findings
    stale = [finding for finding in found if finding.code == "fts_index_stale"]
    assert [finding.evidence["unindexed_rows"] for finding in stale] == [rows_added] * bool(rows_added)


def test_a_full_text_index_that_was_made_on_an_empty_table_covers_nothing(tmp_path: Path) -> None:
    rows = pa.table({"text": TEXTS, "vector": lists(unit_vectors(len(TEXTS)))})
    table = write(tmp_path / "db", rows.slice(0, 0))
    table.create_index("text", config=FTS())
    table.add(rows)
    found = check_corpus(
        snapshot_of(tmp_path / "db", "docs", tmp_path / "work"), None, None, None, settings_of(tmp_path / "db", "docs")
    ).findings
    assert [f.message for f in found if f.code == "fts_index_stale"] == [
        "The full-text index on 'text' covers none of 12 rows: hybrid and text searches miss or scan the rest."
    ]
