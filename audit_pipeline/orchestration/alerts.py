"""The sensor that posts what is newly wrong, and what it reads of Dagster: checks on batches, failed runs.

A failed check does not fail its run, so alerts on failed runs alone would stay silent about nearly everything here.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of `context` as a type.
import datetime as dt
import os
from collections.abc import Iterable
from dataclasses import replace

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from audit_pipeline.alert_settings import TOLD_CHECKS, AlertSettings
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.errors import AuditInputError
from audit_pipeline.memory import give_back
from audit_pipeline.orchestration.naming import alert_sensor_name, audit_job_name, ingest_job_name
from audit_pipeline.orchestration.retries import retry_of
from audit_pipeline.orchestration.runs import ASSET_JOB, brought_in_since, failed_guards, is_of_index
from audit_pipeline.orchestration.slack import post_to_channel, refuse_missing_extra
from audit_pipeline.orchestration.workspaces import new_workspace, state_root
from audit_pipeline.plural import some
from audit_pipeline.report.alerts import Item
from audit_pipeline.stages.alerting import Failures, Send, tell_news
from audit_pipeline.stages.batch_checks import CHECKS_OF_BATCH
from audit_pipeline.stages.batches import BATCH_CHECKS, WHICH, mended_batches
from audit_pipeline.state import StateFolder
from audit_pipeline.webhook import NotPostedError, post

ASSET_OF_CHECK = {one.name: one.asset for one in CHECKS_OF_BATCH} | dict.fromkeys(BATCH_CHECKS, "corpus_integrity")
BLOCKING = tuple(one.name for one in CHECKS_OF_BATCH if one.blocking)
_OVERLAP = 600.0
"""Seconds that two looks at failed runs share: hosts' clocks differ, and events are stored a little later."""


