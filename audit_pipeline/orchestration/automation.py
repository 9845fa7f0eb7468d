"""What Dagster's daemon does for one index: sensor, schedule, conditions. What has arrived is not judged here."""

# No `from __future__ import annotations` here: Dagster reads the annotation of `context` as a type.
import datetime as dt
from collections.abc import Sequence

import dagster as dg

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline.memory import give_back
from audit_pipeline.orchestration.home import end_dead_runs
from audit_pipeline.orchestration.naming import (
    REASON_TAG,
    audit_job_name,
    audit_schedule_name,
    batches_group_name,
    condition_sensor_name,
    discovery_sensor_name,
    ingest_job_name,
    source_partitions_name,
)
from audit_pipeline.orchestration.runs import audits_under_way, batches_under_way
from audit_pipeline.orchestration.workspaces import new_workspace
from audit_pipeline.plural import counted, some
from audit_pipeline.stages.discovery import Discovery, discover
from audit_pipeline.stages.table_look import look_at_table

SOURCE_BATCHES = "source_batches"

AC = dg.AutomationCondition
# An asset that is asked for because another one is, in the same run. Nothing else asks for it: so a cell that never
# held anything stays as it is, and an audit begins with its first asset and not wherever a batch has moved something.
FOLLOWS = AC.any_deps_match(AC.will_be_requested())
_DEPS = AC.any_deps_updated()
# What was there before the conditions were looked at for the first time is no update to them.
_THERE_AT_FIRST = AC.initial_evaluation() & AC.missing() & AC.any_deps_match(~AC.missing())
# Not `since_last_handled()`, which forgets what arrives between a request and the end of its run: that run may have
# read the batch before. So what a request answers is forgotten only where nothing newer came with it.
BATCH_ARRIVED = (_DEPS | _THERE_AT_FIRST).since(AC.newly_requested() & ~_DEPS) & ~AC.in_progress()
# No `eager()`: on an asset of the whole corpus it waits for ever where any cell is missing.
BATCHES_DONE = (
    _DEPS.since((AC.newly_requested() | AC.newly_updated()) & ~_DEPS) & ~AC.any_deps_in_progress() & ~AC.in_progress()
)


def condition_of(settings: IndexAuditSettings, asset: str) -> dg.AutomationCondition | None:
    """The automation condition of an asset; None where the settings ask for none.

    An index as it stands has none: its batches are reported by the audit itself, which would ask for the next audit.
    """
    if settings.automation.mode != "conditions" or not settings.index.managed:
        return None
    return {"chunks": BATCH_ARRIVED, "vector_index": BATCHES_DONE}.get(asset, FOLLOWS)


def freshness_of(settings: IndexAuditSettings) -> dg.FreshnessPolicy | None:
    """How old the report may be; None where nothing makes it anew by itself."""
    if settings.automation.mode == "manual":
        return None
    return dg.FreshnessPolicy.time_window(fail_window=dt.timedelta(hours=settings.automation.fresh_hours))


