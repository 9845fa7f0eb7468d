"""One look at the sources after the other: what each asks for, and that nothing is asked for twice."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import lancedb
import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline.stages import discovery
from audit_pipeline.stages.changes import BatchChange, changed_batches
from audit_pipeline.stages.discovery import Discovery, discover, waiting_batches
from audit_pipeline.stages.ingest import generation_of
from audit_pipeline.stages.workspace import BatchManifest, Workspace
from audit_pipeline.state import write_json
from audit_pipeline_tests.stages.builders import workspace

DAYS = ("2026-01-02", "2026-01-03", "2026-01-05")
A, B = (tuple(f"{day}|{source}" for day in DAYS) for source in "ab")


def write(folder: Path, source: str, rows: dict[str, str]) -> None:
    """One file of a source: day -> text of its one row. As old as a file that nobody is writing."""
    lines = [
        json.dumps({"chunk_id": f"{source}-{day}", "ingestion_date": day, "text": text}) for day, text in rows.items()
    ]
    path = folder / f"{source}.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.utime(path, (1_760_000_000, 1_760_000_000))


def two_sources(folder: Path, **attributes: Any) -> Workspace:
    sources = [{"name": name, "uri": f"{name}.jsonl", "format": "jsonl"} for name in "ab"]
    return workspace(folder, **{"sources": sources, **attributes})


def ingest(work: Workspace, *keys: str) -> None:
    """Leaves the manifests that a finished ingest of these batches leaves."""
    if not (work.state.root / "index").exists():
        lancedb.connect(work.index_uri).create_table(work.settings.index.table, [{"chunk_id": "x"}])
    for key in keys:
        info = work.scan().batches.get(key)
        known = work.manifest(key)
        work.write_manifest(
            BatchManifest(
                key=key,
                source=info.source if info else known.source,
                ingestion_date=key[:10],
                rows=info.rows if info else 0,
                rejected=0,
                content_hash=info.content_hash if info else "empty",
                settings_hash=work.settings_hash,
                generation=generation_of(work, info),
                ingests=known.ingests + 1 if known else 1,
            )
        )


def asked(found: Discovery) -> list[tuple[str, str]]:
    return [(one.change.key, one.change.reason) for one in found.requests]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for source in "ab":
        write(tmp_path, source, {day: f"{source} on {day}" for day in DAYS})
    return tmp_path


def test_the_first_look_asks_for_every_batch_and_the_second_for_none(store: Path) -> None:
    first = discover(two_sources(store), None)
    assert asked(first) == [(key, "new") for key in sorted([*A, *B])]
    assert first.sources == ["a", "b"]
    second = discover(two_sources(store), first.cursor)
    assert second.requests == []
    assert (second.notes, second.asked_before) == ([], sorted([*A, *B]))
    # A cursor that is lost asks again, with keys that Dagster knows already.
    assert [one.run_key for one in discover(two_sources(store), None).requests] == [
        one.run_key for one in first.requests
    ]
    ingest(two_sources(store), *A, *B)
    third = discover(two_sources(store), second.cursor)
    assert (third.requests, third.notes, third.asked_before, third.sources) == ([], [], [], ["a", "b"])


def test_a_batch_whose_run_ends_during_a_look_is_not_asked_for_again(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = discover(two_sources(store), None)

    def ends_meanwhile(work: Workspace, *scans: Any) -> list[BatchChange]:
        behind = changed_batches(work, *scans)
        ingest(work, A[0])
        return behind

    monkeypatch.setattr(discovery, "batches_to_bring_in", ends_meanwhile)
    second = discover(two_sources(store), first.cursor)
    assert (second.requests, second.asked_before) == ([], sorted([*A, *B]))
    monkeypatch.undo()
    third = discover(two_sources(store), second.cursor)
    assert (third.requests, third.asked_before) == ([], sorted([*A[1:], *B]))
    write(store, "a", {day: f"another a on {day}" for day in DAYS[:1]} | {day: f"a on {day}" for day in DAYS[1:]})
    assert asked(discover(two_sources(store), third.cursor)) == [(A[0], "changed")]


def test_a_changed_batch_is_asked_for_once_and_one_that_returns_to_an_earlier_text_again(store: Path) -> None:
    ingest(two_sources(store), *A, *B)
    cursor, keys = None, []
    for text in ("first change", "a on 2026-01-03", "first change"):
        write(store, "a", {day: f"a on {day}" for day in DAYS} | {DAYS[1]: text})
        found = discover(two_sources(store), cursor)
        assert asked(found) == [(A[1], "changed")]
        again = discover(two_sources(store), found.cursor)
        assert again.requests == []
        keys += [one.run_key for one in found.requests]
        cursor = again.cursor
        ingest(two_sources(store), A[1])
    assert len(set(keys)) == 3


def on_the_second(folder: Path, text: str) -> None:
    write(folder, "a", {day: f"a on {day}" for day in DAYS} | {DAYS[1]: text})


def test_a_text_that_could_not_be_ingested_went_and_comes_back_is_asked_for_again(store: Path) -> None:
    ingest(two_sources(store), *A, *B)
    cursor, keys = None, []
    for text in ("a change", "a on 2026-01-03", "a change", "a on 2026-01-03", "a change"):
        on_the_second(store, text)
        found = discover(two_sources(store), cursor)
        again = discover(two_sources(store), found.cursor)  # queued, running or failed: asked for once each time
        assert again.requests == []
        keys += [one.run_key for one in found.requests]
        cursor = again.cursor
    assert len(keys) == len(set(keys)) == 3
    assert [one.run_key for one in discover(two_sources(store), None).requests] == keys[:1]  # which Dagster knows
    ingest(two_sources(store), A[1])
    after = discover(two_sources(store), cursor)
    path = store / "state" / "audits" / "small" / "discovery" / f"{json.loads(after.cursor)['memory']}.json"
    memory = json.loads(path.read_text())
    assert (after.requests, memory["requested"], memory["asked"]) == ([], [], {})


def test_a_batch_that_was_stopped_and_restored_is_asked_for_once_to_turn_its_partition_green(store: Path) -> None:
    work = two_sources(store)
    ingest(work, *A, *B)
    write_json(work.state.batch(A[1]) / "pending.json", {"generation": "of a text that a check stopped"})
    found = discover(two_sources(store), None)
    assert asked(found) == [(A[1], "restored")]
    again = discover(two_sources(store), found.cursor)
    assert (again.requests, again.asked_before) == ([], [A[1]])
    sources = [{"name": name, "uri": f"{name}.jsonl", "format": "jsonl", "retired": name == "a"} for name in "ab"]
    assert discover(two_sources(store, sources=sources), None).requests == []  # a run would read nothing, and empty it
    on_the_second(store, "a change")
    assert asked(discover(two_sources(store), again.cursor)) == [(A[1], "changed")]


def test_what_was_asked_for_is_not_asked_for_again_where_its_source_could_not_be_read_meanwhile(store: Path) -> None:
    ingest(two_sources(store), *A, *B)
    on_the_second(store, "a change")
    first = discover(two_sources(store), None)
    assert asked(first) == [(A[1], "changed")]
    (store / "a.jsonl").write_text("{broken\n", encoding="utf-8")
    unread = discover(two_sources(store), first.cursor)
    assert unread.requests == []
    on_the_second(store, "a change")
    assert discover(two_sources(store), unread.cursor).requests == []


def test_an_emptied_batch_is_asked_for_once_and_its_source_stays_known(store: Path) -> None:
    ingest(two_sources(store), *A, *B)
    sources = [{"name": "b", "uri": "b.jsonl", "format": "jsonl"}]
    found = discover(two_sources(store, sources=sources), None)
    assert asked(found) == [(key, "emptied") for key in A]
    ingest(two_sources(store, sources=sources), *A)
    after = discover(two_sources(store, sources=sources), found.cursor)
    assert (after.requests, after.sources) == ([], ["a", "b"])


def test_a_retired_source_is_not_read_and_none_of_its_batches_is_emptied(store: Path) -> None:
    ingest(two_sources(store), *A, *B)
    (store / "a.jsonl").unlink()
    sources = [{"name": name, "uri": f"{name}.jsonl", "format": "jsonl", "retired": name == "a"} for name in "ab"]
    found = discover(two_sources(store, sources=sources), None)
    assert (found.requests, found.notes, found.sources) == ([], [], ["a", "b"])


def test_a_source_that_cannot_be_read_is_told_and_the_others_go_on(store: Path) -> None:
    ingest(two_sources(store), *A, *B)
    (store / "a.jsonl").write_text("{broken\n", encoding="utf-8")
    write(store, "b", dict.fromkeys(DAYS[:1], "another text") | {day: f"b on {day}" for day in DAYS[1:]})
    found = discover(two_sources(store), None)
    assert asked(found) == [(B[0], "changed")]  # and no batch of a is taken for an emptied one
    (note,) = found.notes
    assert note.startswith("not read: source 'a', a.jsonl")
    assert discover(two_sources(store), found.cursor).notes[0] == note  # told at every look
    with pytest.raises(AuditInputError, match=r"a\.jsonl"):
        two_sources(store).store.scan()


def test_where_an_entry_of_every_source_cannot_be_read_nothing_is_known_of_any(store: Path) -> None:
    ingest(two_sources(store), *A, *B)
    (store / "more.jsonl").write_text("{broken\n", encoding="utf-8")
    write(store, "b", dict.fromkeys(DAYS, "another text"))
    sources = [{"name": name, "uri": f"{name}.jsonl", "format": "jsonl"} for name in "ab"]
    every = {"name": "*", "uri": "more.jsonl", "format": "jsonl"}
    found = discover(two_sources(store, sources=[*sources, every]), None)
    assert found.requests == []
    assert "more.jsonl" in found.notes[0]


def test_many_batches_are_asked_for_over_several_looks_each_once(store: Path) -> None:
    cursor, keys, notes = None, [], []
    for _ in range(4):
        found = discover(two_sources(store), cursor, most=2)
        keys += [one.change.key for one in found.requests]
        notes.append(found.notes)
        cursor = found.cursor
    assert keys == sorted([*A, *B])
    assert notes[0] == ["4 more batches: asked for by the next looks"]


def test_history_waits_for_a_backfill_where_the_settings_say_so_and_later_batches_do_not(store: Path) -> None:
    waits = {"automation": {"mode": "sensors", "history": "wait"}}
    first = discover(two_sources(store, **waits), None)
    assert first.requests == []
    assert first.sources == ["a", "b"]  # registered all the same
    assert first.notes == [
        f"3 batches of {one} from before it was first seen: backfill them (audit-pipeline backfill --source {one})"
        for one in "ab"
    ]
    assert waiting_batches(two_sources(store, **waits)) == {*A, *B}
    write(store, "a", {day: f"a on {day}" for day in (*DAYS, "2026-02-01")})
    assert waiting_batches(two_sources(store, **waits)) == {*A, *B}
    second = discover(two_sources(store, **waits), first.cursor)
    assert asked(second) == [("2026-02-01|a", "new")]
    ingest(two_sources(store), *A, *B, "2026-02-01|a")
    write(store, "b", dict.fromkeys(DAYS, "b changed"))
    third = discover(two_sources(store, **waits), second.cursor)
    assert asked(third) == [(key, "changed") for key in B]
    assert waiting_batches(two_sources(store, **waits)) == waiting_batches(two_sources(store)) == set()


def test_history_before_the_grid_is_not_said_to_be_asked_for_once_it_has_it(store: Path) -> None:
    waits = {"automation": {"mode": "sensors", "history": "wait"}}
    found = discover(two_sources(store, **waits), None, grid_start=dt.date(2026, 1, 5))
    assert found.notes == [
        *(
            f"3 batches of {one} from before it was first seen: backfill them (audit-pipeline backfill --source {one})"
            for one in "ab"
        ),
        "4 of these before 2026-01-05, where the grid begins: the UI has them once the code location is reloaded",
    ]
    assert two_sources(store).state.start_date(None) == dt.date(2026, 1, 2)


def test_batches_before_the_grid_wait_for_a_reload_which_then_has_them(store: Path) -> None:
    found = discover(two_sources(store), None, grid_start=dt.date(2026, 1, 5))
    assert [key for key, _ in asked(found)] == [A[2], B[2]]
    assert found.notes == [
        "4 batches before 2026-01-05, where the grid begins: reload the code location, then they are asked for"
    ]
    assert two_sources(store).state.start_date(None) == dt.date(2026, 1, 2)
    reloaded = discover(two_sources(store), found.cursor, grid_start=dt.date(2026, 1, 2))
    assert [key for key, _ in asked(reloaded)] == sorted([*A[:2], *B[:2]])


def test_a_cursor_stays_small_and_one_that_was_not_kept_costs_nothing(store: Path) -> None:
    days = [(dt.date(2020, 1, 1) + dt.timedelta(days=n)).isoformat() for n in range(300)]
    write(store, "a", {day: f"a on {day}" for day in days})
    looks = [discover(two_sources(store), None, most=100)]
    for _ in range(3):
        # Two looks from one cursor: that of the first was never kept, and the second asks for the same.
        first, second = (discover(two_sources(store), looks[-1].cursor, most=100) for _ in range(2))
        assert asked(first) == asked(second)
        looks.append(second)
    assert [len(look.requests) for look in looks] == [100, 100, 100, 3]
    assert len({key for look in looks for key, _ in asked(look)}) == 303
    assert max(len(look.cursor) for look in looks) < 40
    memories = two_sources(store).state.audit / "discovery"
    assert len(list(memories.iterdir())) == 2


def test_a_cursor_from_before_memories_were_files_is_understood(store: Path) -> None:
    first = discover(two_sources(store), None)
    (memory,) = (two_sources(store).state.audit / "discovery").iterdir()
    assert discover(two_sources(store), memory.read_text(encoding="utf-8")).requests == []
    memory.unlink()  # its batches are asked for again, by keys that Dagster knows
    assert asked(discover(two_sources(store), first.cursor)) == asked(first)
