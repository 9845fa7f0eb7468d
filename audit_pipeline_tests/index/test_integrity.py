import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.findings import Finding
from audit_pipeline.index.integrity import check_batch, check_corpus
from audit_pipeline.index.snapshot import USABLE, ZERO
from audit_pipeline.index.text_drift import WORDS
from audit_pipeline.results import StageResult
from audit_pipeline_tests.index.builders import (
    DAY,
    as_it_stands,
    audit_settings,
    chunks,
    foreign,
    lists,
    snapshot_of,
    unit_vectors,
    write,
)

D1, D2 = DAY, DAY + dt.timedelta(days=1)
IDS = [f"c{n}" for n in range(8)]
NO_REJECTED = schemas.REJECTED_CHUNKS.empty_table()


def audited(
    folder: Path,
    store: pa.Table | None,
    rejected: pa.Table | None = NO_REJECTED,
    sources: tuple[str, ...] = ("a", "b"),
    max_tokens: int | None = 256,
    **settings: Any,
) -> StageResult:
    """The integrity of the table docs in folder/db against a store."""
    snapshot = snapshot_of(folder / "db", folder / "work", **settings)
    index = as_it_stands(folder / "db", **settings)
    return check_corpus(snapshot, store, rejected, max_tokens, audit_settings(index, sources))


def told(result: StageResult, code: str) -> list[Finding]:
    return [finding for finding in result.findings if finding.code == code]


def codes(result: StageResult) -> set[str]:
    return {finding.code for finding in result.findings}


def four_cells(n: int = 2) -> pa.Table:
    """n rows in each of the cells (a, D1), (a, D2), (b, D1), (b, D2), ids like a1-0."""
    parts = [
        chunks([f"{source}{number}-{i}" for i in range(n)], source, day)
        for source in ("a", "b")
        for number, day in ((1, D1), (2, D2))
    ]
    return pa.concat_tables(parts)


def stored_as(store: pa.Table, vectors: np.ndarray | None = None) -> pa.Table:
    """The table that a faithful writer makes of a store."""
    made = foreign(
        store["chunk_id"].to_pylist(),
        unit_vectors(store.num_rows) if vectors is None else vectors,
        source=store["source"],
        ingestion_date=store["ingestion_date"],
    )
    return made.set_column(1, "text", store["text"])


def edited(table: pa.Table, texts: dict[str, str]) -> pa.Table:
    pairs = zip(table["chunk_id"].to_pylist(), table["text"].to_pylist(), strict=True)
    return table.set_column(1, "text", pa.array([texts.get(name, text) for name, text in pairs]))


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


