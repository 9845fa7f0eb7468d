import datetime as dt
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.index.connection import holds_table, table_names
from audit_pipeline.index.managed import replace_batch
from audit_pipeline_tests.index.builders import DAY, chunks, lists, unit_vectors

NEXT = DAY + dt.timedelta(days=1)
FIRST, SECOND = "2026-01-02|a", "2026-01-03|a"


def stored(uri: Path) -> dict[str, str]:
    rows = lancedb.connect(str(uri)).open_table("chunks").to_arrow()
    assert rows.num_rows == len(set(rows["chunk_id"].to_pylist()))
    return dict(zip(rows["chunk_id"].to_pylist(), rows["batch"].to_pylist(), strict=True))


def put(uri: Path, ids: list[str], batch: str = FIRST, day: dt.date = DAY, seed: int = 0) -> tuple[int, int, int]:
    report = replace_batch(str(uri), "chunks", chunks(ids, day=day), unit_vectors(len(ids), seed=seed), batch)
    return report.inserted, report.updated, report.deleted


def version(uri: Path) -> int:
    return int(lancedb.connect(str(uri)).open_table("chunks").version)


def test_a_page_that_shrinks_from_five_chunks_to_three_leaves_three_rows_in_one_commit(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    assert put(uri, ["p1", "p2", "p3", "p4", "p5"]) == (5, 0, 0)
    before = version(uri)
    assert put(uri, ["p1", "p2", "p3"]) == (0, 0, 2)
    assert stored(uri) == {"p1": FIRST, "p2": FIRST, "p3": FIRST}
    assert version(uri) == before + 1


def test_a_page_that_shrinks_and_is_edited_at_once_is_one_commit_as_well(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    put(uri, ["p1", "p2", "p3", "p4", "it's"])
    put(uri, ["p5"], SECOND, NEXT)
    before = version(uri)
    edited = chunks(["p1", "p2", "p3"], texts=["edited", "text of p2", "text of p3"])
    report = replace_batch(str(uri), "chunks", edited, unit_vectors(5)[:3], FIRST)
    assert (report.inserted, report.updated, report.deleted) == (0, 1, 2)
    assert stored(uri) == {"p1": FIRST, "p2": FIRST, "p3": FIRST, "p5": SECOND}
    assert version(uri) == before + 1


def test_the_files_of_many_batches_are_joined_and_no_row_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit_pipeline.index.managed._MOST_FILES", 3)
    uri = tmp_path / "t.lance"
    days = [DAY + dt.timedelta(days=number) for number in range(6)]
    files = []
    for number, day in enumerate(days):
        assert put(uri, [f"p{number}"], f"{day.isoformat()}|a", day, seed=number) == (1, 0, 0)
        table = lancedb.connect(str(uri)).open_table("chunks")
        files.append(table.stats()["fragment_stats"]["num_fragments"])
    assert files == [1, 2, 3, 1, 2, 3]  # the fourth is one more than three
    assert stored(uri) == {f"p{number}": f"{day.isoformat()}|a" for number, day in enumerate(days)}
    for number, day in enumerate(days):  # equal in every column, the vector too
        assert put(uri, [f"p{number}"], f"{day.isoformat()}|a", day, seed=number) == (0, 0, 0)


def test_a_table_that_is_deleted_and_made_anew_is_read_as_it_is_now(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    for ids, day in ((["p1", "p2"], DAY), (["p2", "p3", "p4"], NEXT)):  # what is kept of the first one's files is wrong
        batch = f"{day.isoformat()}|a"
        assert put(uri, ids, batch, day) == (len(ids), 0, 0)
        assert put(uri, ids, batch, day) == (0, 0, 0)
        shutil.rmtree(uri)


def test_the_same_rows_in_another_order_make_no_new_version(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    vectors = unit_vectors(3)
    replace_batch(str(uri), "chunks", chunks(["x", "y", "z"]), vectors, FIRST)
    report = replace_batch(str(uri), "chunks", chunks(["z", "y", "x"]), vectors[::-1], FIRST)
    assert (report.version, report.changed) == (1, False)
    assert version(uri) == 1


def test_only_changed_rows_are_written_and_other_batches_are_left_alone(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    put(uri, ["x", "y"])
    put(uri, ["q"], SECOND, NEXT)
    edited = chunks(["x", "y", "n"], texts=["text of x", "edited", "new"])
    report = replace_batch(str(uri), "chunks", edited, np.vstack((unit_vectors(2), unit_vectors(1, seed=5))), FIRST)
    assert (report.inserted, report.updated, report.deleted) == (1, 1, 0)
    assert stored(uri) == {"x": FIRST, "y": FIRST, "n": FIRST, "q": SECOND}


def test_a_new_vector_for_the_same_text_is_a_change(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    put(uri, ["x", "y"], seed=0)
    assert put(uri, ["x", "y"], seed=1) == (0, 2, 0)


def test_an_emptied_batch_loses_its_rows_and_only_its_own(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    assert put(uri, []) == (0, 0, 0)
    put(uri, ["x", "y"])
    put(uri, ["q"], SECOND, NEXT)
    assert put(uri, []) == (0, 0, 2)
    assert stored(uri) == {"q": SECOND}


def test_a_chunk_that_comes_with_another_batch_moves_and_is_never_there_twice(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    put(uri, ["x", "y"])
    put(uri, ["y", "z"], SECOND, NEXT)
    assert stored(uri) == {"x": FIRST, "y": SECOND, "z": SECOND}
    put(uri, ["x"])
    assert stored(uri) == {"x": FIRST, "y": SECOND, "z": SECOND}


def test_rows_that_two_writers_inserted_at_once_are_one_after_the_batch_is_written_again(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    put(uri, ["x", "y"])
    table = lancedb.connect(str(uri)).open_table("chunks")
    table.add(table.to_arrow().slice(0, 1))
    assert table.count_rows() == 3
    put(uri, ["x", "y"])
    assert stored(uri) == {"x": FIRST, "y": FIRST}


def test_rows_that_another_writer_added_under_another_batch_go_when_the_batch_is_written_again(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    put(uri, ["p1", "p2", "it's"])
    put(uri, ["p4"], SECOND, NEXT)
    opened = lancedb.connect(str(uri)).open_table("chunks")
    strays = opened.to_arrow().filter(pa.array([True, False, True, False]))  # p1 and it's
    column = strays.schema.get_field_index("batch")
    opened.add(strays.set_column(column, strays.schema.field(column), [["2026-01-09|b", SECOND]]))
    taken: list[dict[str, str]] = []
    report = replace_batch(
        str(uri), "chunks", chunks(["p1", "p2", "it's"], day=DAY), unit_vectors(3), FIRST,
        taking=lambda rows: taken.extend(rows.to_pylist()),
    )  # fmt: skip
    assert (report.inserted, report.updated, report.deleted) == (0, 0, 2)
    assert stored(uri) == {"p1": FIRST, "p2": FIRST, "it's": FIRST, "p4": SECOND}
    assert {row["chunk_id"]: row["batch"] for row in taken} == {"p1": "2026-01-09|b", "it's": SECOND}


def test_more_deletions_than_a_filter_should_list_still_replace_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit_pipeline.index.managed._DELETIONS_IN_A_FILTER", 2)
    uri = tmp_path / "t.lance"
    put(uri, ["x", "y", "z", "w", "it's"])
    put(uri, ["q"], SECOND, NEXT)
    put(uri, ["x"])
    assert stored(uri) == {"x": FIRST, "q": SECOND}


def test_an_id_that_stands_on_two_rows_of_a_batch_is_a_defect_of_ours(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'y' stands on two rows"):
        replace_batch(str(tmp_path / "t.lance"), "chunks", chunks(["y", "y"]), unit_vectors(2), FIRST)


def test_two_writers_that_insert_the_same_new_ids_at_once_leave_one_row_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = tmp_path / "t.lance"
    put(uri, ["x"])
    from audit_pipeline.index import managed

    unchanged, both = managed._unchanged, threading.Barrier(2)

    def meet(*arguments: pa.Table) -> np.ndarray:
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=5)  # both have read the table, neither has written
        return unchanged(*arguments)

    monkeypatch.setattr(managed, "_unchanged", meet)
    with ThreadPoolExecutor(2) as pool:
        written = [pool.submit(put, uri, ["x", *(f"n{i}" for i in range(500))]) for _ in range(2)]
        assert sorted(one.result() for one in written) == [(0, 500, 0), (500, 0, 0)]
    assert stored(uri) == {"x": FIRST} | {f"n{i}": FIRST for i in range(500)}


def test_a_table_of_an_earlier_release_gets_its_primary_key_with_its_next_batch(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    rows = chunks(["x"]).append_column("vector", lists(unit_vectors(1)))
    table = lancedb.connect(str(uri)).create_table("chunks", rows)
    assert not table.schema.field("chunk_id").metadata
    put(uri, ["x", "y"])
    put(uri, ["z"], SECOND, NEXT)
    assert lancedb.connect(str(uri)).open_table("chunks").schema.field("chunk_id").metadata
    assert stored(uri) == {"x": FIRST, "y": FIRST, "z": SECOND}
    assert version(uri) == 4  # created, key, two batches


def test_a_table_whose_creation_was_cut_off_is_created(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    put(uri, ["x"])
    shutil.rmtree(uri / "chunks.lance" / "_versions")
    assert table_names(lancedb.connect(str(uri))) == ["chunks"]
    assert not holds_table(str(uri), "chunks")
    assert put(uri, []) == (0, 0, 0)
    assert put(uri, ["y", "z"]) == (2, 0, 0)
    assert stored(uri) == {"y": FIRST, "z": FIRST}
