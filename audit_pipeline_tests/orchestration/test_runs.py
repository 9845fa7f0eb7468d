"""Which batches have a run in hand, and that the checks on all batches wait for those and for no others."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus
from dagster._daemon.types import DaemonHeartbeat

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import BatchInputError
from audit_pipeline.orchestration import running
from audit_pipeline.orchestration.corpus_assets import corpus_checks
from audit_pipeline.orchestration.home import PROCESS_TAG, process_tag
from audit_pipeline.orchestration.planned import planned
from audit_pipeline.orchestration.runs import ASSET_JOB, batches_under_way
from audit_pipeline.stages.discovery import discover
from audit_pipeline.state import StateFolder, read_json, write_json
from audit_pipeline_tests.stages.test_discovery import A, B, ingest, two_sources, write

DEAD = {PROCESS_TAG: "999999999:1.00:"}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance that also keeps what is on: an ephemeral one does not."""
    (tmp_path / "stored").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "stored")) as made:
        yield made


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexAuditSettings:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))
    for source in "ab":
        write(tmp_path, source, {key[:10]: f"text of {key}" for key in A})
    work = two_sources(tmp_path)
    ingest(work, *A[:2], *B)
    return work.settings


def run_of(
    instance: dg.DagsterInstance,
    settings: IndexAuditSettings,
    batch: str,
    status: dg.DagsterRunStatus,
    assets_of: str | None = None,
    tags: dict[str, str] | None = None,
) -> None:
    """A run of a batch as Dagster keeps it in this state; ``assets_of`` an index where it is of assets alone."""
    job = settings.ingest_job if assets_of is None else ASSET_JOB
    instance.add_run(
        dg.DagsterRun(
            job,
            status=status,
            tags={"dagster/partition": batch, **(tags or {})},
            asset_selection=frozenset([dg.AssetKey([assets_of, "chunks"])]) if assets_of else None,
            remote_job_origin=RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("code"), "all"), job),
        )
    )


@pytest.mark.parametrize(
    ("status", "under_way"),
    [
        (dg.DagsterRunStatus.QUEUED, True),
        (dg.DagsterRunStatus.NOT_STARTED, True),
        (dg.DagsterRunStatus.STARTING, True),
        (dg.DagsterRunStatus.STARTED, True),
        (dg.DagsterRunStatus.CANCELING, False),
        (dg.DagsterRunStatus.CANCELED, False),
        (dg.DagsterRunStatus.FAILURE, False),
        (dg.DagsterRunStatus.SUCCESS, False),
    ],
)
def test_a_batch_is_under_way_while_its_run_waits_or_works(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, status: dg.DagsterRunStatus, under_way: bool
) -> None:
    run_of(instance, settings, A[2], status)
    assert batches_under_way(settings, instance) == ({A[2]} if under_way else set())


def test_runs_of_assets_count_by_their_index_and_runs_of_dead_processes_not_at_all(
    settings: IndexAuditSettings, instance: dg.DagsterInstance
) -> None:
    started = dg.DagsterRunStatus.STARTED
    run_of(instance, settings, A[0], started, assets_of="small")
    run_of(instance, settings, A[1], started, assets_of="another")
    run_of(instance, settings, A[2], started, tags=DEAD)
    run_of(instance, settings, B[0], started, tags=process_tag())
    assert batches_under_way(settings, instance) == {A[0], B[0]}


def test_a_run_that_waits_for_longer_than_asked_is_not_under_way(
    settings: IndexAuditSettings, instance: dg.DagsterInstance
) -> None:
    run_of(instance, settings, A[2], dg.DagsterRunStatus.QUEUED)
    assert batches_under_way(settings, instance, dt.timedelta(days=1)) == {A[2]}
    assert batches_under_way(settings, instance, dt.timedelta(days=-1)) == set()


