import datetime as dt
import hashlib
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.batch_rows import read_batch
from audit_pipeline.index.reading import adopt_store_cells, open_snapshot
from audit_pipeline.index.snapshot import INFINITE, NAN, NULL, USABLE, WRONG_DIMENSION, ZERO
from audit_pipeline_tests.index.builders import (
    DAY,
    as_it_stands,
    chunks,
    foreign,
    lists,
    snapshot_of,
    unit_vectors,
    write,
)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_opening_and_searching_leaves_version_and_files_of_the_table_as_they_are(tmp_path: Path) -> None:
    uri = tmp_path / "db"
    table = write(uri, foreign([f"c{n}" for n in range(400)], unit_vectors(400)))
    table.create_index("vector", config=lancedb.index.HnswSq(distance_type="cosine"))
    table.add(foreign(["late"], unit_vectors(1, seed=4)))
    before, version = files(uri), table.version
    snapshot = snapshot_of(uri, tmp_path / "work", filter="chunk_id != 'c3'")
    snapshot.search(snapshot.vectors[:50], 10)
    assert snapshot.variant_search is not None
    for name in ("without_filter", "with_tail", "ef", "exact"):
        snapshot.variant_search(snapshot.vectors[:50], 10, name)
    assert files(uri) == before
    assert lancedb.connect(str(uri)).open_table("docs").version == version == snapshot.info.version
    assert (snapshot.info.indexed_rows, snapshot.info.unindexed_rows) == (400, 1)


def test_rows_stand_in_table_order_beside_their_vectors_at_the_pinned_version(tmp_path: Path) -> None:
    vectors = unit_vectors(5)
    table = write(tmp_path / "db", foreign(["b", "a", "c"], vectors[:3]))
    pinned = table.version
    table.add(foreign(["e", "d"], vectors[3:]))
    newest = snapshot_of(tmp_path / "db", tmp_path / "new")
    assert newest.chunk_ids.to_pylist() == ["b", "a", "c", "e", "d"]
    np.testing.assert_array_equal(newest.vectors, vectors)
    old = snapshot_of(tmp_path / "db", tmp_path / "old", version=pinned)
    assert old.chunk_ids.to_pylist() == ["b", "a", "c"]
    assert old.search(vectors[3:4], 3).rows.max() == 2


def test_a_later_reading_does_not_change_the_vectors_of_an_open_snapshot(tmp_path: Path) -> None:
    vectors = unit_vectors(4)
    table = write(tmp_path / "db", foreign(["a", "b"], vectors[:2]))
    first = snapshot_of(tmp_path / "db", tmp_path / "work")
    table.add(foreign(["c", "d"], vectors[2:]))
    second = snapshot_of(tmp_path / "db", tmp_path / "work")
    np.testing.assert_array_equal(first.vectors, vectors[:2])
    np.testing.assert_array_equal(second.vectors, vectors)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_vectors_of_every_float_width_become_float32(tmp_path: Path, kind: type) -> None:
    vectors = unit_vectors(6)
    write(
        tmp_path / "db", pa.table({"chunk_id": list("abcdef"), "text": list("abcdef"), "vector": lists(vectors, kind)})
    )
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work")
    assert snapshot.vectors.dtype == np.float32
    np.testing.assert_allclose(snapshot.vectors, vectors, atol=1e-3 if kind is np.float16 else 1e-7)
    assert snapshot.search(snapshot.vectors[:6], 1).rows.ravel().tolist() == [0, 1, 2, 3, 4, 5]


def test_lists_of_no_fixed_size_are_read_and_searched_exactly(tmp_path: Path) -> None:
    vectors = unit_vectors(6)
    column = pa.array([*vectors[:4].tolist(), None, [1.0, 2.0]], pa.list_(pa.float64()))
    write(tmp_path / "db", pa.table({"chunk_id": list("abcdef"), "text": list("abcdef"), "emb": column}))
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work", columns={"vector": "emb"})
    assert snapshot.vector_state.tolist() == [USABLE] * 4 + [NULL, WRONG_DIMENSION]
    np.testing.assert_allclose(snapshot.vectors[:4], vectors[:4], atol=1e-7)
    assert snapshot.vectors[4:].tolist() == [[0.0] * 16] * 2
    assert snapshot.info.plan["engine"] == "exact"
    hits = snapshot.search(vectors[:2], 5)
    assert hits.rows[:, 0].tolist() == [0, 1]
    assert hits.returned.tolist() == [4, 4]


