"""A batch killed before each of its writes, and two processes that write one table: the next run makes it whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.settings_file import load_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.managed import bring_up_to_date
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.stages.forked import MID_COMMIT, Server, server

DAYS = ("2026-01-02", "2026-01-03")
KEY, OTHER = (f"{day}|docs" for day in DAYS)
PER_BATCH = 6
SETTINGS = """\
type: audit_pipeline.IndexAudit
attributes:
  name: managed
  sources: [{{name: docs, uri: docs.jsonl, format: jsonl}}]
  encoder: {{model: {model}}}
"""


def rows_of(store: str) -> list[dict[str, Any]]:
    """The rows of a store: first, grown (new rows), changed (edited, new, gone and moved ones), emptied; all of KEY."""
    texts = docstrings("rich", 2 * PER_BATCH)
    rows = [
        {"chunk_id": f"c{number:02}", "text": text, "ingestion_date": DAYS[number // PER_BATCH]}
        for number, text in enumerate(texts)
    ]
    if store == "changed":
        rows[0]["text"] = "The ferry leaves when the tide allows."
        rows[1]["ingestion_date"] = DAYS[1]
        del rows[2]
        rows.append({"chunk_id": "new", "text": "A new row about salt.", "ingestion_date": DAYS[0]})
    if store == "grown":
        rows.append({"chunk_id": "new", "text": "A new row about salt.", "ingestion_date": DAYS[0]})
    if store == "emptied":
        rows = [row for row in rows if row["ingestion_date"] != DAYS[0]]
    return rows


@pytest.fixture(scope="module")
def processes(fast_encoder: Encoder) -> Iterator[Server]:
    with server(fast_encoder.files.folder) as started:
        yield started


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, fast_encoder: Encoder) -> Path:
    """The settings of each state of the store, and the state folder after the first."""
    folder = tmp_path_factory.mktemp("killed")
    for store in ("first", "grown", "changed", "emptied"):
        (folder / store).mkdir()
        lines = "".join(json.dumps(row) + "\n" for row in rows_of(store))
        (folder / store / "docs.jsonl").write_text(lines, encoding="utf-8")
        os.utime(folder / store / "docs.jsonl", (1_760_000_000, 1_760_000_000))  # of a file just written none is kept
        settings = SETTINGS.format(model=fast_encoder.files.folder)
        (folder / store / "defs.yaml").write_text(settings, encoding="utf-8")
    brought_in(folder / "first" / "defs.yaml", folder / "kept", fast_encoder)
    return folder


def brought_in(config: Path, state: Path, encoder: Encoder) -> list[str]:
    """Ingest what has changed, as the next runs do; the keys of what had changed at first."""

    def opened() -> Workspace:
        workspace = Workspace(load_settings(config), state)
        workspace.__dict__["encoder"] = encoder  # not loaded again each time
        return workspace

    return [change.key for change in bring_up_to_date(opened)]


def table_of(state: Path) -> list[dict[str, Any]]:
    """The table's rows by id, none where there is no table that can be opened."""
    try:
        table = lancedb.connect(str(state / "index" / "managed.lance")).open_table("chunks")
    except ValueError:
        return []
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["chunk_id"])


def texts_of(state: Path, key: str) -> dict[str, str]:
    return {row["chunk_id"]: row["text"] for row in table_of(state) if row["batch"] == key}


def assert_whole(state: Path, store: str, encoder: Encoder) -> None:
    """The table's rows are the store's: each id once, in its batch, with its text and its vector."""
    rows, expected = table_of(state), sorted(rows_of(store), key=lambda row: row["chunk_id"])
    assert [(row["chunk_id"], row["text"], row["batch"]) for row in rows] == [
        (row["chunk_id"], row["text"], f"{row['ingestion_date']}|docs") for row in expected
    ]
    vectors = np.array([row["vector"] for row in rows], np.float32)
    assert np.allclose(vectors, encoder.encode([row["text"] for row in expected]), atol=1e-6)


def files_of(state: Path) -> dict[str, bytes]:
    """The files of each batch's current generation, and what says which that is."""
    found = {}
    for folder in (state / "audits" / "managed" / "batches").iterdir():
        current = json.loads((folder / "batch.json").read_text(encoding="utf-8"))["generation"]
        for path in [*folder.glob("*.json"), *folder.glob(f"{current}/[!.]*")]:
            found[str(path.relative_to(state))] = path.read_bytes()
    return found


