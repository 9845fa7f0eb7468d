"""Random histories of a store whose runs die at any write: one more run, and the table is what the store says.

What should be in the table is worked out here by plain Python from the rows as they were written.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lancedb
import pytest
from lancedb.db import LanceDBConnection
from lancedb.merge import LanceMergeInsertBuilder
from lancedb.table import LanceTable

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.errors import AuditInputError
from audit_pipeline.stages.batches import rows_that_would_vanish
from audit_pipeline.stages.changes import changed_batches
from audit_pipeline.stages.unsettled import unsettled_keys
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.managed import BATCH_STAGES
from audit_pipeline_tests.stages.builders import workspace

IDS = [f"c{number}" for number in range(6)]
DAYS = ["2026-01-05", "2026-01-06", "2026-01-12", "2026-01-13"]
FIELDS = ("chunk_id", "ingestion_date", "text")
TEXTS = ["alpha beta", "gamma delta", "epsilon zeta", "  "]
ROWS = ["add", "add", "add", "delete", "day", "day", "source", "source", "swap", "text", "undated", "clear"]
RUNS = ["killed", "killed", "killed", "some", "run"]
OF_TABLES = [*ROWS, *RUNS, "lost", "lost", "table", "table", "prompt"]
OF_WAITING = [*ROWS, *RUNS, "known", "known", "known", "known", "prompt"]
OF_RETIRED = [*ROWS, *RUNS, "killed", "killed", "retire", "retire", "retire", "forget"]


class KilledError(BaseException):
    """Ends a run as a signal would: nothing of the project catches it."""


class Killer:
    """Ends the run at one of its writes: before it, or as soon as it is done."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.after = False

    def around(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        usual = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            if self.left is None:
                return usual(*arguments, **options)
            self.left -= 1
            if self.left >= 0:
                return usual(*arguments, **options)
            self.left = None
            if self.after:
                usual(*arguments, **options)
            raise KilledError

        patch.setattr(owner, name, counted)


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Killer]:
    made = Killer()
    for owner, name in (
        (Path, "replace"),
        (shutil, "rmtree"),
        (LanceDBConnection, "create_table"),
        (LanceTable, "delete"),
        (LanceMergeInsertBuilder, "execute"),
    ):
        made.around(monkeypatch, owner, name)
    yield made
    made.left = None


