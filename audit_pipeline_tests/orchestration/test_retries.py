"""Of runs that fail and that Dagster starts once more by itself: which are told, and when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, PARENT_RUN_ID_TAG, RETRY_NUMBER_TAG, ROOT_RUN_ID_TAG

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration import retries
from audit_pipeline.orchestration.alerts import failures_since
from audit_pipeline_tests.orchestration.test_alerts import server, settings

__all__ = ["server", "settings"]


@pytest.fixture
def retrying(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    settings = {"run_retries": {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False}}
    (tmp_path / "retrying").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "retrying"), overrides=settings) as instance:
        yield instance


def crash(
    instance: dg.DagsterInstance, job: str, by_the_daemon: bool = True, after: str | None = None
) -> dg.DagsterRun:
    """A run whose process was lost, with the tags that Dagster gives it; ``after`` the run that it makes up for."""
    run = begin(instance, job, dg.DagsterRunStatus.STARTED, by_the_daemon, after)
    instance.report_run_failed(run)
    return run


def begin(
    instance: dg.DagsterInstance,
    job: str,
    status: dg.DagsterRunStatus,
    by_the_daemon: bool = True,
    after: str | None = None,
) -> dg.DagsterRun:
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("code"), "all"), job)
    run = instance.add_run(
        dg.DagsterRun(
            job,
            status=status,
            remote_job_origin=origin if by_the_daemon else None,
            tags={RETRY_NUMBER_TAG: "1", ROOT_RUN_ID_TAG: after, PARENT_RUN_ID_TAG: after} if after else {},
            parent_run_id=after,
            root_run_id=after,
        )
    )
    if after:
        instance.add_run_tags(after, {AUTO_RETRY_RUN_ID_TAG: run.run_id})
    return run


def test_a_failed_run_that_is_retried_is_told_once_the_last_retry_failed(
    settings: IndexAuditSettings, retrying: dg.DagsterInstance
) -> None:
    def told() -> set[str]:
        return {item.scope["run"] for item in failures_since(settings, retrying, 0).runs}

    jobs = {job: crash(retrying, job).run_id for job in ("small__corpus_audit", "small__ingest_batch")}
    assert told() == set()  # the daemon has yet to start the retries
    again = [begin(retrying, job, dg.DagsterRunStatus.STARTED, after=lost) for job, lost in jobs.items()]
    assert told() == set()
    for retry in again:
        retrying.report_run_failed(retry)
    assert told() == {retry.run_id for retry in again}


def test_a_failed_run_is_told_as_its_retry_ended(settings: IndexAuditSettings, retrying: dg.DagsterInstance) -> None:
    job = "small__ingest_batch"
    for status in ("QUEUED", "CANCELING", "SUCCESS"):
        begin(retrying, job, dg.DagsterRunStatus(status), after=crash(retrying, job).run_id)
    assert failures_since(settings, retrying, 0).runs == []
    lost, another = (crash(retrying, job).run_id for _ in range(2))
    begin(retrying, job, dg.DagsterRunStatus.CANCELED, after=lost)
    retrying.delete_run(begin(retrying, job, dg.DagsterRunStatus.QUEUED, after=another).run_id)
    assert {item.scope["run"] for item in failures_since(settings, retrying, 0).runs} == {lost, another}


def test_a_failed_run_that_nothing_will_retry_is_told(
    settings: IndexAuditSettings, retrying: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = [crash(retrying, "small__ingest_batch", by_the_daemon) for by_the_daemon in (True, False)]
    found = failures_since(settings, retrying, 0)
    assert [item.scope["run"] for item in found.runs] == [lost[1].run_id]  # a command's own, which no daemon can make
    waiting = retrying.get_run_record_by_id(lost[0].run_id)
    assert waiting is not None
    assert found.until == waiting.end_time  # the next look looks at it again
    monkeypatch.setattr(retries, "_LONGEST_WAIT", -1.0)  # no daemon has come to it
    assert len(failures_since(settings, retrying, 0).runs) == 2


def test_a_failed_batch_that_a_later_run_brought_in_is_not_told(
    settings: IndexAuditSettings, retrying: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_LONGEST_WAIT", -1.0)
    job = "small__ingest_batch"

    def of_batch(run: dg.DagsterRun, day: str) -> str:
        retrying.add_run_tags(run.run_id, {"dagster/partition": f"{day}|guide"})
        return run.run_id

    def brought_in(day: str, *assets: str) -> None:
        for asset in assets:
            made = dg.AssetMaterialization(dg.AssetKey(["small", asset]), partition=f"{day}|guide")
            retrying.report_runless_asset_event(made)

    brought_in("2026-01-01", "chunks", "batch_integrity")  # before it failed
    lost = [of_batch(crash(retrying, job), f"2026-01-0{i}") for i in (1, 2)]
    assert {item.scope["run"] for item in failures_since(settings, retrying, 0).runs} == set(lost)
    brought_in("2026-01-01", "chunks")  # not to its end
    assert {item.scope["run"] for item in failures_since(settings, retrying, 0).runs} == set(lost)
    brought_in("2026-01-01", "batch_integrity")  # of this batch alone
    assert [item.scope["run"] for item in failures_since(settings, retrying, 0).runs] == [lost[1]]