def begin(stores: Path, store: str, state: Path) -> Path:
    """The state folder before a batch of this store is ingested."""
    if store == "first":
        state.mkdir()
    else:
        shutil.copytree(stores / "kept", state)
    return state


@pytest.mark.parametrize("store", ["first", "changed", "emptied"])
def test_a_batch_killed_before_any_of_its_writes_is_made_whole_by_the_next_run(
    store: str, tmp_path: Path, stores: Path, processes: Server, fast_encoder: Encoder
) -> None:
    config = stores / store / "defs.yaml"
    sound = begin(stores, store, tmp_path / "sound")
    before, job = texts_of(sound, KEY), {"config": str(config), "key": KEY}
    (never_killed,) = processes.run({**job, "state": str(sound)})
    after, writes = texts_of(sound, KEY), never_killed.writes
    assert never_killed.code == 0
    commit = {"first": "create table", "changed": "merge", "emptied": "delete"}[store]
    assert writes.count(commit) == 1
    assert [name for name in writes if name.endswith((".parquet", ".json", ".rows")) and name != "encoder.json"] == [
        "store.rows",
        "unplaced.parquet",
        "chunks.parquet",
        "rejected.parquet",
        "pending.json",
        "probes.parquet",
        "provenance.json",
        "signatures.parquet",
        "signatures.json",
        "unsettled.json",
        "unsettled.json",
        "integrity.parquet",
        "batch.json",
    ]
    brought_in(config, sound, fast_encoder)
    whole = files_of(sound)
    after_commit = writes.index(commit) + 1
    points = {
        "first": [after_commit, MID_COMMIT],
        "changed": [*range(len(writes)), MID_COMMIT],
        "emptied": [after_commit],
    }
    for number in points[store]:
        name = number if isinstance(number, str) else writes[number]
        state = begin(stores, store, tmp_path / f"killed-{number}")
        (killed,) = processes.run({**job, "state": str(state), "die": number})
        assert killed.code == -signal.SIGKILL, name
        if number == MID_COMMIT:
            assert texts_of(state, KEY) in (before, after)
        else:
            assert texts_of(state, KEY) == (after if number >= after_commit else before), name
        changed = brought_in(config, state, fast_encoder)
        assert (KEY in changed) == ("batch.json" not in killed.writes[:-1]), name  # it died before the last of them
        assert_whole(state, store, fast_encoder)
        assert files_of(state) == whole, name
        shutil.rmtree(state)


@pytest.mark.parametrize(
    ("store", "keys", "moves"),
    [
        ("first", (KEY, OTHER), False),
        ("first", (KEY, KEY), False),
        ("grown", (KEY, KEY), False),
        ("changed", (KEY, OTHER), True),
    ],
    ids=["new table, two batches", "new table, one batch", "new rows, one batch", "a row that moves, two batches"],
)
def test_two_processes_that_write_one_table_at_once_lose_and_double_nothing(
    store: str,
    keys: tuple[str, str],
    moves: bool,
    tmp_path: Path,
    stores: Path,
    processes: Server,
    fast_encoder: Encoder,
) -> None:
    config = stores / store / "defs.yaml"
    state = begin(stores, store, tmp_path / "state")
    (tmp_path / "meet").mkdir()
    job = {"config": str(config), "state": str(state), "meet": str(tmp_path / "meet")}
    ended = processes.run(*({**job, "key": key} for key in keys))
    assert [one.code for one in ended] == [0, 0]
    assert len(list((tmp_path / "meet").iterdir())) == 2
    ids = [row["chunk_id"] for row in table_of(state)]
    assert len(ids) == len(set(ids))
    if moves:  # in the table all the while, under either batch until one of them is brought in again
        assert set(ids) == {row["chunk_id"] for row in rows_of(store)}
    else:
        for key in keys:
            assert texts_of(state, key) == {
                row["chunk_id"]: row["text"] for row in rows_of(store) if f"{row['ingestion_date']}|docs" == key
            }
    behind = brought_in(config, state, fast_encoder)
    assert moves or KEY not in behind
    assert_whole(state, store, fast_encoder)
