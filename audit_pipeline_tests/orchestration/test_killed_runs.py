"""Runs whose process died: what they hold is given back by the next command, or by the next tick of the sensor."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import psutil
import pytest
from filelock import FileLock

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration.home import (
    INSTANCE_FILE,
    PROCESS_TAG,
    end_dead_runs,
    process_lives,
    process_tag,
    tag_process,
)
from audit_pipeline_tests.orchestration.test_automation import settings_of, store, tick
from audit_pipeline_tests.stages.forked import Server, server
from audit_pipeline_tests.stages.test_killed_ingest import DAYS, KEY, assert_whole, stores

__all__ = ["store", "stores"]
POOL = "managed__table"
DEAD = f"{psutil.Process().pid}:1000000000.00:{socket.gethostname()}"


@pytest.fixture(scope="module")
def processes(fast_encoder: Encoder) -> Iterator[Server]:
    with server(fast_encoder.files.folder) as started:
        yield started


@pytest.mark.timeout(240)
def test_a_run_killed_in_any_step_blocks_no_later_one_and_holds_no_slot_and_no_lock(
    tmp_path: Path, stores: Path, processes: Server, fast_encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    job = {
        "config": str(stores / "first" / "defs.yaml"),
        "state": str(state),
        "command": ["backfill", "--source", "docs"],
    }
    steps = ["chunks.parquet", "provenance.json", "create table", "batch.json"]
    for step in steps:
        (killed,) = processes.run({**job, "die": step})
        assert (killed.code, killed.writes[-1]) == (-signal.SIGKILL, step)
        with FileLock(state / "run.lock", timeout=0):
            pass
    monkeypatch.setenv("DAGSTER_HOME", str(state))
    with dg.DagsterInstance.get() as instance:
        statuses = [run.status.value for run in reversed(instance.get_runs())]
        assert statuses == ["FAILURE"] * (len(steps) - 1) + ["STARTED"]
    (done,) = processes.run(job)
    assert done.code == 0
    with dg.DagsterInstance.get() as instance:
        runs = list(reversed(instance.get_runs()))
        assert [run.status.value for run in runs] == ["FAILURE"] * len(steps) + ["SUCCESS"] * len(DAYS)
        assert {run.tags["dagster/partition"] for run in runs[: len(steps) + 1]} == {KEY}
        slots = instance.event_log_storage.get_concurrency_info(POOL)
        assert (slots.slot_count, slots.active_slot_count) == (1, 0)
    assert_whole(state, "first", fast_encoder)


def test_a_run_that_something_else_started_is_tagged_by_its_process() -> None:
    @dg.asset
    def one(context) -> None:  # Dagster cannot read an annotation that is a string
        tag_process(context)

    with dg.DagsterInstance.ephemeral() as instance:
        run = instance.get_run_by_id(dg.materialize([one], instance=instance).run_id)
        assert run is not None
        assert run.tags[PROCESS_TAG] == process_tag()[PROCESS_TAG]


def test_a_tick_of_the_sensor_ends_the_runs_of_dead_processes_of_this_host_only(store: Path) -> None:
    lives = process_tag()[PROCESS_TAG]
    tags = {"dead": DEAD, "lives": lives, "elsewhere": DEAD.replace(socket.gethostname(), "another-host")}
    assert [process_lives(tag) for tag in tags.values()] == [False, True, True]
    with dg.DagsterInstance.ephemeral() as instance:
        started = dg.DagsterRunStatus.STARTED
        runs = {
            name: instance.add_run(dg.DagsterRun(job_name="job", status=started, tags={PROCESS_TAG: tag}))
            for name, tag in tags.items()
        }
        tick(settings_of(store, "sensors"), instance)
        after = {name: instance.get_run_by_id(run.run_id) for name, run in runs.items()}
        assert {name: run.status.value for name, run in after.items() if run} == {
            "dead": "FAILURE",
            "lives": "STARTED",
            "elsewhere": "STARTED",
        }
        assert end_dead_runs(instance) == []


def test_a_tick_of_the_sensor_frees_the_slots_that_ended_runs_of_dead_processes_hold(
    store: Path,
) -> None:
    (store / "state").mkdir(exist_ok=True)
    (store / "state" / "dagster.yaml").write_bytes(INSTANCE_FILE.read_bytes())
    tags = {"dead": {PROCESS_TAG: DEAD}, "lives": process_tag(), "unknown": {}}
    with dg.DagsterInstance.get() as instance:
        storage = instance.event_log_storage
        failed = dg.DagsterRunStatus.FAILURE
        for name, tag in tags.items():
            storage.initialize_concurrency_limit_to_default(name)
            run = instance.add_run(dg.DagsterRun(job_name="job", status=failed, tags=tag))
            assert storage.claim_concurrency_slot(name, run.run_id, "index_rows").is_claimed
        tick(settings_of(store, "sensors"), instance)
        held = {name: storage.get_concurrency_info(name).active_slot_count for name in tags}
    assert held == {"dead": 0, "lives": 1, "unknown": 1}


def test_a_run_that_is_made_again_is_not_taken_for_the_dead_process_of_the_one_before(store: Path) -> None:
    @dg.asset
    def one(context) -> None:  # Dagster cannot read an annotation that is a string
        tag_process(context)
        tick(settings_of(store, "sensors"), context.instance)

    with dg.DagsterInstance.ephemeral() as instance:
        failed, starting = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTING
        killed = instance.add_run(dg.DagsterRun(job_name="job", status=failed, tags={PROCESS_TAG: DEAD}))
        again = {PROCESS_TAG: DEAD, "dagster/parent_run_id": killed.run_id, "dagster/root_run_id": killed.run_id}
        group = {"parent_run_id": killed.run_id, "root_run_id": killed.run_id}
        instance.add_run(dg.DagsterRun(job_name="job", status=starting, tags=again, **group))
        assert end_dead_runs(instance) == []
        assert dg.materialize([one], instance=instance, tags=again).success
        (newest,) = instance.get_runs(limit=1)
        assert newest.tags[PROCESS_TAG] == process_tag()[PROCESS_TAG]