@pytest.mark.parametrize(
    ("tags", "passed", "figure"),
    [(None, True, "which are under way"), (DEAD, False, "which")],
    ids=["living", "dead"],
)
def test_an_audit_that_meets_an_ingest_finds_no_batch_lacking(
    settings: IndexAuditSettings,
    instance: dg.DagsterInstance,
    tags: dict[str, str] | None,
    passed: bool,
    figure: str,
) -> None:
    run_of(instance, settings, A[2], dg.DagsterRunStatus.STARTED, tags=tags)
    checks = {check.check_key.name: check for check in corpus_checks(settings)}
    result = checks["covers_all_batches"](dg.build_asset_check_context(instance=instance))
    assert isinstance(result, dg.AssetCheckResult)
    assert result.passed == passed
    listed = result.metadata[figure].value
    assert isinstance(listed, list)
    assert [str(one).split()[0] for one in listed] == [A[2]]


def test_what_arrived_since_the_sensors_last_look_is_on_its_way_while_the_sensor_looks(
    settings: IndexAuditSettings, stored: dg.DagsterInstance, tmp_path: Path
) -> None:
    look = two_sources(tmp_path, automation={"mode": "sensors"})

    def covers(one: IndexAuditSettings) -> bool:
        check = {each.check_key.name: each for each in corpus_checks(one)}["covers_all_batches"]
        result = check(dg.build_asset_check_context(instance=stored))
        assert isinstance(result, dg.AssetCheckResult)
        return bool(result.passed)

    assert not covers(look.settings)  # no daemon runs the sensor
    stored.add_daemon_heartbeat(DaemonHeartbeat(time.time(), "SENSOR", "d1"))
    assert not covers(look.settings)
    code = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("code"), "all")
    origin = RemoteInstigatorOrigin(code, "small__discovery")
    on = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.DECLARED_IN_CODE)
    stored.add_instigator_state(on)
    assert covers(look.settings)
    assert not covers(settings)  # mode manual
    stored.update_instigator_state(on.with_status(InstigatorStatus.STOPPED))
    assert not covers(look.settings)
    stored.update_instigator_state(on)
    discover(two_sources(tmp_path, automation={"mode": "sensors"}), None)  # asked for, and its run failed
    assert not covers(look.settings)


def test_the_batches_that_a_backfill_has_yet_to_come_to_are_under_way_and_one_it_left_out_is_not(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process audits the index each time a batch is in hand."""
    for source in "ab":
        write(tmp_path, source, {key[:10]: f"another text of {key}" for key in A})
    check = {one.check_key.name: one for one in corpus_checks(settings)}["covers_all_batches"]
    seen = []

    def bring_in(*_: object, partition_key: str, **__: object) -> None:
        result = check(dg.build_asset_check_context(instance=instance))
        assert isinstance(result, dg.AssetCheckResult)
        metadata = result.metadata
        seen.append([metadata[name].value if name in metadata else [] for name in ("which", "which are under way")])
        if partition_key == A[0]:
            raise BatchInputError("words")
        ingest(two_sources(tmp_path), partition_key)

    monkeypatch.setattr(running, "execute", bring_in)
    for reads_rows in ("moves_between", "integrity_faults"):
        monkeypatch.setattr(running, reads_rows, lambda *_: {})
    changes = running.backfill_plan(settings, "a", None)
    assert [change.key for change in changes] == list(A)
    assert list(running.run_backfill(settings, changes, instance).left_out) == [A[0]]
    others = [f"{key} (changed)" for key in B]
    assert seen == [
        [others, list(A)],
        [[f"{A[0]} (changed)", *others], list(A[1:])],
        [[f"{A[0]} (changed)", *others], [A[2]]],
    ]
    assert batches_under_way(settings, instance) == set()
    assert not list((tmp_path / "state").rglob("planned.json"))


@pytest.mark.parametrize(
    ("process", "old", "under_way"),
    [
        ("999999999:1.00:", False, False),
        ("999999999:1.00:another-host", False, True),
        ("999999999:1.00:another-host", True, False),
        (None, True, True),
    ],
    ids=["dead", "another host's", "another host's that does nothing", "at work with one batch for long"],
)
def test_the_plan_of_a_command_counts_while_it_lives(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, process: str | None, old: bool, under_way: bool
) -> None:
    state = StateFolder(Path(os.environ["DAGSTER_HOME"]), settings.name)
    with planned(state, A):
        path = state.audit / "planned.json"
        kept = read_json(path)
        write_json(path, kept | ({"process": process} if process else {}))
        if old:
            os.utime(path, (0, 0))
        assert batches_under_way(settings, instance, dt.timedelta(days=1)) == (set(A) if under_way else set())