def audit_schedule(settings: IndexAuditSettings) -> dg.ScheduleDefinition:
    """The audit by the clock, left out while the last one is at work: they would pile up before the batches' runs."""
    automation = settings.automation
    running = automation.mode == "sensors"

    def due(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        going = audits_under_way(settings, context.instance)
        if going:
            return dg.SkipReason(f"an audit is queued or at work (run {going[0]}): none more is asked for meanwhile")
        return dg.RunRequest()

    return dg.ScheduleDefinition(
        name=audit_schedule_name(settings),
        job_name=audit_job_name(settings),
        cron_schedule=automation.audit_cron,
        execution_timezone=automation.timezone or settings.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED,
        description=f"Audits the index {settings.name}.",
        execution_fn=due,
    )


def discovery_sensor(settings: IndexAuditSettings, grid_start: dt.date) -> dg.SensorDefinition:
    """The sensor that looks for what has arrived: batches of a managed index, new versions of one as it stands."""
    automation = settings.automation
    managed = settings.index.managed
    status = dg.DefaultSensorStatus.STOPPED if automation.mode == "manual" else dg.DefaultSensorStatus.RUNNING

    @dg.sensor(
        name=discovery_sensor_name(settings),
        job_name=ingest_job_name(settings) if managed else audit_job_name(settings),
        minimum_interval_seconds=automation.every_seconds,
        default_status=status,
        description=(
            f"Registers the sources of {settings.name}; asks for batches that are new, changed or emptied."
            if managed
            else f"Asks for an audit of {settings.name} when its table has a new version."
        ),
    )
    def discovery(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        for run_id in end_dead_runs(context.instance):
            context.log.warning(f"run {run_id}: its process is gone, so it was ended and its pool slots freed")
        workspace = new_workspace(settings)
        try:
            if not managed:
                look = look_at_table(workspace, context.cursor)
                requests = [dg.RunRequest(run_key=look.run_key)] if look.run_key else []
                return _result(context, requests, look.cursor, done=look.notes)
            found = discover(workspace, context.cursor, grid_start=grid_start)
        except AuditInputError as error:
            return dg.SensorResult(skip_reason=f"not read: {error}", cursor=context.cursor)
        finally:  # the code server that ticks run in lives for days
            workspace.release_store()
            give_back()
        name = source_partitions_name(settings)
        new = sorted(set(found.sources) - set(context.instance.get_dynamic_partitions(name)))
        register = [dg.AddDynamicPartitionsRequest(name, new)] if new else []
        done = [f"registered {some(new)}"] if new else []
        under_way, stuck = _asked_before(settings, context.instance, found.asked_before)
        done += under_way
        notes = found.notes + stuck
        if automation.mode == "conditions":
            events = _arrivals(settings, found)
            keys = [one.change.key for one in found.requests]
            done += [f"{counted(len(keys), 'batch', 'batches')} reported: {some(keys)}"] if keys else []
            return _result(context, [], found.cursor, notes, done, register, events)
        requests = [
            dg.RunRequest(
                run_key=one.run_key,
                partition_key=one.change.key,
                tags={REASON_TAG: one.change.reason},
            )
            for one in found.requests
        ]
        return _result(context, requests, found.cursor, notes, done, register)

    return discovery


def _asked_before(
    settings: IndexAuditSettings, instance: dg.DagsterInstance, keys: list[str]
) -> tuple[list[str], list[str]]:
    """What there is to say of batches that were asked for and are not up to date: (those under way, the others)."""
    under_way = batches_under_way(settings, instance) if keys else frozenset()
    waiting, stuck = [key for key in keys if key in under_way], [key for key in keys if key not in under_way]
    words = [f"{counted(len(waiting), 'batch', 'batches')} asked for before, queued or running: {some(waiting)}"]
    # A report is taken up by a later tick of the conditions' own sensor.
    why = "not taken up yet, failed or cancelled" if settings.automation.mode == "conditions" else "failed or cancelled"
    others = [f"{counted(len(stuck), 'batch', 'batches')} asked for before and not up to date, {why}: {some(stuck)}"]
    return words if waiting else [], others if stuck else []


def _result(
    context: dg.SensorEvaluationContext,
    requests: list[dg.RunRequest],
    cursor: str,
    notes: Sequence[str] = (),
    done: Sequence[str] = (),
    register: Sequence[dg.AddDynamicPartitionsRequest] = (),
    events: Sequence[dg.AssetMaterialization] = (),
) -> dg.SensorResult:
    """A tick that asks for runs shows them, so what else there is to say goes to its log; any other says it itself.

    ``done`` is what goes its way, ``notes`` what somebody should look at.
    """
    for line in done:
        context.log.info(line)
    for note in notes:
        context.log.warning(note)
    skip = None if requests else "; ".join([*done, *notes]) or "every batch is up to date"
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=skip,
        cursor=cursor,
        dynamic_partitions_requests=list(register),
        asset_events=list(events),
    )


# Conditions


def source_batches(settings: IndexAuditSettings, partitions: dg.MultiPartitionsDefinition) -> list[dg.AssetSpec]:
    """The batches of the source store as an asset that the sensor reports on, for the conditions to wait for."""
    if settings.automation.mode != "conditions" or not settings.index.managed:
        return []
    prefix = settings.dagster_name
    return [
        dg.AssetSpec(
            dg.AssetKey([prefix, SOURCE_BATCHES]),
            partitions_def=partitions,
            group_name=batches_group_name(settings),
            owners=settings.owners,
            description="A batch of the source store as the discovery sensor saw it: new, changed or emptied.",
        )
    ]


def condition_sensors(settings: IndexAuditSettings) -> list[dg.SensorDefinition]:
    """The sensor that evaluates the conditions of one index, running where the settings ask for them."""
    if settings.automation.mode != "conditions" or not settings.index.managed:
        return []
    return [
        dg.AutomationConditionSensorDefinition(
            condition_sensor_name(settings),
            target=dg.AssetSelection.key_prefixes(settings.dagster_name),
            default_status=dg.DefaultSensorStatus.RUNNING,
            description=(
                f"Asks for what the conditions on the assets of {settings.name} want: batches that arrived, then one "
                "audit of all of them."
            ),
            minimum_interval_seconds=settings.automation.every_seconds,
        )
    ]


def _arrivals(settings: IndexAuditSettings, found: Discovery) -> list[dg.AssetMaterialization]:
    key = dg.AssetKey([settings.dagster_name, SOURCE_BATCHES])
    return [
        dg.AssetMaterialization(
            key,
            partition=one.change.key,
            metadata={"dagster/partition_row_count": one.change.rows, "reason": one.change.reason},
            tags={"dagster/data_version": one.digest},
        )
        for one in found.requests
    ]
