"""The sensor of alerts: off by default, what it reads of Dagster, and what of its webhook can be seen."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from audit_pipeline.alert_settings import TOLD_CHECKS
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline.orchestration.alerts import ASSET_OF_CHECK, BLOCKING, alert_sensors, failures_since
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.runs import ASSET_JOB
from audit_pipeline.report.audit_json import public_settings
from audit_pipeline.stages.batches import BATCH_CHECKS, WHICH
from audit_pipeline.state import StateFolder, write_json
from audit_pipeline.webhook import NotPostedError
from audit_pipeline_tests.encoder.embedding_server import EmbeddingServer, Reply, serving
from audit_pipeline_tests.report.sample_audit import sample_audit
from audit_pipeline_tests.report.test_alerts import LATE
from audit_pipeline_tests.stages.builders import as_it_stands
from audit_pipeline_tests.stages.test_discovery import ingest, two_sources, write

pytestmark = pytest.mark.filterwarnings("ignore:.*partitions_def:dagster.PreviewWarning")

VARIABLE = "SMALL_WEBHOOK"
SECRET = "T0SECRET0PATH"
BATCH = "2026-01-02|a"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serving() as running:
        running.rule = lambda body: Reply(make=lambda _: b"ok")
        yield running


@pytest.fixture
def settings(tmp_path: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> IndexAuditSettings:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))
    monkeypatch.setenv(VARIABLE, f"{server.base_url}/{SECRET}\n")
    for source in "ab":
        write(tmp_path, source, {"2026-01-02": f"of {source}"})
    return two_sources(tmp_path, alerts={"webhook_env": VARIABLE, "timeout_seconds": 5}).settings


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def publish(*findings: dict[str, Any]) -> None:
    report = StateFolder(Path(os.environ["DAGSTER_HOME"]), "small").report
    write_json(report / "audit.json", sample_audit() | {"name": "small", "findings": list(findings)})


def tick(settings: IndexAuditSettings, instance: dg.DagsterInstance) -> str:
    (sensor,) = alert_sensors(settings)
    result = sensor(dg.build_sensor_context(instance=instance, sensor_name="small__alerts"))
    assert isinstance(result, dg.SkipReason)
    return str(result.skip_message)


def run_checks(instance: dg.DagsterInstance, passed: bool | None, name: str = "table_holds_batch") -> None:
    """A run that evaluates a check of a batch; None: it ends before it has evaluated the check."""
    asset = dg.AssetKey(["small", ASSET_OF_CHECK[name]])
    days = dg.DailyPartitionsDefinition("2026-01-01")
    sources = dg.StaticPartitionsDefinition(["a", "b"])
    batches = dg.MultiPartitionsDefinition({"source": sources, "ingestion_date": days})

    @dg.asset(key=asset, partitions_def=batches)
    def made() -> None: ...

    @dg.asset_check(asset=asset, name=name, partitions_def=batches, blocking=name in BLOCKING)
    def check() -> dg.AssetCheckResult:
        if passed is None:
            raise RuntimeError
        return dg.AssetCheckResult(passed=passed)

    job = dg.define_asset_job("small__ingest_batch", selection=dg.AssetSelection.all())
    defs = dg.Definitions(assets=[made], asset_checks=[check], jobs=[job])
    defs.resolve_job_def("small__ingest_batch").execute_in_process(
        instance=instance, partition_key=BATCH, raise_on_error=False
    )


def run_audit(instance: dg.DagsterInstance, fails: bool) -> str:
    @dg.op
    def step() -> None:
        if fails:
            raise RuntimeError("words of a chunk")

    @dg.job(name="small__corpus_audit")
    def audit() -> None:
        step()

    return audit.execute_in_process(instance=instance, raise_on_error=False).run_id


def run_assets(instance: dg.DagsterInstance, index: str, *, fails: bool, batch: str | None = None) -> str:
    """A run of assets and not of a job, as conditions and the UI make them: of a batch, else of the report."""
    days = dg.DailyPartitionsDefinition("2026-01-01")
    batches = dg.MultiPartitionsDefinition({"source": dg.StaticPartitionsDefinition(["a"]), "ingestion_date": days})
    key = dg.AssetKey([index, "chunks" if batch else "audit_report"])

    @dg.asset(key=key, partitions_def=batches if batch else None)
    def made() -> None:
        if fails:
            raise RuntimeError

    job = dg.Definitions(assets=[made]).resolve_implicit_global_asset_job_def()
    assert job.name == ASSET_JOB
    return job.execute_in_process(
        instance=instance, partition_key=batch, asset_selection=[key], raise_on_error=False
    ).run_id


def test_alerts_are_off_and_one_setting_turns_them_on(settings: IndexAuditSettings) -> None:
    def sensors(one: IndexAuditSettings) -> dict[str, dg.DefaultSensorStatus]:
        return {sensor.name: sensor.default_status for sensor in build_defs(one).sensors or []}

    assert "small__alerts" not in sensors(settings.model_copy(update={"alerts": None}))
    assert sensors(settings)["small__alerts"] == dg.DefaultSensorStatus.RUNNING
    assert sensors(settings)["small__discovery"] == dg.DefaultSensorStatus.STOPPED


@pytest.mark.parametrize("managed", [True, False])
def test_every_check_on_batches_is_told(settings: IndexAuditSettings, tmp_path: Path, managed: bool) -> None:
    one = settings if managed else as_it_stands(tmp_path).settings
    checks = [key for check in build_defs(one).asset_checks or [] for key in check.check_keys]
    on_batches = {key.name: key.asset_key.path[-1] for key in checks if key.asset_key.path[-1] != "audit_report"}
    assert on_batches == {name: ASSET_OF_CHECK[name] for name in on_batches}
    assert set(ASSET_OF_CHECK) == set(TOLD_CHECKS)
    if managed:
        assert set(on_batches) == set(TOLD_CHECKS) > set(BATCH_CHECKS)


def test_ticks_of_two_audits_tell_what_stood_and_then_what_is_new(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, server: EmbeddingServer
) -> None:
    publish()
    assert [tick(settings, instance) for _ in range(2)] == ["told 0 things", "nothing is new"]
    publish(LATE)
    assert [tick(settings, instance) for _ in range(3)] == ["told 1 thing", "nothing is new", "nothing is new"]
    told = [body["text"] for body in server.bodies]
    assert told == ["small: alerts are on; what stands now: no error, no warning", "small: 1 new error"]
    assert server.paths == [f"/v1/{SECRET}"] * 2


def test_a_batch_whose_check_failed_is_told_once_though_no_run_failed(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, server: EmbeddingServer
) -> None:
    publish()
    tick(settings, instance)
    run_checks(instance, passed=False)
    assert [record.dagster_run.status for record in instance.get_run_records()] == [dg.DagsterRunStatus.SUCCESS]
    run_checks(instance, passed=False)
    tick(settings, instance)
    tick(settings, instance)
    (_, body) = server.bodies
    assert body["text"] == "small: 1 failed check"
    assert "source a, ingested 2026-01-02" in json.dumps(body)
    assert "backfill --source a" in json.dumps(body)
    run_checks(instance, passed=True)
    tick(settings, instance)
    run_checks(instance, passed=False)
    tick(settings, instance)
    assert len(server.bodies) == 3


def test_a_check_that_is_being_made_anew_is_not_taken_for_passed(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, server: EmbeddingServer
) -> None:
    publish()
    run_checks(instance, passed=False)
    tick(settings, instance)
    run_checks(instance, passed=None)  # asked for, and never made
    assert [item.place for item in failures_since(settings, instance, 0).checks] == []
    tick(settings, instance)
    run_checks(instance, passed=False)
    tick(settings, instance)
    assert [body["text"] for body in server.bodies] == [
        "small: alerts are on; what stands now: 1 failed check",
        "small: 1 failed run",  # the one that never made its check
    ]


def test_a_check_that_stops_its_batch_is_told_and_its_run_is_not(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, server: EmbeddingServer
) -> None:
    publish()
    tick(settings, instance)
    run_checks(instance, passed=False, name="vectors_can_be_written")
    assert [record.dagster_run.status for record in instance.get_run_records()] == [dg.DagsterRunStatus.FAILURE]
    tick(settings, instance)
    assert server.bodies[-1]["text"] == "small: 1 failed check"
    run_checks(instance, passed=True, name="vectors_can_be_written")
    assert failures_since(settings, instance, 0).runs == []  # what stopped it is mended, and its run is no news


def test_runs_of_assets_that_failed_are_told_and_those_of_another_index_are_not(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, server: EmbeddingServer
) -> None:
    publish()
    tick(settings, instance)
    other = run_assets(instance, "other", fails=True)
    batch, report = (run_assets(instance, "small", fails=True, batch=one) for one in (BATCH, None))
    for _ in range(2):
        tick(settings, instance)
    assert [body["text"] for body in server.bodies[1:]] == ["small: 2 failed runs"]
    told = json.dumps(server.bodies)
    assert [told.count(run) for run in (other, batch, report)] == [0, 1, 1]
    assert told.count("ingest_failed") == told.count("audit_failed") == 1
    assert "backfill --source a" in told


def test_an_audit_that_failed_stands_until_one_succeeds_whichever_job_made_it(
    settings: IndexAuditSettings, instance: dg.DagsterInstance
) -> None:
    later = time.time() + 3600  # long after: only the last audit is still looked at
    assert failures_since(settings, instance, later).runs == []
    failed = run_audit(instance, fails=True)
    assert [item.scope["run"] for item in failures_since(settings, instance, later).runs] == [failed]
    failed = run_assets(instance, "small", fails=True)
    assert [item.scope["run"] for item in failures_since(settings, instance, later).runs] == [failed]
    run_assets(instance, "small", fails=False)
    run_assets(instance, "small", fails=True, batch=BATCH)
    assert failures_since(settings, instance, later).runs == []


def test_each_audit_that_failed_is_told_once_and_why_it_failed_is_not(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, server: EmbeddingServer
) -> None:
    publish()
    tick(settings, instance)
    runs = [run_audit(instance, fails) for fails in (True, False, True)]
    for _ in range(3):
        tick(settings, instance)
    runs.append(run_audit(instance, fails=True))
    tick(settings, instance)
    assert [body["text"] for body in server.bodies[1:]] == ["small: 2 failed runs", "small: 1 failed run"]
    told = json.dumps(server.bodies[1:])
    assert [told.count(run) for run in runs] == [1, 0, 1, 1]
    assert "words of a chunk" not in told


def test_the_last_audit_that_failed_is_part_of_what_stands_however_old(
    settings: IndexAuditSettings, instance: dg.DagsterInstance
) -> None:
    run = run_audit(instance, fails=True)
    (item,) = failures_since(settings, instance, since=4e9).runs
    assert (item.code, item.scope["run"]) == ("audit_failed", run)
    run_audit(instance, fails=False)
    assert failures_since(settings, instance, since=4e9).runs == []


def test_a_failed_check_on_all_batches_hides_no_failed_audit(
    settings: IndexAuditSettings, instance: dg.DagsterInstance
) -> None:
    run_audit(instance, fails=True)
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(dg.AssetKey(["small", "corpus_integrity"]), "covers_all_batches", False)
    )
    found = failures_since(settings, instance, 0)
    assert [item.code for item in (*found.checks, *found.runs)] == ["covers_all_batches", "audit_failed"]


def test_a_failed_check_on_all_batches_tells_which_and_no_words_of_an_error(
    settings: IndexAuditSettings, instance: dg.DagsterInstance
) -> None:
    names = [f"2026-01-0{n}|a (new)" for n in range(1, 8)]
    key = dg.AssetKey(["small", "corpus_integrity"])
    for listed in (["2026-01-09|b (new)"], names):
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                key, "covers_all_batches", False, {WHICH: dg.MetadataValue.json(listed)}, description="words"
            )
        )
    (item,) = failures_since(settings, instance, 0).checks
    assert item.which == ", ".join(names[:5]) + " and 2 more"


def test_a_batch_that_breaks_is_mended_and_breaks_alike_is_told_twice(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, server: EmbeddingServer, tmp_path: Path
) -> None:
    publish()
    work = two_sources(tmp_path)
    ingest(work, BATCH, "2026-01-02|b")
    assert tick(settings, instance) == "told 0 things"
    for _ in range(2):
        write(tmp_path, "a", {"2026-01-02": "broken"})
        write_json(work.state.batch(BATCH) / "pending.json", {"generation": "broken"})
        for name in ("no_rows_rejected", "batch_keeps_rows"):
            run_checks(instance, passed=False, name=name)
        assert [tick(settings, instance) for _ in range(2)] == ["told 2 things", "nothing is new"]
        write(tmp_path, "a", {"2026-01-02": "of a"})
        assert tick(settings, instance) == "nothing is new"
    assert [body["text"] for body in server.bodies[1:]] == ["small: 2 failed checks"] * 2


def test_a_post_that_fails_makes_the_tick_fail_and_names_the_variable_alone(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, server: EmbeddingServer
) -> None:
    publish(LATE)
    server.replies = [Reply(500, make=lambda _: b"No.")]
    with pytest.raises(NotPostedError) as caught:
        tick(settings, instance)
    assert str(caught.value) == (f"not posted to the webhook in {VARIABLE}: it answered 500; the next look tries again")
    assert tick(settings, instance) == "told 1 thing"


def test_a_webhook_that_is_not_set_is_named(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(AuditInputError, match=f"the variable {VARIABLE} is not set"):
        tick(settings, instance)


def test_the_address_stands_nowhere(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(LATE)
    with caplog.at_level(0):
        tick(settings, instance)
    (sensor,) = alert_sensors(settings)
    kept = [caplog.text, str(sensor.description), json.dumps(public_settings(settings))]
    kept += [path.read_text(errors="replace") for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert len(kept) > 4
    assert not any(SECRET in text for text in kept)


def test_a_check_that_stops_nothing_hides_no_failed_run_of_its_batch(
    settings: IndexAuditSettings, instance: dg.DagsterInstance
) -> None:
    run_checks(instance, passed=False, name="no_rows_rejected")
    run_checks(instance, passed=None)
    found = failures_since(settings, instance, 0)
    assert [item.code for item in (*found.checks, *found.runs)] == ["no_rows_rejected", "ingest_failed"]
