"""Store and table paired by id or by text: which rows are lost or left over, and when neither can be told."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.findings import Finding
from audit_pipeline.index.integrity import check_corpus
from audit_pipeline.index.pairing import STORE_ID, Pairing, pair_with_store
from audit_pipeline.index.reading import adopt_store_cells
from audit_pipeline_tests.index.builders import (
    DAY,
    as_it_stands,
    audit_settings,
    chunks,
    lists,
    snapshot_of,
    unit_vectors,
    write,
)

TEXTS = [f"Text number {i} of the store." for i in range(8)]
NO_REJECTED = schemas.REJECTED_CHUNKS.empty_table()


def stored(texts: list[str], ids: list[str] | None = None, **columns: Any) -> pa.Table:
    """A table of others with ids of its own making, or with none."""
    own = {} if ids is None else {"chunk_id": ids}
    return pa.table({**own, "text": texts, **columns, "vector": lists(unit_vectors(len(texts)))})


def paired(folder: Path, store: pa.Table, rejected: pa.Table = NO_REJECTED) -> tuple[Pairing, list[Finding]]:
    """The pairing of the table docs in folder/db with a store, and what is found of its rows."""
    snapshot = snapshot_of(folder / "db", folder / "work")
    pairing = pair_with_store(snapshot, store, rejected)
    comparable = pairing.paired.by != "nothing"
    if comparable:
        snapshot = adopt_store_cells(snapshot, pairing.chunks)
    result = check_corpus(
        snapshot,
        pairing.chunks if comparable else None,
        pairing.rejected if comparable else None,
        256,
        audit_settings(as_it_stands(folder / "db"), ("*",)),
        paired=pairing.paired,
    )
    return pairing, [finding for finding in result.findings if finding.code != "index_absent"]


def rows_of(findings: list[Finding]) -> dict[str, int]:
    return {finding.code: finding.evidence["rows"] for finding in findings if "rows" in finding.evidence}


def test_one_shared_id_means_that_ids_are_the_same_kind(tmp_path: Path) -> None:
    write(tmp_path / "db", stored(TEXTS, ["s0", *[f"new {i}" for i in range(7)]]))
    pairing, findings = paired(tmp_path, chunks([f"s{i}" for i in range(8)], texts=TEXTS))
    assert pairing.paired.by == "chunk_id"
    assert rows_of(findings) == {"missing_rows": 7, "orphan_rows": 7}


def test_new_ids_at_each_ingest_are_paired_by_text_and_a_clean_table_is_silent(tmp_path: Path) -> None:
    order = [3, 1, 2, 0, 7, 6, 5, 4]
    write(tmp_path / "db", stored([TEXTS[i] for i in order], [f"uuid-{i}" for i in range(8)]))
    pairing, findings = paired(tmp_path, chunks([f"s{i}" for i in range(8)], texts=TEXTS))
    assert pairing.paired.by == "text"
    of_store = dict(zip(pairing.chunks[STORE_ID].to_pylist(), pairing.chunks["chunk_id"].to_pylist(), strict=True))
    assert of_store == {f"s{row}": f"uuid-{place}" for place, row in enumerate(order)}
    assert [(finding.code, finding.severity) for finding in findings] == [("not_measured", "info")]
    assert findings[0].evidence["checks"] == ["text_drift"]


def test_lost_and_left_over_rows_are_counted_by_text(tmp_path: Path) -> None:
    for ids in (None, [f"uuid-{i}" for i in range(8)]):
        folder = tmp_path / str(ids is None)
        write(folder / "db", stored([*TEXTS[:6], "A row of a page that is gone.", "Another."], ids))
        _, findings = paired(folder, chunks([f"s{i}" for i in range(8)], texts=TEXTS))
        assert rows_of(findings) == {"missing_rows": 2, "orphan_rows": 2}
        missing = next(finding for finding in findings if finding.code == "missing_rows")
        assert (missing.examples, missing.share, missing.n_compared) == (["s6", "s7"], 0.25, 8)
        assert "compared by their text" in missing.message


def test_the_rows_of_a_repeated_text_count_each(tmp_path: Path) -> None:
    write(tmp_path / "db", stored([TEXTS[0], *TEXTS, TEXTS[1]]))
    twice = chunks([f"s{i}" for i in range(10)], texts=[*TEXTS, TEXTS[0], TEXTS[2]])
    _, findings = paired(tmp_path, twice)
    assert rows_of(findings) == {"missing_rows": 1, "orphan_rows": 1}


def test_copies_of_a_text_find_their_own_date(tmp_path: Path) -> None:
    later = DAY + dt.timedelta(days=1)
    table = stored(["Same.", "Same.", *TEXTS], source=["a"] * 10, ingestion_date=[later, DAY, *[DAY] * 8])
    write(tmp_path / "db", table)
    store = pa.concat_tables(
        [chunks([f"s{i}" for i in range(9)], texts=["Same.", *TEXTS]), chunks(["late"], "a", later, ["Same."])]
    )
    pairing, findings = paired(tmp_path, store)
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "again")
    of_store = dict(zip(pairing.chunks[STORE_ID].to_pylist(), pairing.chunks["chunk_id"].to_pylist(), strict=True))
    assert of_store["late"] == snapshot.chunk_ids[0].as_py()
    assert of_store["s0"] == snapshot.chunk_ids[1].as_py()
    assert rows_of(findings) == {}


def test_what_a_splitter_trims_is_the_same_row_and_told_as_its_form(tmp_path: Path) -> None:
    write(tmp_path / "db", stored(TEXTS))
    _, findings = paired(tmp_path, chunks([f"s{i}" for i in range(8)], texts=[f"  {text}\n" for text in TEXTS]))
    drift = next(finding for finding in findings if finding.code == "text_drift")
    assert (drift.severity, drift.evidence["undone_by"]) == ("warning", {"white_space": 8})
    assert rows_of(findings) == {"text_drift": 8}


def test_texts_stored_in_another_form_are_not_compared_rather_than_all_lost(tmp_path: Path) -> None:
    write(tmp_path / "db", stored([f"title: a.md\n\n{text}" for text in TEXTS], [f"uuid-{i}" for i in range(8)]))
    pairing, findings = paired(tmp_path, chunks([f"s{i}" for i in range(8)], texts=TEXTS))
    assert (pairing.paired.by, pairing.paired.shared, pairing.paired.distinct) == ("nothing", 0, 8)
    assert {finding.code for finding in findings} == {"not_measured"}
    assert "only 0 of 8 texts do" in findings[0].message


def test_most_rows_lost_is_still_a_comparison(tmp_path: Path) -> None:
    write(tmp_path / "db", stored(TEXTS[:2], ["x", "y"]))
    _, findings = paired(tmp_path, chunks([f"s{i}" for i in range(8)], texts=TEXTS))
    assert rows_of(findings) == {"missing_rows": 6}


def rejected_row(chunk_id: str, text: str, reason: str) -> dict[str, Any]:
    batch = chunks([chunk_id])["batch"][0].as_py()
    return {
        "row": 1,
        "origin": "f",
        "chunk_id": chunk_id,
        "source": "a",
        "batch": batch,
        "reason": reason,
        "detail": "d",
        "text": text,
    }


def test_a_store_whose_ids_repeat_loses_no_row_to_that_where_the_table_has_ids_of_its_own(tmp_path: Path) -> None:
    rejected = pa.Table.from_pylist(
        [rejected_row("s0", TEXTS[6], "id_collision"), rejected_row("s1", "Never written.", "id_collision")],
        schema=schemas.REJECTED_CHUNKS,
    )
    write(tmp_path / "db", stored(TEXTS[:7], [f"uuid-{i}" for i in range(7)]))
    pairing, findings = paired(tmp_path, chunks([f"s{i}" for i in range(6)], texts=TEXTS[:6]), rejected)
    assert pairing.chunks.num_rows == 7
    assert rows_of(findings) == {"missing_rows": 1}


def test_whichever_of_two_rows_with_one_id_the_table_holds_the_other_is_lost(tmp_path: Path) -> None:
    for kept, lost in ((0, 1), (1, 0)):
        folder = tmp_path / str(kept)
        both = [TEXTS[0], "The document that came with the same id."]
        rejected = pa.Table.from_pylist([rejected_row("s0", both[1], "id_collision")], schema=schemas.REJECTED_CHUNKS)
        write(folder / "db", stored([both[kept], *TEXTS[1:]], [f"s{i}" for i in range(8)]))
        _, findings = paired(folder, chunks([f"s{i}" for i in range(8)], texts=[both[0], *TEXTS[1:]]), rejected)
        assert rows_of(findings) == {"missing_rows": 1}, lost


def test_a_table_without_rows_has_lost_them_all(tmp_path: Path) -> None:
    for ids in (None, []):
        folder = tmp_path / str(ids is None)
        empty = stored(TEXTS[:1], None if ids is None else ["x"]).slice(0, 0)
        write(folder / "db", empty)
        _, findings = paired(folder, chunks([f"s{i}" for i in range(8)], texts=TEXTS))
        assert rows_of(findings) == {"missing_rows": 8}


def left_out(chunk_id: str | None, text: str | None, reason: str, batch: str | None = None) -> dict[str, Any]:
    """A row that the store rejected, by default of no batch."""
    return {**rejected_row("any", text or "", reason), "chunk_id": chunk_id, "text": text, "batch": batch}


def test_rows_that_the_store_has_and_left_out_are_no_orphans(tmp_path: Path) -> None:
    rows = [
        left_out("s5", TEXTS[5], "before_start_date"),
        left_out("s6", None, "invalid_utf8", chunks(["s6"])["batch"][0].as_py()),
        left_out(None, TEXTS[7], "missing_id"),
    ]
    store, names = chunks([f"s{i}" for i in range(5)], texts=TEXTS[:5]), [f"s{i}" for i in range(7)]
    for gone, orphans in (([], {}), (["Of a page that is gone."], {"orphan_rows": 1})):
        folder = tmp_path / str(len(gone))
        write(folder / "db", stored([*TEXTS, *gone], [*names, "made-up", *["gone" for _ in gone]]))
        pairing, findings = paired(folder, store, pa.Table.from_pylist(rows, schema=schemas.REJECTED_CHUNKS))
        assert pairing.paired.by == "chunk_id"
        assert pairing.rejected["chunk_id"].to_pylist() == ["s5", "s6", "made-up"]
        assert rows_of(findings) == orphans


def test_a_table_of_rows_that_the_store_left_out_alone_is_paired_by_their_ids(tmp_path: Path) -> None:
    rejected = pa.Table.from_pylist(
        [left_out(f"s{i}", TEXTS[i], "before_start_date") for i in range(4)], schema=schemas.REJECTED_CHUNKS
    )
    write(tmp_path / "db", stored(TEXTS[:4], [f"s{i}" for i in range(4)]))
    pairing, findings = paired(tmp_path, chunks(["s4", "s5"], texts=TEXTS[4:6]), rejected)
    assert pairing.paired.by == "chunk_id"
    assert rows_of(findings) == {"missing_rows": 2}


def test_by_text_as_well_a_row_left_out_is_no_orphan(tmp_path: Path) -> None:
    rows = [left_out("s6", TEXTS[6], "bad_date"), left_out("s7", TEXTS[7], "date_out_of_range")]
    rejected = pa.Table.from_pylist(rows, schema=schemas.REJECTED_CHUNKS)
    store = chunks([f"s{i}" for i in range(6)], texts=TEXTS[:6])
    for gone, orphans in (([], {}), (["Of a page that is gone."], {"orphan_rows": 1})):
        folder = tmp_path / str(len(gone))
        write(folder / "db", stored([*TEXTS, *gone], [f"uuid-{i}" for i in range(8 + len(gone))]))
        pairing, findings = paired(folder, store, rejected)
        assert pairing.paired.by == "text"
        assert pairing.chunks.num_rows == 6
        assert pairing.rejected["chunk_id"].to_pylist() == ["uuid-6", "uuid-7"]
        assert rows_of(findings) == orphans
