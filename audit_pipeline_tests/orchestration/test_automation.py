"""What the daemon is given: off by default, on by one setting; and what a tick of the discovery sensor returns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import lancedb
import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline_tests.orchestration.test_both_jobs import BATCH_ASSETS
from audit_pipeline_tests.orchestration.test_runs import run_of
from audit_pipeline_tests.stages.builders import as_it_stands
from audit_pipeline_tests.stages.test_discovery import A, B, ingest, two_sources, write

DAYS = ("2026-01-02", "2026-01-03")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))
    for source in "ab":
        write(tmp_path, source, {day: f"{source} on {day}" for day in DAYS})
    two_sources(tmp_path).state.extend_back_to(dt.date(2026, 1, 2))
    return tmp_path


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def tick(settings: IndexAuditSettings, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    """One tick, whose registrations and cursor are kept as the daemon keeps them."""
    sensor = build_defs(settings).resolve_sensor_def("small__discovery")
    result = sensor(dg.build_sensor_context(instance=instance, cursor=cursor, sensor_name="small__discovery"))
    assert isinstance(result, dg.SensorResult)
    for request in result.dynamic_partitions_requests or []:
        instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
    return result


def settings_of(folder: Path, mode: str, **automation: Any) -> IndexAuditSettings:
    return two_sources(folder, automation={"mode": mode, **automation}).settings


# Off, and on by one setting


@pytest.mark.parametrize(("mode", "running"), [("manual", (False, False)), ("sensors", (True, True))])
def test_sensor_and_schedule_are_there_and_run_only_where_the_settings_say_so(
    store: Path, mode: str, running: tuple[bool, bool]
) -> None:
    defs = build_defs(settings_of(store, mode))
    sensors, schedules = list(defs.sensors or []), list(defs.schedules or [])
    assert [one.name for one in (*sensors, *schedules)] == ["small__discovery", "small__audit_schedule"]
    assert (sensors[0].default_status == dg.DefaultSensorStatus.RUNNING) == running[0]
    assert (schedules[0].default_status == dg.DefaultScheduleStatus.RUNNING) == running[1]
    specs = {spec.key.path[1]: spec for spec in defs.resolve_all_asset_specs()}
    assert set(specs) == {*BATCH_ASSETS, *(asset.name for asset in CORPUS_ASSETS)}
    assert [name for name, spec in specs.items() if spec.automation_condition is not None] == []
    fresh = {name for name, spec in specs.items() if spec.freshness_policy is not None}
    assert fresh == (set() if mode == "manual" else {"audit_report"})


def test_conditions_stand_on_every_asset_and_the_schedule_stays_off(store: Path) -> None:
    defs = build_defs(settings_of(store, "conditions"))
    states = {one.name: one.default_status for one in defs.sensors or []}
    assert states == dict.fromkeys(["small__discovery", "small__conditions"], dg.DefaultSensorStatus.RUNNING)
    (schedule,) = defs.schedules or []
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED
    specs = {spec.key.path[1]: spec for spec in defs.resolve_all_asset_specs()}
    assert [name for name, spec in specs.items() if spec.automation_condition is None] == ["source_batches"]


def test_nothing_of_an_index_as_it_stands_waits_for_conditions_that_its_own_audit_would_meet(store: Path) -> None:
    defs = build_defs(as_it_stands(store, automation={"mode": "conditions"}).settings)
    assert [spec.key for spec in defs.resolve_all_asset_specs() if spec.automation_condition is not None] == []
    assert [one.default_status for one in defs.sensors or []] == [dg.DefaultSensorStatus.RUNNING]


@pytest.mark.parametrize("mode", ["manual", "conditions"])
def test_every_asset_belongs_to_the_owners_of_the_settings(store: Path, mode: str) -> None:
    owned = settings_of(store, mode)
    for settings in (owned, as_it_stands(store).settings):
        for owners in (["team:search", "anna@example.org"], []):
            specs = build_defs(settings.model_copy(update={"owners": owners})).resolve_all_asset_specs()
            assert {tuple(spec.owners) for spec in specs} == {tuple(owners)}
    assert owned.owners == ["team:data-platform"]


def test_the_schedule_leaves_an_audit_out_while_one_is_queued_or_at_work(store: Path, tmp_path: Path) -> None:
    (schedule,) = build_defs(settings_of(store, "sensors")).schedules or []

    def asked(instance: dg.DagsterInstance) -> bool:
        context = dg.build_schedule_context(instance=instance)
        return bool(schedule.evaluate_tick(context).run_requests)

    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        assert asked(instance)
        for status in (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED):
            going = instance.add_run(dg.DagsterRun("small__corpus_audit", status=status))
            assert not asked(instance)
            instance.report_run_failed(going)
            assert asked(instance)
        instance.add_run(dg.DagsterRun("other__corpus_audit", status=dg.DagsterRunStatus.STARTED))
        assert asked(instance)


def test_the_schedule_follows_the_settings(store: Path) -> None:
    settings = settings_of(store, "sensors", audit_cron="30 6 * * 1", timezone="Europe/Berlin")
    (schedule,) = build_defs(settings).schedules or []
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("30 6 * * 1", "Europe/Berlin")
    assert schedule.job_name == "small__corpus_audit"


# Ticks


def test_one_tick_registers_the_sources_and_asks_for_their_batches_and_the_next_for_nothing(
    store: Path, instance: dg.DagsterInstance
) -> None:
    settings = settings_of(store, "sensors")
    first = tick(settings, instance)
    assert instance.get_dynamic_partitions("small__source") == ["a", "b"]
    keys = [f"{day}|{source}" for day in DAYS for source in "ab"]
    assert [request.partition_key for request in first.run_requests or []] == keys
    assert len({request.run_key for request in first.run_requests or []}) == 4
    second = tick(settings, instance, first.cursor)
    assert second.run_requests == []
    assert second.dynamic_partitions_requests == []
    assert second.skip_reason is not None
    assert str(second.skip_reason.skip_message) == (
        f"4 batches asked for before and not up to date, failed or cancelled: {', '.join(keys)}"
    )


def test_batches_asked_for_before_are_named_and_those_under_way_are_no_warning(
    store: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(store, "sensors")
    first = tick(settings, instance)
    keys = [f"{day}|{source}" for day in DAYS for source in "ab"]
    states = [
        dg.DagsterRunStatus.QUEUED,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELED,
        dg.DagsterRunStatus.FAILURE,
    ]
    for key, state in zip(keys, states, strict=True):
        run_of(instance, settings, key, state)
    logged: list[tuple[str, str]] = []
    sensor = build_defs(settings).resolve_sensor_def("small__discovery")
    context = dg.build_sensor_context(instance=instance, cursor=first.cursor, sensor_name="small__discovery")
    for level in ("info", "warning"):
        monkeypatch.setattr(context.log, level, lambda line, level=level: logged.append((level, line)))
    result = sensor(context)
    lines = [
        ("info", f"2 batches asked for before, queued or running: {keys[0]}, {keys[1]}"),
        ("warning", f"2 batches asked for before and not up to date, failed or cancelled: {keys[2]}, {keys[3]}"),
    ]
    assert logged == lines
    assert str(result.skip_reason.skip_message) == "; ".join(line for _, line in lines)


def test_a_tick_of_conditions_says_what_it_registered_and_reported(store: Path, instance: dg.DagsterInstance) -> None:
    settings = settings_of(store, "conditions")
    first = tick(settings, instance)
    assert first.skip_reason is not None
    keys = ", ".join(f"{day}|{source}" for day in DAYS for source in "ab")
    assert str(first.skip_reason.skip_message) == f"registered a, b; 4 batches reported: {keys}"
    assert len(first.asset_events) == 4
    second = tick(settings, instance, first.cursor)
    assert second.skip_reason is not None
    assert "not taken up yet, failed or cancelled: 2026-01-02|a, " in str(second.skip_reason.skip_message)
    descriptions = {one.name: one.description for one in build_defs(settings).sensors or []}
    assert "conditions on the assets of small" in str(descriptions["small__conditions"])


def test_a_broken_file_is_named_in_the_tick_and_the_other_source_goes_on(
    store: Path, instance: dg.DagsterInstance
) -> None:
    settings = settings_of(store, "sensors")
    (store / "a.jsonl").write_text("{broken\n", encoding="utf-8")
    first = tick(settings, instance)
    assert [request.partition_key for request in first.run_requests or []] == [f"{day}|b" for day in DAYS]
    second = tick(settings, instance, first.cursor)
    assert second.skip_reason is not None
    assert "a.jsonl: line 1 is not JSON" in str(second.skip_reason.skip_message)


def test_two_sources_of_one_partition_key_stop_no_sensor(store: Path, instance: dg.DagsterInstance) -> None:
    write(store, "A", {DAYS[0]: "text"})
    sources = [{"name": name, "uri": f"{name}.jsonl", "format": "jsonl"} for name in "aA"]
    settings = two_sources(store, sources=sources, automation={"mode": "sensors"}).settings
    result = tick(settings, instance, "{}")
    assert (result.run_requests, result.cursor) == ([], "{}")
    assert result.skip_reason is not None
    assert "both give the partition key 'a'" in str(result.skip_reason.skip_message)


def test_batches_before_the_grid_are_left_until_the_definitions_are_loaded_again(
    store: Path, instance: dg.DagsterInstance
) -> None:
    write(store, "b", {"2025-12-30": "older history", **{day: f"b on {day}" for day in DAYS}})
    settings = settings_of(store, "sensors")
    first = tick(settings, instance)
    assert "2025-12-30|b" not in [request.partition_key for request in first.run_requests or []]
    second = tick(settings, instance, first.cursor)  # which loads the definitions anew
    assert [request.partition_key for request in second.run_requests or []] == ["2025-12-30|b"]


def test_where_conditions_ask_a_tick_reports_what_arrived_and_asks_for_no_run(
    store: Path, instance: dg.DagsterInstance
) -> None:
    settings = settings_of(store, "conditions")
    ingest(two_sources(store), A[0], A[1], B[0])
    result = tick(settings, instance)
    assert result.run_requests == []
    (event,) = result.asset_events
    assert isinstance(event, dg.AssetMaterialization)
    assert (event.asset_key, event.partition) == (dg.AssetKey(["small", "source_batches"]), B[1])
    assert tick(settings, instance, result.cursor).asset_events == []


def test_a_new_version_of_a_table_of_others_asks_for_one_audit(store: Path, instance: dg.DagsterInstance) -> None:
    table = lancedb.connect(str(store / "db")).create_table("docs", [{"text": "one", "vector": [1.0, 0.0]}])
    settings = as_it_stands(store, automation={"mode": "sensors"}).settings
    asked, cursor = [], None
    for _ in range(2):
        for _ in range(3):
            result = tick(settings, instance, cursor)
            cursor = result.cursor
            asked.append(len(result.run_requests or []))
        table.add([{"text": "two", "vector": [0.0, 1.0]}])
    assert asked == [0, 1, 0, 0, 1, 0]
    gone = tick(as_it_stands(store, index={"uri": "none", "table": "docs", "managed": False}).settings, instance)
    assert gone.skip_reason is not None
    assert "there is no folder" in str(gone.skip_reason.skip_message)