def test_every_kind_of_broken_vector_is_told_apart(tmp_path: Path) -> None:
    vectors = unit_vectors(5)
    vectors[1] = 0
    vectors[2, 5] = np.inf
    vectors[3, 5] = np.nan
    table = foreign(list("abcde"), vectors)
    write(tmp_path / "nulls", table, on_bad_vectors="null")
    assert snapshot_of(tmp_path / "nulls", tmp_path / "w1").vector_state.tolist() == [
        USABLE,
        ZERO,
        INFINITE,
        NULL,
        USABLE,
    ]
    write(tmp_path / "filled", table, on_bad_vectors="fill", fill_value=0.0)
    assert snapshot_of(tmp_path / "filled", tmp_path / "w2").vector_state.tolist()[3] in (ZERO, USABLE)
    column = pa.array([[1.0, float("nan")], [1.0, None], [1.0, 0.0]], pa.list_(pa.float32()))
    write(tmp_path / "raw", pa.table({"chunk_id": list("abc"), "text": list("abc"), "v": column}))
    assert snapshot_of(tmp_path / "raw", tmp_path / "w3", columns={"vector": "v"}).vector_state.tolist() == [
        NAN,
        NAN,
        USABLE,
    ]


def test_a_vector_whose_length_float32_cannot_tell_is_as_good_as_zero_or_infinite(tmp_path: Path) -> None:
    vectors = unit_vectors(5)
    vectors[1] *= np.float32(1e-30)
    vectors[2] *= np.float32(1e25)
    vectors[3] *= np.float32(1e-15)
    write(tmp_path / "db", foreign(list("abcde"), vectors))
    assert snapshot_of(tmp_path / "db", tmp_path / "work").vector_state.tolist() == [
        USABLE,
        ZERO,
        INFINITE,
        USABLE,
        USABLE,
    ]


def test_columns_under_other_names_struct_fields_numbers_and_iso_dates(tmp_path: Path) -> None:
    write(
        tmp_path / "db",
        pa.table(
            {
                "id": pa.array([7, 8, 9]),
                "body": ["one", "two", "three"],
                "metadata": [{"source": "x", "page": 1}, {"source": None, "page": 2}, {"source": "x", "page": 3}],
                "loaded": ["2026-01-05", "2026-01-06T23:30:00+00:00", "soon"],
                "emb": lists(unit_vectors(3)),
            }
        ),
    )
    columns = {
        "chunk_id": "id",
        "text": "body",
        "source": "metadata.source",
        "position": "metadata.page",
        "ingestion_date": "loaded",
        "vector": "emb",
    }
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work", columns=columns)
    rows = snapshot.rows.to_pydict()
    assert rows["chunk_id"] == ["7", "8", "9"]
    assert rows["source"] == ["x", None, "x"]
    assert rows["position"] == [1, 2, 3]
    assert rows["ingestion_date"] == [dt.date(2026, 1, 5), dt.date(2026, 1, 6), None]
    assert rows["batch"] == ["2026-01-05|x", "2026-01-06|none", "2026-01-02|x"]
    assert snapshot.absent == ("doc_id", "heading")


def test_a_table_without_id_source_and_date_gets_ids_from_its_texts(tmp_path: Path) -> None:
    write(tmp_path / "db", pa.table({"text": ["same", "other", "same", "same"], "vector": lists(unit_vectors(4))}))
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work")
    same, other = (hashlib.sha256(text).hexdigest() for text in (b"same", b"other"))
    assert snapshot.chunk_ids.to_pylist() == [same, other, same + "#2", same + "#3"]
    assert snapshot.rows["source"].to_pylist() == ["docs"] * 4
    assert snapshot.rows["batch"].to_pylist() == ["2026-01-02|docs"] * 4
    assert snapshot.rows["ingestion_date"].null_count == 4
    assert snapshot.absent == ("chunk_id", "source", "ingestion_date", "doc_id", "heading", "position")


