"""Automation conditions on the real daemon: a batch arrives, its run is killed, and it ends as if nothing had been."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import lancedb
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration import workspaces
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.orchestration.home import prepare_home
from audit_pipeline.orchestration.running import Backfilled, backfill_plan, run_backfill
from audit_pipeline.settings_file import load_settings
from audit_pipeline_tests.encoder import planted
from audit_pipeline_tests.encoder.embedding_server import Reply, serving
from audit_pipeline_tests.orchestration.live_dagster import live_dagster

DAYS = ("2026-01-02", "2026-01-03", "2026-01-05")
CHANGED, EMPTIED, NEW = (f"{day}|docs" for day in DAYS)
PER_BATCH = 10
SETTINGS = """\
type: audit_pipeline.IndexAudit
attributes:
  name: live
  sources: [{{name: docs, uri: docs.jsonl, format: jsonl}}]
  encoder: {{kind: openai_compatible, model: static, base_url: {url!r}}}
  sample: {{total: 100, arms: 0, ann_sweep: 0}}
  automation: {{mode: conditions, every_seconds: 1}}
"""
# The commit of a batch waits, with the pool's slot in its hands, for as long as the file `hold` names the batch.
HELD = """
import os, time
from audit_pipeline.stages import ingest
commit = ingest.ingest_index_rows
def held(workspace, key):
    hold = Path({folder!r}) / "hold"
    while hold.exists() and hold.read_text() == key:
        (hold.parent / "held").write_text(str(os.getpid()))
        time.sleep(0.1)
    return commit(workspace, key)
ingest.ingest_index_rows = held
"""


@pytest.fixture
def index(tmp_path: Path, fast_encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An index whose first two batches are in the table; its encoder is a server, so that no run loads a model."""

    def embed(body: dict[str, Any]) -> dict[str, Any]:
        vectors = fast_encoder.encode(body["input"]).tolist()
        return {"data": [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]}

    with serving() as server:
        server.rule = lambda body: Reply(make=embed)
        (tmp_path / "defs.yaml").write_text(SETTINGS.format(url=server.base_url), encoding="utf-8")
        write_store(tmp_path, rows_of(DAYS[:2]))
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))
        prepare_home(tmp_path / "state")
        workspaces._WORKSPACES.clear()
        settings = load_settings(tmp_path / "defs.yaml")
        with dg.DagsterInstance.get() as instance:
            assert run_backfill(settings, backfill_plan(settings, "docs", None), instance) == Backfilled()
        yield tmp_path
    workspaces._WORKSPACES.clear()


def rows_of(days: tuple[str, ...]) -> dict[str, dict[str, str]]:
    texts = planted.docstrings("rich", len(DAYS) * PER_BATCH)
    rows = {}
    for place, text in enumerate(texts):
        day = DAYS[place // PER_BATCH]
        if day in days:
            rows[f"d{place:02}"] = {"chunk_id": f"d{place:02}", "text": text, "ingestion_date": day}
    return rows


def write_store(folder: Path, rows: dict[str, dict[str, str]]) -> None:
    part = folder / "part"
    part.write_text("".join(json.dumps(row) + "\n" for row in rows.values()), encoding="utf-8")
    part.rename(folder / "docs.jsonl")


def table_rows(state: Path) -> list[tuple[str, str, str]]:
    """(id, text, batch) of each row of the table, in order."""
    table = lancedb.connect(str(state / "index" / "live.lance")).open_table("chunks").to_arrow().to_pylist()
    return sorted((row["chunk_id"], row["text"], row["batch"]) for row in table)


def runs_of_assets(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The runs that the daemon has started, the first one first."""
    return [run for run in reversed(list(instance.get_runs())) if run.job_name == "__ASSET_JOB"]


def evaluations(instance: dg.DagsterInstance) -> int:
    """Ticks of the conditions that have ended."""
    (state,) = [one for one in instance.all_instigator_state() if one.instigator_name == "live__conditions"]
    return len(instance.get_ticks(state.instigator_origin_id, state.selector_id))


@pytest.mark.timeout(400)
def test_what_arrives_is_brought_in_though_its_run_is_killed_and_one_audit_follows(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, hold = index / "state", index / "hold"
    hold.write_text(NEW, encoding="utf-8")
    rows = rows_of(("2026-01-02", "2026-01-05"))  # the second day is emptied, the third is new
    rows["d00"]["text"] = "The ferry leaves when the tide allows, and nobody waits for it."
    monkeypatch.setenv("DAGSTER_EVENT_LOG_CONSUMER_DAEMON_INTERVAL_SECONDS", "1")  # which starts runs again
    more = HELD.format(folder=str(index))
    with live_dagster([index / "defs.yaml"], state, index, more) as live, dg.DagsterInstance.get() as instance:
        write_store(index, rows)
        live.wait_for("the run of the new batch", (index / "held").exists)
        (holder,) = instance.event_log_storage.get_concurrency_info("live__table").active_run_ids
        (killed,) = [run for run in runs_of_assets(instance) if run.run_id == holder]
        assert killed.tags["dagster/partition"] == NEW
        os.kill(int((index / "held").read_text(encoding="utf-8")), signal.SIGKILL)
        hold.unlink()

        def audited() -> bool:
            """The killed run was made again, and the audit that was asked for last is done."""
            *_, last = runs = runs_of_assets(instance)
            of_interest = [run.status.value for run in runs if run is last or run.parent_run_id]
            return of_interest == ["SUCCESS"] * 2 and "dagster/partition" not in last.tags

        live.wait_for("the audit", audited)
        seen = evaluations(instance)
        live.wait_for("ticks that ask for nothing", lambda: evaluations(instance) >= seen + 5)
        runs = runs_of_assets(instance)
        outcomes = Counter((run.tags.get("dagster/partition"), run.status.value) for run in runs)
        # Between the death of the run and its second start no batch is under way, and an audit may begin. Where a batch
        # is reported at the very moment of a tick, Dagster counts that in the next tick too: it comes in once more.
        assert outcomes.pop((None, "SUCCESS")) <= 3
        assert outcomes.pop((NEW, "FAILURE")) == 1
        assert outcomes.keys() == {(batch, "SUCCESS") for batch in (CHANGED, EMPTIED, NEW)}
        assert max(outcomes.values()) <= 2
        (again,) = [run for run in runs if run.parent_run_id]
        assert again.parent_run_id == killed.run_id
        audit = runs[-1]
        assert {key.path[-1] for key in audit.asset_selection or ()} == {asset.name for asset in CORPUS_ASSETS}
        slots = instance.event_log_storage.get_concurrency_info("live__table")
        assert (slots.active_slot_count, slots.pending_step_count) == (0, 0)
    expected = [(one["chunk_id"], one["text"], f"{one['ingestion_date']}|docs") for one in rows.values()]
    assert table_rows(state) == sorted(expected)
    report = json.loads((state / "reports" / "live" / "audit.json").read_text(encoding="utf-8"))
    assert report["corpus"] == {"chunks": 2 * PER_BATCH, "batches": 2, "sources": 1}