def test_a_lost_section_is_an_error_and_another_unicode_form_is_a_warning(tmp_path: Path) -> None:
    store = chunks(["x", "y", "z"], texts=["Intro.\n\nSee the caf\u00e9 manual.", "caf\u00e9", "unchanged"])
    write(tmp_path / "db", edited(stored_as(store), {"x": "Intro.", "y": "cafe\u0301"}))
    drift = {finding.severity: finding for finding in told(audited(tmp_path, store), "text_drift")}
    assert drift["error"].examples == ["x"]
    lost = {"least": 21, "median": 21, "most": 21}  # a space and "See the cafe manual."
    assert drift["error"].evidence == {"rows": 1, "kinds": {"truncated": 1}, "characters_lost": lost}
    assert drift["warning"].examples == ["y"]
    assert drift["warning"].evidence == {"rows": 1, "undone_by": {"unicode_form": 1}}
    assert drift["error"].share == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("kind", "severity", "stored"),
    [
        (
            "unicode_form",
            "warning",
            "<p>The Cafe\u0301 \u2013 tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*, also on Sundays.",
        ),
        (
            "white_space",
            "warning",
            "<p>The Caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p> Open *daily*,\nalso on Sundays.",
        ),
        ("entities", "warning", "<p>The Caf&eacute; \u2013 tea & \ufb01ne cakes</p>\n\nOpen *daily*, also on Sundays."),
        ("quotes", "error", "<p>The Caf\u00e9 - tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*, also on Sundays."),
        (
            "compatibility",
            "error",
            "<p>The Caf\u00e9 \u2013 tea &amp; fine cakes</p>\n\nOpen *daily*, also on Sundays.",
        ),
        ("case", "error", "<p>the caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p>\n\nopen *daily*, also on sundays."),
        ("html_tags", "error", "The Caf\u00e9 \u2013 tea & \ufb01ne cakes\nOpen *daily*, also on Sundays."),
        ("markdown", "error", "The Caf\u00e9 \u2013 tea & \ufb01ne cakes\nOpen daily, also on Sundays."),
        ("truncated", "error", "<p>The Caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*,"),
        ("section_lost", "error", "Open *daily*, also on Sundays."),
        ("differs", "error", "<p>The Caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*, also on Mondays."),
        (None, None, None),
    ],
)
def test_what_one_batch_changed_is_named_and_placed(
    tmp_path: Path, kind: str | None, severity: str | None, stored: str | None
) -> None:
    own = "<p>The Caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*, also on Sundays."
    store = four_cells()
    texts = [f"{own} {name}." for name in store["chunk_id"].to_pylist()]
    store = pa.concat_tables(
        [
            chunks([row["chunk_id"]], row["source"], row["ingestion_date"], [text])
            for row, text in zip(store.to_pylist(), texts, strict=True)
        ]
    )
    tail = "" if kind == "truncated" else " {}."
    changed = {name: stored + tail.format(name) for name in ("b2-0", "b2-1")} if stored else {}
    write(tmp_path / "db", edited(stored_as(store), changed))
    drift = told(audited(tmp_path, store), "text_drift")
    if kind is None:
        assert drift == []
        return
    (found,) = drift
    assert (found.severity, found.scope) == (severity, {"source": "b", "ingestion_date": D2.isoformat()})
    assert found.evidence["kinds" if severity == "error" else "undone_by"] == {kind: 2}
    assert found.message.endswith(f": 2 {WORDS[kind]}.")
    assert (found.n_compared, found.share, found.examples) == (2, 1.0, ["b2-0", "b2-1"])
    lost = len(" also on Sundays. b2-0.")
    assert found.evidence.get("characters_lost", {}).get("median") == (lost if kind == "truncated" else None)


def test_rows_beyond_those_whose_markup_was_parsed_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit_pipeline.index.text_drift.MOST_PARSED", 0)
    store = chunks(["x", "y"], texts=["<b>some</b> words", "other words"])
    write(tmp_path / "db", edited(stored_as(store), {"x": "some words", "y": "Other words"}))
    (drift,) = told(audited(tmp_path, store), "text_drift")
    assert (drift.severity, drift.examples) == ("error", ["x", "y"])
    assert drift.evidence == {"rows": 2, "kinds": {"case": 1, "undetermined": 1}}


def test_drift_in_every_cell_is_told_once_for_the_corpus(tmp_path: Path) -> None:
    store = four_cells()
    changed = dict.fromkeys(("a1-0", "a2-0", "b1-0", "b2-0"), "other words")
    write(tmp_path / "db", edited(stored_as(store), changed))
    (drift,) = told(audited(tmp_path, store), "text_drift")
    assert (drift.scope, drift.share, drift.n_compared) == ({}, 0.5, 8)


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


def test_a_listed_index_over_a_placeholder_row_covers_nothing(tmp_path: Path) -> None:
    dummy = foreign(["__DUMMY__"], np.zeros((1, 16), dtype=np.float32))
    table = write(tmp_path / "db", dummy)
    table.create_index("vector", config=lancedb.index.IvfFlat(distance_type="l2"))
    table.add(foreign([f"c{n}" for n in range(2000)], unit_vectors(2000)))
    result = audited(tmp_path, None, None, ())
    assert told(result, "placeholder_rows")[0].examples == ["__DUMMY__"]
    assert not codes(result) & {"invalid_vectors", "metric_mismatch"}
    (empty,) = told(result, "index_empty")
    assert (empty.severity, empty.evidence["indexed_rows"], empty.evidence["unindexed_rows"]) == ("error", 1, 2000)
    assert told(result, "index_stale") == []


def test_an_ivf_pq_index_on_a_hundred_rows_is_empty_although_it_is_listed(tmp_path: Path) -> None:
    table = write(tmp_path / "db", foreign([f"c{n}" for n in range(100)], unit_vectors(100)))
    table.create_index("vector", config=lancedb.index.IvfPq(distance_type="cosine"))
    (empty,) = told(audited(tmp_path, None, None, ()), "index_empty")
    assert (empty.severity, empty.share, empty.evidence["indexed_rows"]) == ("error", 1.0, 0)


