"""Batches that are left out before they spoil the table, while the others are brought in."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import lancedb
import numpy as np
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.errors import AuditInputError, BatchInputError
from audit_pipeline.orchestration import running, workspaces
from audit_pipeline.orchestration.running import Backfilled, backfill_plan, run_backfill
from audit_pipeline_tests.command import Command
from audit_pipeline_tests.encoder import planted
from audit_pipeline_tests.orchestration.managed_index import (
    DAY,
    LATER,
    SMALL_SAMPLE,
    instance,
    managed,
    passed,
    table,
    write,
)

__all__ = ["instance"]


def test_a_batch_whose_text_column_vanished_is_left_out_before_it_empties_the_table_and_the_others_go_on(
    tmp_path: Path, fast_encoder: Encoder, command: Command, instance: dg.DagsterInstance
) -> None:
    config = tmp_path / "defs.yaml"
    config.write_text(
        "type: audit_pipeline.IndexAudit\nattributes:\n  name: managed\n"
        "  sources: [{name: docs, uri: docs.jsonl, format: jsonl}]\n"
        f"  encoder: {{model: {fast_encoder.files.folder}}}\n  sample: {json.dumps(SMALL_SAMPLE)}\n",
        encoding="utf-8",
    )
    texts = planted.docstrings("rich", 6)
    rows = {f"d{n}": (DAY if n < 3 else LATER, text) for n, text in enumerate(texts)}
    write(tmp_path, rows)
    settings = managed(tmp_path, fast_encoder)
    run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    before = table(tmp_path)
    arrived = {"d6": (LATER, "A row that arrives beside the broken batch.")}
    write(tmp_path, {i: (day, None if day == DAY else text) for i, (day, text) in rows.items()} | arrived)
    why = (
        f"audit-pipeline: batch {DAY}|docs: none of its 3 rows can be used any more (3 missing_text), so the 3 rows "
        "that the table has of it stay as they were: correct the rows in the source store (was a column renamed?), or "
        "delete them there"
    )
    where = ("--config", str(config), "--state", str(tmp_path / "state"))
    printed = command("run", *where)
    assert (printed.code, printed.err.splitlines()[-1]) == (2, why)
    assert printed.err.count("audit-pipeline: ") == 1
    assert printed.out.splitlines()[-1] == "exit 2: 1 batch could not be brought in, see below"
    assert table(tmp_path) == before | {"d6": arrived["d6"][1]}  # the batch after it came in
    assert passed(instance, "managed", "chunks", "batch_keeps_rows") == {f"{DAY}|docs": False, f"{LATER}|docs": True}
    assert passed(instance, "managed", "corpus_integrity", "no_failed_batches") == {None: False}
    audit = json.loads((tmp_path / "state" / "reports" / "managed" / "audit.json").read_text(encoding="utf-8"))
    assert (
        "Not measured: 1 batch whose last ingest had not finished, which the table has as before: 2026-01-02|docs."
        in [finding["message"] for finding in audit["findings"]]
    )
    printed = command("backfill", "--source", "docs", *where)
    assert (printed.code, printed.err.splitlines()[-1]) == (2, why)
    assert printed.out.splitlines()[-1] == "managed: 0 batches brought in; 1 left out, see below"
    write(tmp_path, rows | arrived)  # as the table has it, and red until a run passes
    settings = managed(tmp_path, fast_encoder)
    changes = backfill_plan(settings, "docs", None)
    assert [(one.key, one.reason, one.rows) for one in changes] == [(f"{DAY}|docs", "restored", 3)]
    assert run_backfill(settings, changes, instance) == Backfilled()
    assert passed(instance, "managed", "chunks", "batch_keeps_rows") == {f"{DAY}|docs": True, f"{LATER}|docs": True}
    assert backfill_plan(managed(tmp_path, fast_encoder), "docs", None) == []
    write(tmp_path, {i: row for i, row in rows.items() if row[0] == LATER})  # really emptied: that is followed
    settings = managed(tmp_path, fast_encoder)
    assert run_backfill(settings, backfill_plan(settings, "docs", None), instance) == Backfilled()
    assert set(table(tmp_path)) == {"d3", "d4", "d5"}


def test_a_batch_keeps_rows_that_move_to_one_that_is_left_out_until_that_one_comes_in(
    tmp_path: Path, fast_encoder: Encoder, instance: dg.DagsterInstance
) -> None:
    def batches() -> dict[str, str]:
        rows = lancedb.connect(str(tmp_path / "state" / "index" / "managed.lance")).open_table("chunks").to_arrow()
        return {row["chunk_id"]: row["batch"] for row in rows.select(["chunk_id", "batch"]).to_pylist()}

    texts = planted.docstrings("rich", 6)
    rows = {f"d{n}": (DAY if n < 3 else LATER, text) for n, text in enumerate(texts)}
    write(tmp_path, rows)
    settings = managed(tmp_path, fast_encoder)
    run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    # d0 and d3 change places; the guard holds the batch that d5 would go from.
    moved = rows | {"d0": (LATER, texts[0]), "d3": (DAY, texts[3]), "d1": ("2026-01-20", texts[1])}
    write(tmp_path, moved | {"d5": ("no day", texts[5])})
    settings = managed(tmp_path, fast_encoder)
    done = run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    assert list(done.left_out) == [f"{LATER}|docs"]
    assert table(tmp_path) == {i: text for i, (_, text) in rows.items()}
    assert {i: key[:10] for i, key in batches().items()} == {
        i: day for i, (day, _) in (moved | {"d0": (DAY, "")}).items()
    }
    assert [one.key for one in backfill_plan(managed(tmp_path, fast_encoder), "docs", None)] == [f"{LATER}|docs"]
    write(tmp_path, moved)
    settings = managed(tmp_path, fast_encoder)
    assert run_backfill(settings, backfill_plan(settings, "docs", None), instance) == Backfilled()
    assert table(tmp_path) == {i: text for i, (_, text) in moved.items()}
    assert {i: key[:10] for i, key in batches().items()} == {i: day for i, (day, _) in moved.items()}
    assert backfill_plan(managed(tmp_path, fast_encoder), "docs", None) == []


@pytest.mark.parametrize("broken", [0.0, np.nan])
def test_vectors_that_no_search_finds_are_stopped_before_they_are_written(
    tmp_path: Path,
    fast_encoder: Encoder,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    broken: float,
) -> None:
    write(tmp_path, {f"d{n}": (DAY, text) for n, text in enumerate(planted.docstrings("rich", 3))})
    settings = managed(tmp_path, fast_encoder)
    workspace = workspaces.workspace_for(settings)
    encode = type(workspace.encoder).encode
    monkeypatch.setattr(type(workspace.encoder), "encode", lambda *given, **more: encode(*given, **more) * broken)
    found = run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    assert list(found.left_out) == [f"{DAY}|docs"]
    assert "check encoder.model" in str(found.left_out[f"{DAY}|docs"])
    assert not (tmp_path / "state" / "index").exists()
    assert passed(instance, "managed", "passage_vectors", "vectors_can_be_written") == {f"{DAY}|docs": False}


def test_what_concerns_one_batch_leaves_it_out_and_what_would_meet_every_batch_ends_the_command_at_once(
    tmp_path: Path, fast_encoder: Encoder, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = (DAY, LATER, "2026-01-04")
    write(tmp_path, {f"d{n}": (day, f"a text of {day}") for n, day in enumerate(days)})
    settings = managed(tmp_path, fast_encoder)
    asked = []

    def refuse(*_: object, partition_key: str, **__: object) -> None:
        asked.append(partition_key)
        raise errors.pop(0)

    monkeypatch.setattr(running, "execute", refuse)
    errors = [BatchInputError("one"), BatchInputError("two"), BatchInputError("three")]
    found = run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    assert {key: str(error) for key, error in found.left_out.items()} == {
        f"{DAY}|docs": "one",
        f"{LATER}|docs": "two",
        "2026-01-04|docs": "three",
    }
    asked.clear()
    errors = [BatchInputError("one"), AuditInputError("encoder.model: it cannot be loaded"), BatchInputError("three")]
    with pytest.raises(AuditInputError, match="cannot be loaded"):
        run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    assert asked == [f"{DAY}|docs", f"{LATER}|docs"]