class History:
    """A store of three sources, its state folder, and what is done to both."""

    def __init__(self, folder: Path, encoder: Encoder, killer: Killer, seed: int) -> None:
        self.folder, self.encoder, self.killer, self.random = folder, encoder, killer, random.Random(seed)
        self.rows: dict[str, list[list[str]]] = {name: [] for name in "abc"}  # id, day, text
        self.retired: dict[str, bool] = dict.fromkeys("abc", False)  # by source of the settings
        self.table, self.prompt, self.seconds = "chunks", "", 1_760_000_000

    def do(self, what: str) -> None:
        """One step, if it can be done now."""
        draw, rows = self.random, self.rows
        name, other = draw.sample("abc", 2)
        row = draw.choice(rows[name]) if rows[name] else None
        if what == "add":
            rows[name].append([draw.choice(IDS), draw.choice(DAYS), draw.choice(TEXTS)])
        elif what == "swap":
            rows[name], rows[other] = rows[other], rows[name]
        elif what == "clear":
            rows[name] = []
        elif what == "lost":
            shutil.rmtree(self.folder / "state" / "index", ignore_errors=True)
        elif what == "table":
            self.table = draw.choice(["chunks", "other"])
        elif what == "prompt":
            self.prompt = draw.choice(["", "passage: "])
        elif what == "retire" and name in self.retired:
            self.retired[name] = not self.retired[name]
        elif what == "forget":
            self.retired = {
                one: self.retired.get(one, False) for one in "abc" if one != name or name not in self.retired
            }
        elif what == "killed":
            self.run(die=draw.randrange(45))
        elif what == "some":
            self.run(most=draw.randrange(1, 3))
        elif what == "known":
            self.run(waiting=True)
        elif what == "run":
            self.run()
        elif row is not None and what == "text":
            row[2] = draw.choice(TEXTS)
        elif row is not None and what in ("day", "undated"):
            row[1] = draw.choice(DAYS) if what == "day" else draw.choice(["no day", "2099-01-01"])
        elif row is not None:
            rows[name].remove(row)
            if what == "source":
                rows[other].append(row)
        if all(self.retired.values()):  # which the settings refuse
            self.retired = dict.fromkeys(self.retired, False)

    def opened(self) -> Workspace:
        for name, rows in self.rows.items():
            path, lines = (
                self.folder / f"{name}.jsonl",
                [json.dumps(dict(zip(FIELDS, row, strict=True))) for row in rows],
            )
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            self.seconds += 1
            os.utime(path, (self.seconds, self.seconds))  # of a file just written no rows are kept
        sources = [
            {"name": name, "uri": f"{name}.jsonl", "format": "jsonl", "retired": retired}
            for name, retired in self.retired.items()
        ]
        encoder = {"model": str(self.encoder.files.folder), "passage_prompt": self.prompt}
        work = workspace(self.folder, sources=sources, encoder=encoder, index={"table": self.table})
        work.__dict__["encoder"] = self.encoder
        return work

    def run(self, die: int | None = None, most: int | None = None, waiting: bool = False) -> str | None:
        """What a run does to batches, some of them in any order where ``most`` says so, and where new ones are
        ``waiting`` for a backfill to the others alone; why it stopped.
        """
        work, before = self.opened(), self.held()
        marked = unsettled_keys(work)
        stopped: str | None = None
        changes = changed_batches(work)
        if most is not None:
            changes = self.random.sample(changes, min(most, len(changes)))
        if waiting:
            changes = [change for change in changes if change.reason != "new"]
        self.killer.left, self.killer.after = die, self.random.random() < 0.5
        try:
            for change in changes:
                for stage in BATCH_STAGES:
                    stage(work, change.key)
                    if stage is BATCH_STAGES[0] and rows_that_would_vanish(work, change.key):
                        raise AuditInputError(change.key)
        except (AuditInputError, KilledError) as error:
            stopped = str(error) or "killed"
        self.killer.left = None
        after = self.held()
        for chunk_id, (batch, *_) in before.items():
            if self.retired.get(batch[-1]) and batch not in marked:
                assert after[chunk_id][0] == batch, "a retired source lost a row"
            if chunk_id in self.valid():
                assert chunk_id in after, "the table lost a row that the store has"
        return stopped

    def held(self) -> dict[str, tuple[str, ...]]:
        """chunk_id -> (batch, text) of the table."""
        database = self.folder / "state" / "index" / "small.lance"
        try:
            rows = lancedb.connect(str(database)).open_table(self.table).to_arrow().to_pylist()
        except (ValueError, FileNotFoundError):
            return {}
        assert len({row["chunk_id"] for row in rows}) == len(rows)
        return {row["chunk_id"]: (row["batch"], row["text"]) for row in rows}

    def valid(self) -> dict[str, tuple[str, ...]]:
        """chunk_id -> (batch, text) of the store: of an id that stands twice the earliest row."""
        found: dict[str, Any] = {}
        for name, retired in self.retired.items():
            for chunk_id, day, text in self.rows[name] if not retired else ():
                if day in DAYS and text.strip():
                    place = (day, name, hashlib.sha256(text.encode()).hexdigest())
                    found[chunk_id] = min(found.get(chunk_id, (place, text)), (place, text))
        return {chunk_id: (f"{place[0]}|{place[1]}", text) for chunk_id, (place, text) in found.items()}

    def end(self) -> None:
        """One more run, and the table is what it should be, and what the manifests say."""
        if self.run() is not None:  # a guard holds it: rows without a day or a text would go
            for name in self.rows:
                self.rows[name] = [row for row in self.rows[name] if row[1] in DAYS and row[2].strip()]
            assert self.run() is None
        assert self.run() is None  # a batch whose rows another took over after it is brought in again
        work = self.opened()
        assert changed_batches(work) == []
        held = self.held()
        kept = {chunk_id: row for chunk_id, row in held.items() if self.retired.get(row[0][-1])}
        assert held == self.valid() | kept
        population = work.population().select(["chunk_id", "batch", "text"]).to_pylist()
        assert sorted(tuple(row.values()) for row in population) == sorted((one, *row) for one, row in held.items())


@pytest.mark.parametrize(
    ("steps", "seed"),
    [
        *((OF_TABLES, seed) for seed in (2, 5, 19, 28)),
        *((OF_RETIRED, seed) for seed in (11, 20, 26, 1)),
        *((OF_WAITING, seed) for seed in (7, 11)),
    ],
    ids=lambda value: (
        value if isinstance(value, int) else next(one for one in ("table", "retire", "known") if one in value)
    ),
)
def test_whatever_was_done_and_died_the_next_run_ends_with_the_table_as_the_store_is(
    steps: list[str], seed: int, tmp_path: Path, fast_encoder: Encoder, killer: Killer
) -> None:
    history = History(tmp_path, fast_encoder, killer, seed)
    for number in range(36):
        history.do(history.random.choice(steps))
        if number % 12 == 11:
            history.end()