def test_an_address_is_kept_without_its_user(tmp_path: Path) -> None:
    write(tmp_path / "me:word@here" / "db", foreign(["a"], unit_vectors(1)))
    for between, shown in (("/", "me:word@here"), ("//", "***@here")):  # a folder's name, and what may be a password
        uri = f"{tmp_path}{between}me:word@here/db"
        snapshot = open_snapshot(as_it_stands(tmp_path), uri, tmp_path / "work", undated=DAY)
        assert snapshot.info.uri == f"{tmp_path}{between}{shown}/db"


def test_dates_are_batched_by_week(tmp_path: Path) -> None:
    days = [dt.date(2026, 1, 4), dt.date(2026, 1, 5), dt.date(2026, 1, 11)]  # a Sunday, a Monday, the Sunday after
    write(tmp_path / "db", foreign(list("abc"), unit_vectors(3), ingestion_date=days))
    settings = as_it_stands(tmp_path / "db")
    snapshot = open_snapshot(settings, str(tmp_path / "db"), tmp_path / "work", undated=DAY, source="s", grain="week")
    assert snapshot.rows["batch"].to_pylist() == ["2025-12-29|s", "2026-01-05|s", "2026-01-05|s"]
    assert snapshot.rows["ingestion_date"].to_pylist() == days


def test_a_folder_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(AuditInputError):
        snapshot_of(tmp_path / "nowhere", tmp_path / "work")
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_table_is_a_snapshot_without_rows(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign(["a"], unit_vectors(1))).delete("true")
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work")
    assert snapshot.rows.num_rows == 0
    assert snapshot.vectors.shape == (0, 16)
    assert snapshot.search(unit_vectors(2), 3).returned.tolist() == [0, 0]


def test_source_and_date_are_the_stores_where_it_knows_the_id(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign(["a", "b"], unit_vectors(2), source=["wrong", "own"]))
    snapshot = adopt_store_cells(
        snapshot_of(tmp_path / "db", tmp_path / "w"), chunks(["a"], "right", dt.date(2026, 3, 4))
    )
    assert snapshot.rows["source"].to_pylist() == ["right", "own"]
    assert snapshot.rows["batch"].to_pylist() == ["2026-03-04|right", "2026-01-02|own"]


def test_one_batch_of_a_managed_table_is_read_with_the_hash_of_the_text_as_it_stands(tmp_path: Path) -> None:
    from audit_pipeline.index.managed import replace_batch

    uri = str(tmp_path / "m.lance")
    replace_batch(uri, "chunks", chunks(["a", "b"]), unit_vectors(2), "2026-01-02|a")
    replace_batch(uri, "chunks", chunks(["c"], "z"), unit_vectors(1), "2026-01-02|z")
    lancedb.connect(uri).open_table("chunks").update(where="chunk_id = 'b'", values={"text": "edited by hand"})
    rows, _, state = read_batch(uri, "chunks", "2026-01-02|a")
    by_id = dict(zip(rows["chunk_id"].to_pylist(), rows["text_sha256"].to_pylist(), strict=True))
    assert by_id == {
        "a": hashlib.sha256(b"text of a").hexdigest(),
        "b": hashlib.sha256(b"edited by hand").hexdigest(),
    }
    assert state.tolist() == [USABLE, USABLE]


def test_a_batch_is_empty_where_no_row_was_ever_written_and_after_it_was_emptied(tmp_path: Path) -> None:
    from audit_pipeline.index.managed import replace_batch

    uri, batch = str(tmp_path / "m.lance"), "2026-01-02|a"
    for _ in range(2):
        rows, _, state = read_batch(uri, "chunks", batch)
        assert (rows.num_rows, state.tolist()) == (0, [])
        replace_batch(uri, "chunks", chunks(["a"]), unit_vectors(1), batch)
        replace_batch(uri, "chunks", chunks([]), unit_vectors(0), batch)
