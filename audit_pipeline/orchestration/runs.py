"""Which of Dagster's runs are of one index, and which batches they have in hand. No run is started or ended here."""

from __future__ import annotations

import datetime as dt
import time

import dagster as dg
from dagster._core.scheduler.instigation import InstigatorStatus

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration.home import unfinished_runs
from audit_pipeline.orchestration.naming import audit_job_name, discovery_sensor_name, ingest_job_name
from audit_pipeline.orchestration.planned import planned_batches
from audit_pipeline.orchestration.workspaces import state_root
from audit_pipeline.state import StateFolder

ASSET_JOB = "__ASSET_JOB"
"""What Dagster calls a run of assets that no job was named for: by conditions, and by hand or backfill in the UI."""
_LONGEST_SILENCE = 600.0
"""Seconds without a sign of the daemon that runs sensors: it gives one about every half minute."""
_QUEUED = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED]


def is_of_index(settings: IndexAuditSettings, run: dg.DagsterRun) -> bool:
    """Whether a run is of the index; runs of assets are of one job for all indexes, and their assets tell whose."""
    if run.job_name != ASSET_JOB:
        return run.job_name in (audit_job_name(settings), ingest_job_name(settings))
    return any(key.path[0] == settings.dagster_name for key in run.asset_selection or ())


def brought_in_since(settings: IndexAuditSettings, instance: dg.DagsterInstance, failed: dg.RunRecord) -> bool:
    """Whether its batch has been brought in since, by a run of whichever job: nothing is left to do."""
    batch = failed.dagster_run.tags.get("dagster/partition")
    if batch is None:
        return False
    whole = dg.AssetRecordsFilter(
        asset_key=dg.AssetKey([settings.dagster_name, "batch_integrity"]),  # made last
        asset_partitions=[batch],
        after_timestamp=failed.end_time or failed.create_timestamp.timestamp(),
    )
    return bool(instance.fetch_materializations(whole, limit=1).records)


def batches_under_way(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, queued_for: dt.timedelta | None = None
) -> frozenset[str]:
    """Keys of the batches whose run is queued or at work, or that a command at work has yet to come to.

    Runs of dead processes and those being cancelled do not count. ``queued_for`` is how long a run may have been
    waiting to count: in a queue that nothing takes from it waits for ever. Default: any time.
    """
    since = dt.datetime.now(dt.UTC) - queued_for if queued_for is not None else None
    _, living = unfinished_runs(instance)
    runs = [run for run in living if run.status != dg.DagsterRunStatus.CANCELING]
    runs += instance.get_runs(dg.RunsFilter(statuses=_QUEUED, updated_after=since))
    keys = {run.tags.get("dagster/partition") for run in runs if is_of_index(settings, run)}
    planned = planned_batches(StateFolder(state_root(), settings.name), queued_for)
    return planned | {key for key in keys if key is not None}


def audits_under_way(settings: IndexAuditSettings, instance: dg.DagsterInstance) -> list[str]:
    """Ids of the runs of the audit's job that are queued or at work, those of the last day: of another host's run
    nobody knows whether it lives, and one in a queue that nothing takes from stays there for ever.
    """
    since = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    _, living = unfinished_runs(instance)
    queued = instance.get_runs(dg.RunsFilter(job_name=audit_job_name(settings), statuses=_QUEUED, created_after=since))
    of_job = {run.run_id for run in living if run.job_name == audit_job_name(settings)}
    recent = instance.get_runs(dg.RunsFilter(run_ids=sorted(of_job), created_after=since)) if of_job else []
    return [run.run_id for run in [*recent, *queued]]


def discovery_looks(settings: IndexAuditSettings, instance: dg.DagsterInstance) -> bool:
    """Whether the sensor that asks for batches is on, as the settings have it, and the daemon that runs it lives."""
    beat = instance.get_daemon_heartbeats().get("SENSOR")
    if settings.automation.mode == "manual" or beat is None or time.time() - beat.timestamp > _LONGEST_SILENCE:
        return False
    name = discovery_sensor_name(settings)
    states = [one.status for one in instance.all_instigator_state() if one.instigator_name == name]
    return bool(states) and InstigatorStatus.STOPPED not in states


def failed_guards(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    """What the checks say that stopped a run, none where none did: Dagster's own error has their names alone."""
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records
    found = [record.event_log_entry.dagster_event for record in records]
    checks = [event.asset_check_evaluation_data for event in found if event is not None]
    return [one.description or one.check_name for one in checks if one.blocking and not one.passed]
