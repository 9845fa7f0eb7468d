"""What the automation conditions ask for, tick by tick: batches that arrived, then one audit, then nothing."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline_tests.orchestration.test_automation import DAYS, tick
from audit_pipeline_tests.orchestration.test_both_jobs import BATCH_ASSETS
from audit_pipeline_tests.stages.test_discovery import two_sources, write

pytestmark = pytest.mark.filterwarnings("ignore:.*partitions_def:dagster.PreviewWarning")

Asked = dict[str, set[str | None]]
CORPUS = [asset.name for asset in CORPUS_ASSETS]
AUDIT: Asked = {name: {None} for name in CORPUS}
CELLS = {f"{day}|{source}" for day in DAYS for source in "ab"}
START = dt.datetime(2026, 2, 1, tzinfo=dt.UTC)


def batches(*cells: str) -> Asked:
    return {name: set(cells) for name in BATCH_ASSETS}


@dataclass
class Daemon:
    """The daemon at work on one index without its runs: the discovery sensor, then the conditions; time moves on."""

    folder: Path
    instance: dg.DagsterInstance
    history: str = "ingest"
    looked: str | None = None
    evaluated: AssetDaemonCursor | None = None
    ticks: int = 0

    def settings(self) -> IndexAuditSettings:
        sources = [{"name": name, "uri": f"{name}.jsonl", "format": "jsonl"} for name in "ab"]
        arriving = {"name": "*", "uri": "arrived", "format": "jsonl"}
        automation = {"mode": "conditions", "history": self.history}
        return two_sources(self.folder, sources=[*sources, arriving], automation=automation).settings

    def asks(self) -> Asked:
        """Asset -> partitions that one tick of both asks for, on definitions that are loaded anew."""
        self.ticks += 1
        settings = self.settings()
        seen = tick(settings, self.instance, self.looked)
        assert seen.run_requests == []
        self.looked = seen.cursor
        for event in seen.asset_events:
            self.instance.report_runless_asset_event(event)
        defs = build_defs(settings)
        now = START + dt.timedelta(seconds=5 * self.ticks)
        result = dg.evaluate_automation_conditions(defs, self.instance, cursor=self.evaluated, evaluation_time=now)
        self.evaluated = result.cursor
        found = {
            spec.key.path[-1]: set(result.get_requested_partitions(spec.key)) for spec in defs.resolve_all_asset_specs()
        }
        return {asset: partitions for asset, partitions in found.items() if partitions}

    def made(self, assets: Iterable[str], *partitions: str | None, run: dg.DagsterRun | None = None) -> None:
        """What a run of these assets leaves in Dagster; ``run`` is one that was begun before."""
        for partition in partitions:
            for asset in assets:
                event = dg.AssetMaterialization(dg.AssetKey(["small", asset]), partition=partition)
                self.instance.report_runless_asset_event(event)
        if run is not None:
            self.instance.report_run_failed(run)

    def begun(self, batch: str) -> dg.DagsterRun:
        """A run of a batch that is under way."""
        job = build_defs(self.settings()).resolve_job_def("small__ingest_batch")
        run = self.instance.create_run_for_job(job, tags={"dagster/partition": batch}, asset_selection=None)
        self.instance.report_dagster_event(
            dg.DagsterEvent("PIPELINE_START", job.name, message="started"), run_id=run.run_id
        )
        return run


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))
    for source in "ab":
        write(tmp_path, source, {day: f"{source} on {day}" for day in DAYS})
    (tmp_path / "arrived").mkdir()
    (tmp_path / "arrived" / "none.jsonl").touch()
    two_sources(tmp_path).state.extend_back_to(dt.date(2025, 12, 1))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Daemon(tmp_path, instance)


def test_all_batches_are_asked_for_then_one_audit_and_then_nothing(daemon: Daemon) -> None:
    assert daemon.asks() == batches(*CELLS)
    daemon.made(BATCH_ASSETS, *CELLS)
    assert daemon.asks() == AUDIT
    daemon.made(CORPUS, None)
    assert [daemon.asks() for _ in range(5)] == [{}] * 5


def test_a_source_that_arrives_later_is_asked_for_in_the_tick_that_registers_it(daemon: Daemon) -> None:
    daemon.asks()
    daemon.made(BATCH_ASSETS, *CELLS)
    daemon.asks()
    daemon.made(CORPUS, None)
    rows = [{"chunk_id": f"c-{day}", "ingestion_date": day, "source": "c", "text": f"c on {day}"} for day in DAYS]
    (daemon.folder / "arrived" / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert daemon.asks() == batches(*(f"{day}|c" for day in DAYS))


def test_a_batch_that_changes_again_before_its_run_has_ended_is_asked_for_again(daemon: Daemon) -> None:
    cell, rest = f"{DAYS[0]}|a", {DAYS[1]: f"a on {DAYS[1]}"}
    daemon.asks()
    daemon.made(BATCH_ASSETS, *CELLS)
    daemon.asks()
    daemon.made(CORPUS, None)
    write(daemon.folder, "a", {DAYS[0]: "once", **rest})
    assert daemon.asks() == batches(cell)
    # The daemon asks no second time while the first run is under way.
    run = daemon.begun(cell)
    write(daemon.folder, "a", {DAYS[0]: "twice, after the run has read it", **rest})
    assert [daemon.asks() for _ in range(2)] == [{}] * 2
    daemon.made(BATCH_ASSETS, cell, run=run)
    assert daemon.asks() == batches(cell) | AUDIT
    daemon.made(BATCH_ASSETS, cell)
    daemon.made(CORPUS, None)  # which may have pinned the version before
    assert daemon.asks() == AUDIT
    daemon.made(CORPUS, None)
    assert [daemon.asks() for _ in range(3)] == [{}] * 3


def test_an_audit_waits_for_batches_under_way_and_another_follows_one_that_began_before_a_batch(
    daemon: Daemon,
) -> None:
    daemon.asks()
    daemon.made(BATCH_ASSETS, *CELLS)
    assert daemon.asks() == AUDIT
    daemon.made(CORPUS, None)
    daemon.made(BATCH_ASSETS, f"{DAYS[0]}|a")  # such as by hand, after the audit has pinned its version
    run = daemon.begun(f"{DAYS[1]}|a")
    assert [daemon.asks() for _ in range(3)] == [{}] * 3
    daemon.made(BATCH_ASSETS, f"{DAYS[1]}|a", run=run)
    assert daemon.asks() == AUDIT


def test_what_changes_later_is_asked_for_alone_and_audited_once(daemon: Daemon) -> None:
    daemon.asks()
    daemon.made(BATCH_ASSETS, *CELLS)
    daemon.asks()
    daemon.made(CORPUS, None)
    write(daemon.folder, "a", {DAYS[0]: "another text", DAYS[1]: f"a on {DAYS[1]}", "2026-01-09": "a new day"})
    changed = [f"{DAYS[0]}|a", "2026-01-09|a"]
    assert daemon.asks() == batches(*changed)
    daemon.made(BATCH_ASSETS, *changed)
    assert daemon.asks() == AUDIT
    daemon.made(CORPUS, None)
    assert [daemon.asks() for _ in range(3)] == [{}] * 3


def test_a_batch_that_fails_is_not_asked_for_again_until_its_content_changes(daemon: Daemon) -> None:
    daemon.asks()
    fails = f"{DAYS[0]}|a"
    daemon.made(BATCH_ASSETS, *(CELLS - {fails}))
    daemon.made(["chunks"], fails)
    assert daemon.asks() == AUDIT
    daemon.made(CORPUS, None)
    assert [daemon.asks() for _ in range(5)] == [{}] * 5
    write(daemon.folder, "a", {DAYS[0]: "mended", DAYS[1]: f"a on {DAYS[1]}"})
    assert daemon.asks() == batches(fails)


def test_history_that_waits_for_a_backfill_is_not_asked_for_and_what_arrives_later_is(daemon: Daemon) -> None:
    daemon.history = "wait"
    assert [daemon.asks() for _ in range(2)] == [{}] * 2
    assert set(daemon.instance.get_dynamic_partitions("small__source")) == {"a", "b"}
    write(daemon.folder, "a", {**{day: f"a on {day}" for day in DAYS}, "2026-01-09": "a new day"})
    assert daemon.asks() == batches("2026-01-09|a")


def test_definitions_with_an_earlier_grid_ask_for_nothing_that_stands(daemon: Daemon) -> None:
    daemon.asks()
    daemon.made(BATCH_ASSETS, *CELLS)
    daemon.asks()
    daemon.made(CORPUS, None)
    two_sources(daemon.folder).state.extend_back_to(dt.date(2024, 1, 1))
    assert [daemon.asks() for _ in range(2)] == [{}] * 2
