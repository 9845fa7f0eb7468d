"""Rows that were kept are the rows that would be read, or they are not used: whatever changed, broke or was killed."""

from __future__ import annotations

import datetime as dt
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_pipeline.corpus import kept_rows, stamps, store
from audit_pipeline.corpus.kept_rows import only_writer
from audit_pipeline.corpus.scans import StoreScan
from audit_pipeline.corpus.store import SourceStore
from audit_pipeline.errors import AuditInputError
from audit_pipeline_tests.corpus.builders import TODAY, settings_of, write_jsonl

LONG_AGO = 1_760_000_000
DAYS = ("2026-01-02", "2026-01-31", "2026-02-01")
ROWS = [{"chunk_id": f"{day}-{i}", "text": f"text {i} of {day}", "ingestion_date": day} for day in DAYS for i in (1, 2)]
LOST = [
    {"chunk_id": "blank", "text": " ", "ingestion_date": DAYS[0]},
    {"chunk_id": "undated", "text": "one", "ingestion_date": "some day"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A file as old as one that nobody is writing."""
    write_jsonl(path, rows)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def entries(folder: Path, *names: str) -> list[dict[str, Any]]:
    return [{"name": name, "uri": str(folder / f"{name}.jsonl"), "format": "jsonl"} for name in names]


def opened(
    folder: Path, *sources: dict[str, Any], kept: bool = True, today: dt.date = TODAY, **deciding: Any
) -> SourceStore:
    """The store of a new process; by default of a.jsonl and b.jsonl of the folder, its rows kept in ``kept/``."""
    of = settings_of(*(sources or entries(folder, "a", "b")), grain=deciding.get("grain", "day"))
    file = folder / "kept" / "store.rows" if kept else None
    return SourceStore(of, today=today, start_date=deciding.get("start_date"), file=file)


@contextmanager
def reads() -> Iterator[list[str]]:
    """The names of the entries whose files are read meanwhile."""
    seen: list[str] = []
    usual = store.read_entry

    def noted(entry: Any, *zone: Any) -> Any:
        seen.append(entry.name)
        return usual(entry, *zone)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "read_entry", noted)
        yield seen


def told(scan: StoreScan) -> tuple[Any, ...]:
    return (
        scan.batches,
        list(scan.batches),
        scan.earliest,
        scan.slugs,
        scan.unplaced,
        {name: str(error) for name, error in scan.unread.items()},
    )


def assert_same(found: SourceStore, plain: SourceStore, *, read: bool) -> None:
    """Both stores say the same of everything; ``found`` has read the sources' files for it, or none of them."""
    with reads() as seen:
        scan = found.scan(partial=True, anew=False)
    assert bool(seen) == read
    expected = plain.scan(partial=True)
    assert told(scan) == told(expected)
    with reads() as seen:
        for key in [*expected.batches, "2026-01-02|nobody"]:
            ours, theirs = found.read_batch(key), plain.read_batch(key)
            assert ours.chunks.equals(theirs.chunks, check_metadata=True)
            assert ours.rejected.equals(theirs.rejected, check_metadata=True)
        assert found.unplaced().equals(plain.unplaced())
        if not expected.unread:
            ours, theirs = found.read_all(), plain.read_all()
            assert ours.chunks.equals(theirs.chunks)
            assert ours.rejected.equals(theirs.rejected)
    assert seen == []


# What is kept is what is read


row = st.fixed_dictionaries(
    {
        "chunk_id": st.sampled_from(["1", "2", "3", 4, "ü|", "", None]),
        "text": st.sampled_from(["one", "two\nlines", "", " ", "héé 本", "x" * 3000, None]),
        "ingestion_date": st.sampled_from([*DAYS, "2025-12-30", "2027-01-01", "some day", None]),
        "source": st.sampled_from(["a", "b", "B c", "名前", None]),
    },
    optional={"doc_id": st.just("d"), "position": st.integers(0, 3), "heading": st.sampled_from(["H", None])},
)


@settings(max_examples=40, deadline=None)
@given(
    files=st.lists(st.lists(row, max_size=8), min_size=1, max_size=3),
    grain=st.sampled_from(["day", "week", "month"]),
    start_date=st.sampled_from([None, dt.date(2026, 1, 3)]),
    block=st.sampled_from([2, 65_536]),
)
def test_a_kept_store_says_and_gives_the_same_as_one_that_is_read(
    files: list[list[dict[str, Any]]], grain: str, start_date: dt.date | None, block: int
) -> None:
    with tempfile.TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_BLOCK_ROWS", block)
        folder = Path(temporary)
        for number, rows in enumerate(files):
            write(folder / "rows" / f"{number}.jsonl", rows)
        source = {"name": "*", "uri": str(folder / "rows"), "format": "jsonl"}
        deciding = {"grain": grain, "start_date": start_date}
        plain = opened(folder, source, kept=False, **deciding)
        assert_same(opened(folder, source, **deciding), plain, read=True)
        assert_same(opened(folder, source, **deciding), plain, read=False)


def test_sources_of_every_kind_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lancedb

    lancedb.connect(str(tmp_path / "db.lance")).create_table("docs", ROWS)
    (tmp_path / "m.md").write_text("# Title\n\nA text.\n", encoding="utf-8")
    sources = [
        {"name": "l", "uri": str(tmp_path / "db.lance"), "format": "lance"},
        {"name": "m", "uri": str(tmp_path / "m.md"), "format": "markdown", "ingestion_date": DAYS[0]},
        {"name": "packaging", "uri": "packaging", "format": "docstrings", "ingestion_date": DAYS[1]},
    ]
    monkeypatch.setattr(stamps, "_SETTLED", dt.timedelta(0))
    assert_same(opened(tmp_path, *sources), opened(tmp_path, *sources, kept=False), read=True)
    assert_same(opened(tmp_path, *sources), opened(tmp_path, *sources, kept=False), read=False)
    lancedb.connect(str(tmp_path / "db.lance")).open_table("docs").delete("chunk_id = '2026-01-02-1'")
    assert_same(opened(tmp_path, *sources), opened(tmp_path, *sources, kept=False), read=True)


def test_a_fresh_scan_reads_the_sources_in_any_case(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.jsonl", [row | {"chunk_id": f"{name}{row['chunk_id']}"} for row in ROWS])
    first = opened(tmp_path).scan()
    with reads() as seen:
        assert opened(tmp_path).scan() == first
    assert seen == ["a", "b"]


# What changed is never served


def other_text(folder: Path) -> dict[str, Any]:
    """The size and the time stay, as `cp -p` leaves them."""
    before = (folder / "a.jsonl").stat()
    write(folder / "a.jsonl", [{**ROWS[0], "text": "TEXT 1 of 2026-01-02"}, *ROWS[1:], *LOST])
    after = (folder / "a.jsonl").stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return {}


def another_file(folder: Path) -> dict[str, Any]:
    write(folder / "more" / "2.jsonl", [{**ROWS[0], "chunk_id": "new"}])
    return {}


CHANGES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "a text": other_text,
    "a file more": another_file,
    "the next day": lambda _: {"today": TODAY + dt.timedelta(days=1)},
    "the start date": lambda _: {"start_date": dt.date(2026, 1, 3)},
    "the grain": lambda _: {"grain": "month"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_read_anew(tmp_path: Path, change: str) -> None:
    write(tmp_path / "a.jsonl", [*ROWS, *LOST])
    write(tmp_path / "more" / "1.jsonl", [{**ROWS[0], "chunk_id": "tomorrow", "ingestion_date": "2026-07-01"}])
    sources = [*entries(tmp_path, "a"), {"name": "b", "uri": str(tmp_path / "more"), "format": "jsonl"}]
    before = told(opened(tmp_path, *sources).scan())
    assert_same(opened(tmp_path, *sources), opened(tmp_path, *sources, kept=False), read=False)
    deciding = CHANGES[change](tmp_path)
    plain = opened(tmp_path, *sources, kept=False, **deciding)
    assert told(plain.scan()) != before
    assert_same(opened(tmp_path, *sources, **deciding), plain, read=True)
    assert_same(opened(tmp_path, *sources, **deciding), plain, read=False)


def test_rows_that_other_code_made_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.jsonl", ROWS)
    opened(tmp_path, *entries(tmp_path, "a")).scan()
    monkeypatch.setattr(store, "code_digest", lambda: "other code")
    assert_same(
        opened(tmp_path, *entries(tmp_path, "a")), opened(tmp_path, *entries(tmp_path, "a"), kept=False), read=True
    )


def test_a_file_that_was_written_just_now_is_read_each_time(tmp_path: Path) -> None:
    source = entries(tmp_path, "a")
    write(tmp_path / "a.jsonl", ROWS).touch()
    for _ in range(2):
        assert_same(opened(tmp_path, *source), opened(tmp_path, *source, kept=False), read=True)
    assert not (tmp_path / "kept").exists()


def test_rows_are_not_kept_where_a_file_changed_while_they_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = entries(tmp_path, "a")
    write(tmp_path / "a.jsonl", ROWS)
    usual = store.read_entry

    def read_and_then_written(entry: Any, *zone: Any) -> Any:
        found = usual(entry, *zone)
        write(tmp_path / "a.jsonl", ROWS[1:])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(store, "read_entry", read_and_then_written)
        assert opened(tmp_path, *source).scan(anew=False).batches["2026-01-02|a"].rows == 2
    assert not (tmp_path / "kept" / "store.rows").exists()
    assert_same(opened(tmp_path, *source), opened(tmp_path, *source, kept=False), read=True)


# Sources that cannot be read


@pytest.mark.parametrize("fault", ["broken", "absent"])
def test_only_what_could_not_be_read_is_tried_again(tmp_path: Path, fault: str) -> None:
    write(tmp_path / "a.jsonl", [*ROWS, *LOST])
    if fault == "broken":
        (tmp_path / "b.jsonl").write_text("{broken\n", encoding="utf-8")
        os.utime(tmp_path / "b.jsonl", (LONG_AGO, LONG_AGO))
    plain = opened(tmp_path, kept=False)
    assert_same(opened(tmp_path), plain, read=True)
    with reads() as seen:
        scan = opened(tmp_path).scan(partial=True, anew=False)
        with pytest.raises(AuditInputError, match=r"b\.jsonl"):
            opened(tmp_path).read_batch("2026-01-02|b")
        with pytest.raises(AuditInputError, match=r"b\.jsonl"):
            opened(tmp_path).read_all()
        with pytest.raises(AuditInputError, match=r"b\.jsonl"):
            opened(tmp_path).scan(anew=False)
    assert set(seen) == {"b"}
    assert told(scan) == told(plain.scan(partial=True))


def test_a_source_that_can_be_read_again_though_no_file_changed_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.jsonl", [row | {"chunk_id": f"{name}{row['chunk_id']}"} for row in ROWS])
    usual = store.read_entry

    def timed_out(entry: Any, *zone: Any) -> Any:
        if entry.name == "b":
            raise AuditInputError("source 'b': the server does not answer: wait for it")
        return usual(entry, *zone)

    with monkeypatch.context() as patch:
        patch.setattr(store, "read_entry", timed_out)
        assert list(opened(tmp_path).scan(partial=True).unread) == ["b"]
    assert_same(opened(tmp_path), opened(tmp_path, kept=False), read=True)
    assert_same(opened(tmp_path), opened(tmp_path, kept=False), read=False)


# Files that are damaged, cut or half written


def test_no_damaged_byte_and_no_cut_gives_other_rows(tmp_path: Path) -> None:
    source = entries(tmp_path, "a")
    write(tmp_path / "a.jsonl", [*ROWS[:3], *LOST])
    plain = opened(tmp_path, *source, kept=False)
    expected = told(plain.scan())
    batches = {key: plain.read_batch(key) for key in expected[0]}
    everything, lost = plain.read_all(), plain.unplaced()
    opened(tmp_path, *source).scan()
    kept = tmp_path / "kept" / "store.rows"
    whole = kept.read_bytes()
    damaged = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(0, len(whole), 11)]
    damaged += [whole[:size] for size in range(0, len(whole), 61)] + [whole + b"more", b"\0" * len(whole)]
    found_out = 0
    for content in damaged:
        kept.write_bytes(content)
        now = opened(tmp_path, *source)
        with reads() as seen:
            assert told(now.scan(anew=False)) == expected
            for key, rows in batches.items():
                assert now.read_batch(key) == rows
            assert now.read_all() == everything
            assert now.unplaced() == lost
        found_out += bool(seen)
    assert found_out == len(damaged)
    assert len(damaged) > 100


def test_a_damaged_file_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = entries(tmp_path, "a")
    write(tmp_path / "a.jsonl", ROWS)
    opened(tmp_path, *source).scan()
    kept = tmp_path / "kept" / "store.rows"
    whole = kept.read_bytes()
    kept.write_bytes(b"\0" * 100 + whole[100:])  # the index is sound, and the first block is not
    now = opened(tmp_path, *source)
    now.scan(anew=False)
    with caplog.at_level(logging.WARNING, "audit_pipeline"):
        assert len(now.read_batch("2026-01-02|a").chunks) == 2
    assert [record.getMessage() for record in caplog.records] == [f"{kept} is damaged: the sources are read instead"]
    assert_same(opened(tmp_path, *source), opened(tmp_path, *source, kept=False), read=True)
    assert kept.read_bytes() == whole


def test_a_store_that_was_opened_stays_as_it_was_when_another_takes_its_place(tmp_path: Path) -> None:
    source = entries(tmp_path, "a")
    write(tmp_path / "a.jsonl", ROWS)
    opened(tmp_path, *source).scan()
    early = opened(tmp_path, *source)
    scan = early.scan(anew=False)
    write(tmp_path / "a.jsonl", [row | {"text": "another"} for row in ROWS[2:]])
    opened(tmp_path, *source).scan()
    with reads() as seen:
        assert early.read_batch("2026-01-02|a").chunks["text"].to_pylist() == [row["text"] for row in ROWS[:2]]
        assert len(early.read_all().chunks) == sum(info.rows for info in scan.batches.values())
    assert seen == []


def test_where_nothing_can_be_kept_the_rows_are_held(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = entries(tmp_path, "a")
    write(tmp_path / "a.jsonl", ROWS)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "store.rows").mkdir()  # a folder cannot be replaced by a file
    with caplog.at_level(logging.WARNING, "audit_pipeline"):
        assert_same(opened(tmp_path, *source), opened(tmp_path, *source, kept=False), read=True)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith(f"the rows of the sources cannot be kept in {tmp_path}/kept/store.rows (")
    assert list((tmp_path / "kept").glob(".store*")) == []


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", ROWS)
    opened(tmp_path, *entries(tmp_path, "a")).scan()
    assert (tmp_path / "kept" / "store.rows").stat().st_mode & 0o777 == 0o600


# Several processes


def in_child(work: Callable[[], None]) -> multiprocessing.process.BaseProcess:
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    return child


def test_a_writer_that_is_killed_leaves_what_was_kept_before_and_the_next_cleans_up(tmp_path: Path) -> None:
    source = entries(tmp_path, "a")
    write(tmp_path / "a.jsonl", ROWS)
    opened(tmp_path, *source).scan()
    kept = tmp_path / "kept" / "store.rows"
    before = kept.read_bytes()
    shutil.copy2(tmp_path / "a.jsonl", tmp_path / "as it was.jsonl")
    write(tmp_path / "a.jsonl", ROWS[:4])

    def killed() -> None:
        usual, written = kept_rows._compress, []

        def dies(data: Any) -> bytes:
            written.append(usual(data))
            if len(written) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return written[-1]

        kept_rows._compress = dies
        opened(tmp_path, *source).scan()

    child = in_child(killed)
    child.join(30)
    assert child.exitcode == -signal.SIGKILL
    assert kept.read_bytes() == before
    (left,) = (tmp_path / "kept").glob(".store.rows.*")
    assert left.stat().st_size > 0
    assert_same(opened(tmp_path, *source), opened(tmp_path, *source, kept=False), read=True)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["store.lock", "store.rows"]


def test_of_many_processes_that_begin_at_once_one_reads_the_sources_for_all(tmp_path: Path) -> None:
    source = entries(tmp_path, "a")
    write(tmp_path / "a.jsonl", ROWS)
    log, usual = tmp_path / "log", store.read_entry

    def slowly(entry: Any, *zone: Any) -> Any:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.3)
        return usual(entry, *zone)

    def work() -> None:
        store.read_entry = slowly
        now = opened(tmp_path, *source)
        assert now.read_batch("2026-01-02|a").chunks["text"].to_pylist() == [row["text"] for row in ROWS[:2]]

    children = [in_child(work) for _ in range(4)]
    for child in children:
        child.join(30)
    assert [child.exitcode for child in children] == [0] * 4
    assert len(log.read_text().splitlines()) == 1


def test_a_process_that_hangs_on_to_the_lock_is_not_waited_for_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waited = []
    caplog.set_level(logging.INFO, "audit_pipeline")
    with FileLock(tmp_path / "store.lock"), only_writer(tmp_path / "store.rows", lambda: waited.append(1), 0.05) as got:
        assert not got
    assert waited == [1]
    assert caplog.messages == [f"{tmp_path / 'store.lock'} is not given back: the sources are read without it"]
    with only_writer(tmp_path / "store.rows", lambda: waited.append(1), 0.05) as got:
        assert got
    assert waited == [1]


def test_a_lock_that_cannot_be_made_is_told_and_the_work_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lock = tmp_path / "store.lock"
    lock.mkdir()
    caplog.set_level(logging.INFO, "audit_pipeline")
    with only_writer(tmp_path / "store.rows", lambda: None) as got:
        assert not got
    assert [message.partition(" (")[0] for message in caplog.messages] == [f"{lock} cannot be held"]
    assert caplog.messages[0].endswith("the sources are read without it, by each run for itself")