def alert_sensors(settings: IndexAuditSettings) -> list[dg.SensorDefinition]:
    """The sensor of one index, running where the settings say where news go; none where they do not.

    Raises AuditInputError where they name a channel of Slack and dagster-slack is not installed.
    """
    alerts = settings.alerts
    if alerts is None:
        return []
    if alerts.slack is not None:
        refuse_missing_extra()

    @dg.sensor(
        name=alert_sensor_name(settings),
        minimum_interval_seconds=alerts.every_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Posts what is newly wrong with {settings.name} to {alerts.place}.",
    )
    def news(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        state = StateFolder(state_root(), settings.name)
        try:
            done = tell_news(
                settings,
                state,
                lambda since: failures_since(settings, context.instance, since),
                _sender(alerts),
                dt.datetime.now(dt.UTC),
            )
        except NotPostedError as error:
            # A failed tick shows red in the UI, where a skipped one would pass for quiet.
            raise NotPostedError(f"not posted to {alerts.place}: {error}; the next look tries again") from None
        return dg.SkipReason(done)

    return [news]


def _sender(alerts: AlertSettings) -> Send:
    """What posts to the place of the settings. Raises AuditInputError where the variable of its secret is not set."""
    secret = os.environ.get(alerts.secret_env, "").strip()
    if not secret:
        raise AuditInputError(
            f"{alerts.field_of_secret}: the variable {alerts.secret_env} is not set where Dagster's code runs: set it, "
            "or remove alerts"
        )
    slack, seconds = alerts.slack, alerts.timeout_seconds
    if slack is not None:
        return lambda body, key: post_to_channel(slack, secret, body, key, seconds)
    return lambda body, key: post(secret, body, key, seconds)


def failures_since(settings: IndexAuditSettings, instance: dg.DagsterInstance, since: float) -> Failures:
    """What stands failed in Dagster: the last outcome of each told check, and runs that failed after ``since``.

    The last audit's run stands while it is failed, however long ago. A run that Dagster makes up for by itself is none,
    nor is one whose batch a later run has brought in: whoever waited for the retry may have started it by hand.
    """
    failed, unsettled = _checks(settings, instance)
    failed = _still_wrong(settings, failed)
    looked = [(one, retry_of(one, instance)) for one in _failed_runs(settings, instance, since)]
    lost = [record for record, retry in looked if retry == "none"]
    runs = [one.dagster_run for one in lost if not brought_in_since(settings, instance, one)]
    # Where a check stopped a run, the check says more than that the run failed; and it says so once it is mended.
    told = [_run(settings, run) for run in runs if not failed_guards(instance, run.run_id)]
    until = max((record.end_time or 0.0 for record, retry in looked if retry != "pending"), default=0.0)
    # What waits for its retry is looked at again, however long that takes.
    until = min([until, *(record.end_time or 0.0 for record, retry in looked if retry == "pending")])
    return Failures(failed, told, unsettled, until)


def _checks(settings: IndexAuditSettings, instance: dg.DagsterInstance) -> tuple[list[Item], list[Item]]:
    keys = [dg.AssetCheckKey(dg.AssetKey([settings.dagster_name, ASSET_OF_CHECK[name]]), name) for name in TOLD_CHECKS]
    failed, unsettled = [], []
    for info in instance.event_log_storage.get_asset_check_partition_info(keys):
        item = _check(settings, info.check_key.name, info.partition_key)
        if info.latest_execution_status == AssetCheckExecutionRecordStatus.FAILED:
            failed.append(replace(item, which=_which(instance, info.check_key)) if not item.scope else item)
        elif info.latest_execution_status == AssetCheckExecutionRecordStatus.PLANNED:
            unsettled.append(item)
    return failed, unsettled


def _still_wrong(settings: IndexAuditSettings, failed: list[Item]) -> list[Item]:
    """Without what stopped a batch that has since come back to what the table has: no run says so, for it needs none.

    With what stopped it go the rows that were rejected with it, where the table's state of it has none.
    """
    stopped = {_batch_key(item) for item in failed if item.code in BLOCKING}
    if not stopped:
        return failed
    workspace = new_workspace(settings)
    try:
        mended = stopped & mended_batches(workspace)
        clean = {key for key in mended if not (known := workspace.manifest(key)) or not known.rejected}
    except AuditInputError:  # the source store cannot be read: nothing is known to be mended
        return failed
    finally:  # the code server that looks run in lives for days
        workspace.release_store()
        give_back()
    gone = {"no_rows_rejected": clean} | dict.fromkeys(BLOCKING, mended)
    return [item for item in failed if not item.scope or _batch_key(item) not in gone.get(item.code, ())]


def _which(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> str:
    """What a check on all batches together failed on when it was last made: its keys alone, no words of an error."""
    failed = {AssetCheckExecutionRecordStatus.FAILED}
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=1, status=failed):
        listed = record.evaluation.metadata.get(WHICH) if record.evaluation is not None else None
        keys = listed.value if isinstance(listed, dg.JsonMetadataValue) else None
        return some([str(one) for one in keys]) if isinstance(keys, list) else ""
    return ""


def _check(settings: IndexAuditSettings, name: str, batch: str | None) -> Item:
    scope = _batch_scope(batch)
    if not settings.index.managed:
        remedy = "The findings of the report say what is wrong and what mends it."
    elif batch is None:
        remedy = f"Bring these batches up to date: audit-pipeline run, or materialise them by {settings.ingest_job}."
    else:
        remedy = (
            "Look at the check on the batch's partition in Dagster and mend its rows in the source store; then "
            f"audit-pipeline backfill --source {scope['source']}."
        )
    return Item("check", name, scope, remedy)


def _failed_runs(settings: IndexAuditSettings, instance: dg.DagsterInstance, since: float) -> list[dg.RunRecord]:
    begin = since - _OVERLAP
    failed = [dg.DagsterRunStatus.FAILURE]
    records: dict[str, dg.RunRecord] = {}
    for job in (audit_job_name(settings), ingest_job_name(settings), ASSET_JOB):
        window = dg.RunsFilter(job_name=job, statuses=failed, updated_after=dt.datetime.fromtimestamp(begin, dt.UTC))
        records |= {one.dagster_run.run_id: one for one in _ended_after(since, instance, window)}
    records = {run_id: one for run_id, one in records.items() if is_of_index(settings, one.dagster_run)}
    last = _last_audit(settings, instance)
    if last is not None and last.dagster_run.status in failed:
        records[last.dagster_run.run_id] = last
    return list(records.values())


def _last_audit(settings: IndexAuditSettings, instance: dg.DagsterInstance) -> dg.RunRecord | None:
    """The newest run that was to make the report: of the job, or of assets (by conditions, or by hand)."""
    records = list(instance.get_run_records(dg.RunsFilter(job_name=audit_job_name(settings)), limit=1))
    for asset in instance.get_asset_records([dg.AssetKey([settings.dagster_name, "audit_report"])]):
        run_id = asset.asset_entry.last_run_id
        records += instance.get_run_records(dg.RunsFilter(run_ids=[run_id])) if run_id else []
    return max(records, key=lambda one: one.create_timestamp, default=None)


def _ended_after(since: float, instance: dg.DagsterInstance, window: dg.RunsFilter) -> Iterable[dg.RunRecord]:
    return [one for one in instance.get_run_records(window) if (one.end_time or 0.0) >= since - _OVERLAP]


def _run(settings: IndexAuditSettings, run: dg.DagsterRun) -> Item:
    batch = run.tags.get("dagster/partition")
    scope = {"run": run.run_id, **_batch_scope(batch)}
    if batch is None and run.job_name != ingest_job_name(settings):
        return Item("run", "audit_failed", scope, "Read why at the run in Dagster; the last report is as it was.")
    source = f" --source {scope['source']}" if "source" in scope else ""
    return Item("run", "ingest_failed", scope, f"Read why at the run in Dagster, then audit-pipeline backfill{source}.")


def _batch_key(item: Item) -> str:
    return f"{item.scope['ingestion_date']}|{item.scope['source']}"


def _batch_scope(batch: str | None) -> dict[str, str]:
    if batch is None:
        return {}
    day, source = parse_batch_key(batch)
    return {"source": source, "ingestion_date": day.isoformat()}