def test_rows_outside_the_index_are_a_warning_and_an_error_where_the_search_skips_them(tmp_path: Path) -> None:
    table = write(tmp_path / "db", foreign([f"c{n}" for n in range(600)], unit_vectors(600)))
    table.create_index("vector", config=lancedb.index.HnswSq(distance_type="cosine"))
    assert not codes(audited(tmp_path, None, None, ())) & {"index_stale", "index_empty", "index_absent"}
    table.add(foreign([f"late{n}" for n in range(20)], unit_vectors(20, seed=3)))
    for fast, severity in ((False, "warning"), (True, "error")):
        (stale,) = told(audited(tmp_path, None, None, (), search={"fast_search": fast}), "index_stale")
        assert (stale.severity, stale.evidence["unindexed_rows"]) == (severity, 20)
        assert stale.share == pytest.approx(20 / 620)


def test_fast_search_without_an_index_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign(IDS, unit_vectors(8)))
    (stale,) = told(audited(tmp_path, None, None, (), search={"fast_search": True}), "index_stale")
    assert (stale.severity, stale.share) == ("error", 1.0)


def test_another_metric_than_the_indexs_matters_only_where_lengths_differ(tmp_path: Path) -> None:
    vectors = unit_vectors(400)
    stretched = (vectors * np.random.default_rng(1).uniform(0.2, 5, size=(400, 1))).astype(np.float32)
    for name, rows in (("unit", vectors), ("stretched", stretched)):
        table = write(tmp_path / name / "db", foreign([f"c{n}" for n in range(400)], rows))
        table.create_index("vector", config=lancedb.index.IvfFlat(distance_type="cosine", num_partitions=2))
    assert not codes(audited(tmp_path / "unit", None, None, (), metric="l2")) & {"metric_mismatch", "not_normalised"}
    result = audited(tmp_path / "stretched", None, None, (), metric="l2")
    (mismatch,) = told(result, "metric_mismatch")
    assert mismatch.evidence["index_metric"] == "cosine"
    assert told(result, "not_normalised") == []  # one defect, told once
    assert not codes(audited(tmp_path / "stretched", None, None, ())) & {"metric_mismatch", "not_normalised"}


def test_lengths_off_one_are_an_error_under_dot_and_a_hint_where_a_few_differ_under_cosine(tmp_path: Path) -> None:
    store = four_cells(10)
    vectors = unit_vectors(40)
    vectors[:10] *= 3  # the cell (a, D1)
    write(tmp_path / "db", stored_as(store, vectors))
    cell = {"source": "a", "ingestion_date": "2026-01-02"}
    (dot,) = told(audited(tmp_path, store, metric="dot"), "not_normalised")
    assert (dot.severity, dot.scope, dot.share) == ("error", cell, 1.0)
    (cosine,) = told(audited(tmp_path, store), "not_normalised")
    assert (cosine.severity, cosine.scope) == ("warning", cell)


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_vectors_of_one_length_off_1_are_a_warning_for_they_rank_as_under_cosine(tmp_path: Path, metric: str) -> None:
    vectors = unit_vectors(400) * np.float32(2.5)
    table = write(tmp_path / "db", foreign([f"c{n}" for n in range(400)], vectors))
    table.create_index("vector", config=lancedb.index.IvfFlat(distance_type="cosine", num_partitions=2))
    result = audited(tmp_path, None, None, (), metric=metric)
    (off,) = told(result, "not_normalised")
    assert (off.severity, off.scope, off.share) == ("warning", {}, 1.0)
    assert f"all have length 2.5, so that they rank under {metric} as under cosine" in off.message
    assert off.evidence["lengths"] == pytest.approx({"shortest": 2.5, "median": 2.5, "longest": 2.5})
    assert told(result, "metric_mismatch") == []
    vectors[0] *= 1.1  # one row that wins whatever it says
    write(tmp_path / "mixed" / "db", foreign([f"c{n}" for n in range(400)], vectors))
    (off,) = told(audited(tmp_path / "mixed", None, None, (), metric=metric), "not_normalised")
    assert off.severity == "error"
    assert "long vectors win or lose whatever they say" in off.message


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
