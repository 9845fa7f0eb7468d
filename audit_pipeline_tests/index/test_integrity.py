"""The table against the source store: rows lost, left over, repeated, broken, and what was not measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.index.integrity import check_batch, check_corpus
from audit_pipeline.index.snapshot import USABLE, ZERO
from audit_pipeline_tests.index.audited import (
    D1,
    D2,
    IDS,
    NO_REJECTED,
    audited,
    codes,
    edited,
    four_cells,
    stored_as,
    told,
)
from audit_pipeline_tests.index.builders import (
    as_it_stands,
    audit_settings,
    chunks,
    foreign,
    lists,
    snapshot_of,
    unit_vectors,
    write,
)


def test_a_faithful_table_has_no_finding_but_the_missing_index(tmp_path: Path) -> None:
    store = four_cells()
    write(tmp_path / "db", stored_as(store))
    result = audited(tmp_path, store)
    assert codes(result) == {"index_absent"}
    table = result.tables["batch_integrity"]
    assert table.schema.equals(schemas.BATCH_INTEGRITY)
    assert table["batch"].to_pylist() == ["2026-01-02|a", "2026-01-02|b", "2026-01-03|a", "2026-01-03|b"]
    assert table["store_rows"].to_pylist() == table["table_rows"].to_pylist() == [2, 2, 2, 2]
    assert table["vector_drift"].null_count == 4  # an ingest compares all vectors, an audit of the table a few
    for name in set(schemas.BATCH_INTEGRITY.names[5:]) - {"vector_drift"}:
        assert table[name].to_pylist() == [0, 0, 0, 0], name


def test_rows_the_writer_dropped_are_missing_in_their_cell_only(tmp_path: Path) -> None:
    store = four_cells()
    write(tmp_path / "db", stored_as(store).filter(pa.array(np.array(store["chunk_id"]) != "b2-1")))
    result = audited(tmp_path, store)
    (missing,) = told(result, "missing_rows")
    assert missing.scope == {"source": "b", "ingestion_date": "2026-01-03"}
    assert (missing.severity, missing.share, missing.n_compared, missing.examples) == ("error", 0.5, 2, ["b2-1"])
    assert codes(result) == {"missing_rows", "index_absent"}


def test_of_two_documents_with_one_id_the_one_that_the_table_does_not_hold_is_missing(tmp_path: Path) -> None:
    store = chunks(["x", "y"])
    rejected = pa.Table.from_pylist(
        [
            {
                "row": 5,
                "origin": "later.jsonl",
                "chunk_id": "x",
                "source": "a",
                "batch": "2026-01-03|a",
                "reason": "id_collision",
                "detail": "held by another row",
                "text": "the later document",
            }
        ],
        schema=schemas.REJECTED_CHUNKS,
    )
    held_and_lost = (("text of x", D2), ("the later document", D1), ("yet another text", D2))
    for place, (held, lost_day) in enumerate(held_and_lost):
        folder = tmp_path / str(place)
        write(folder / "db", edited(stored_as(store), {"x": held}))
        result = audited(folder, store, rejected)
        (missing,) = told(result, "missing_rows")
        assert missing.scope == {"source": "a", "ingestion_date": lost_day.isoformat()}
        assert (missing.evidence["kinds"], missing.examples) == ({"id_collision": 1}, ["x"])
        assert len(told(result, "text_drift")) == (held == "yet another text")
        counted = {row["ingestion_date"]: row for row in result.tables["batch_integrity"].to_pylist()}
        assert sum(row["missing_rows"] for row in counted.values()) == 1


def test_chunks_left_over_from_a_longer_page_are_orphans(tmp_path: Path) -> None:
    page = chunks([f"p{n}" for n in range(5)])
    write(tmp_path / "db", stored_as(page))
    (orphans,) = told(audited(tmp_path, page.slice(0, 3)), "orphan_rows")
    assert (orphans.severity, orphans.evidence["rows"], orphans.examples) == ("warning", 2, ["p3", "p4"])
    assert (orphans.share, orphans.n_compared) == (0.4, 5)


def test_rows_of_sources_that_the_settings_do_not_name_are_no_orphans(tmp_path: Path) -> None:
    store = chunks(["x"], "a")
    write(tmp_path / "db", stored_as(pa.concat_tables([store, chunks(["y"], "theirs")])))
    assert told(audited(tmp_path, store, sources=("a",)), "orphan_rows") == []
    (every,) = told(audited(tmp_path, store, sources=("*",)), "orphan_rows")
    assert every.scope == {"source": "theirs", "ingestion_date": "2026-01-02"}


def test_a_second_writers_copy_of_a_row_is_a_duplicate_id(tmp_path: Path) -> None:
    store = chunks(["x", "y"])
    table = write(tmp_path / "db", stored_as(store))
    table.add(stored_as(store.slice(0, 1)))
    result = audited(tmp_path, store)
    (repeated,) = told(result, "duplicate_ids")
    assert (repeated.examples, repeated.n_compared) == (["x"], 3)
    assert result.tables["batch_integrity"]["duplicate_ids"].to_pylist() == [1]


def test_one_all_zero_vector_is_invalid(tmp_path: Path) -> None:
    vectors = unit_vectors(8)
    vectors[3] = 0
    write(tmp_path / "db", stored_as(chunks(IDS), vectors))
    (invalid,) = told(audited(tmp_path, chunks(IDS)), "invalid_vectors")
    assert (invalid.examples, invalid.evidence["states"], invalid.share) == (["c3"], {"zero": 1}, 0.125)


def test_nan_rows_are_invalid_missing_or_zero_as_the_writer_handled_them(tmp_path: Path) -> None:
    vectors = unit_vectors(8)
    vectors[2] = np.nan
    store = chunks(IDS)
    for handling in ("null", "drop", "fill"):
        write(tmp_path / handling / "db", stored_as(store, vectors), on_bad_vectors=handling, fill_value=0.0)
    kept = audited(tmp_path / "null", store)
    assert told(kept, "invalid_vectors")[0].evidence["states"] == {"null": 1}
    lost = audited(tmp_path / "drop", store)
    assert told(lost, "missing_rows")[0].examples == ["c2"]
    assert "invalid_vectors" not in codes(lost)
    filled = audited(tmp_path / "fill", store)
    assert told(filled, "invalid_vectors")[0].evidence["states"] == {"zero": 1}


def test_empty_texts_are_told_in_the_table_and_among_the_rejected(tmp_path: Path) -> None:
    store = chunks(["x", "y"])
    rejected = pa.Table.from_pylist(
        [
            {
                "row": n,
                "origin": "f.jsonl",
                "chunk_id": f"e{n}",
                "source": "a",
                "batch": "2026-01-02|a",
                "reason": "empty_text",
                "detail": "white space only",
                "text": " " * n,
            }
            for n in range(2)
        ],
        schema=schemas.REJECTED_CHUNKS,
    )
    write(tmp_path / "db", stored_as(store))
    result = audited(tmp_path, store, rejected)
    (empty,) = told(result, "empty_text")
    assert (empty.evidence["kinds"], empty.n_compared, empty.examples) == ({"rejected": 2}, 4, ["e0", "e1"])
    assert result.tables["batch_integrity"]["rejected_rows"].to_pylist() == [2]
    assert "missing_rows" not in codes(result)


def test_rows_over_the_declared_limit_are_counted_in_each_batch(tmp_path: Path) -> None:
    store = four_cells(20)
    tokens = np.full(80, 100, dtype=np.int32)
    tokens[:6] = 300  # 6 of 20 in (a, D1)
    tokens[20:25] = 300  # 5 of 20 in (a, D2): a quarter, not more
    store = store.set_column(store.schema.get_field_index("n_tokens"), "n_tokens", pa.array(tokens))
    write(tmp_path / "db", stored_as(store))
    result = audited(tmp_path, store)
    assert result.tables["batch_integrity"]["truncated_rows"].to_pylist() == [6, 0, 5, 0]


def test_without_a_store_what_needs_it_is_not_measured_and_never_a_zero(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign(IDS, unit_vectors(8)))
    result = audited(tmp_path, None, None, ())
    (finding,) = told(result, "not_measured")
    assert finding.n_compared == 0
    assert finding.evidence["checks"] == ["missing_rows", "orphan_rows", "text_drift"]
    row = result.tables["batch_integrity"].to_pylist()[0]
    assert [row[name] for name in ("store_rows", "missing_rows", "orphan_rows", "text_drift")] == [None] * 4
    assert (row["table_rows"], row["invalid_vectors"], row["duplicate_ids"]) == (8, 0, 0)


def test_findings_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    store = four_cells(5)
    table = edited(stored_as(store), {"a1-0": "x", "b2-3": "y", "a2-4": "z"})
    order = np.random.default_rng(0).permutation(20)
    write(tmp_path / "one" / "db", table)
    write(tmp_path / "two" / "db", table.take(pa.array(order)))
    one, two = audited(tmp_path / "one", store), audited(tmp_path / "two", store.take(pa.array(order[::-1])))
    assert [finding.as_dict() for finding in one.findings] == [finding.as_dict() for finding in two.findings]
    assert one.tables["batch_integrity"].equals(two.tables["batch_integrity"])


def test_one_batch_by_itself_gives_one_row(tmp_path: Path) -> None:
    store = chunks(["x", "y", "z"])
    rows = store.slice(0, 2)
    state = np.array([USABLE, ZERO], dtype=np.uint8)
    (row,) = check_batch(rows, state, store, NO_REJECTED, 4).to_pylist()
    expected = {"store_rows": 3, "table_rows": 2, "missing_rows": 1, "invalid_vectors": 1, "truncated_rows": 3}
    assert {name: row[name] for name in expected} == expected
    assert row["vector_drift"] is None
    assert check_batch(rows, state, store, NO_REJECTED, 4, 1)["vector_drift"].to_pylist() == [1]
    nothing = schemas.CHUNKS.empty_table()
    assert check_batch(nothing, state[:0], nothing, NO_REJECTED, 4).num_rows == 0


def test_rows_of_another_length_are_a_dimension_mismatch(tmp_path: Path) -> None:
    column = pa.array([*unit_vectors(7).tolist(), [1.0, 0.0]], pa.list_(pa.float32()))
    write(tmp_path / "db", pa.table({"chunk_id": IDS, "text": [f"text of {name}" for name in IDS], "emb": column}))
    result = audited(tmp_path, None, None, (), columns={"vector": "emb"})
    assert told(result, "dimension_mismatch")[0].examples == ["c7"]
    assert told(result, "invalid_vectors") == []


def test_the_store_places_a_row_that_the_table_files_under_another_date(tmp_path: Path) -> None:
    from audit_pipeline.index.reading import adopt_store_cells

    store = four_cells()
    moved = stored_as(store).set_column(3, "ingestion_date", pa.array([D1] * 8))
    write(tmp_path / "db", moved)
    snapshot = adopt_store_cells(snapshot_of(tmp_path / "db", tmp_path / "work"), store)
    broken = replace(snapshot, vector_state=np.where(np.arange(8) == 2, ZERO, snapshot.vector_state).astype(np.uint8))
    result = check_corpus(broken, store, NO_REJECTED, 256, audit_settings(as_it_stands(tmp_path / "db"), ("a", "b")))
    (invalid,) = told(result, "invalid_vectors")
    assert invalid.scope == {"source": "a", "ingestion_date": "2026-01-03"}


def test_rows_that_the_filter_keeps_out_are_counted_and_those_lost_to_a_null_are_a_warning(tmp_path: Path) -> None:
    tenants = ["x", "x", None, None, "y", "x", "x", "x"]
    write(tmp_path / "db", foreign(IDS, unit_vectors(8), tenant=tenants))
    found = told(audited(tmp_path, None, None, (), filter="tenant != 'y'"), "filter_excludes")
    assert {finding.severity: finding.examples for finding in found} == {"warning": ["c2", "c3"], "info": ["c4"]}
    assert [finding.share for finding in found] == [0.25, 0.125]
    assert told(audited(tmp_path, None, None, (), filter="chunk_id != 'z'"), "filter_excludes") == []


def test_rows_whose_id_is_null_are_counted_and_never_an_error(tmp_path: Path) -> None:
    ids = [None if n in (2, 5) else name for n, name in enumerate(IDS)]
    texts = [f"text of {name}" for name in IDS]
    vectors = lists(unit_vectors(8))
    for name, columns, told_of in (
        ("some", {"chunk_id": ids}, 2),
        ("none", {"chunk_id": IDS}, None),
        ("no column", {}, None),
    ):
        folder = tmp_path / name
        write(folder / "db", pa.table({**columns, "text": texts, "vector": vectors}))
        found = [f for f in audited(folder, None, None).findings if f.evidence.get("checks") == ["ids"]]
        assert [(f.code, f.severity, f.evidence["rows"]) for f in found] == (
            [("not_measured", "info", told_of)] if told_of else []
        )
        assert ["2 of 8 rows have no id" in f.message for f in found] == [True] * len(found)
