"""Running both jobs of an index in this process, as `audit-pipeline run` does. Nothing is printed here."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterAssetCheckFailedError

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import slug
from audit_pipeline.errors import AuditInputError, SelfCheckError, StoppedError
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.home import end_dead_runs, locked, look_at_pools, prepare_home, process_tag
from audit_pipeline.orchestration.naming import audit_job_name, ingest_job_name, source_partitions_name
from audit_pipeline.orchestration.workspaces import workspace_for
from audit_pipeline.settings_file import check_label_files
from audit_pipeline.spelling import did_you_mean
from audit_pipeline.stages.asked_again import asked_sentences
from audit_pipeline.stages.discovery import batches_of_source, known_sources
from audit_pipeline.stages.forecast import forecast
from audit_pipeline.stages.ingest import BatchChange, changed_batches, integrity_faults
from audit_pipeline.state import read_json

LOGGER = logging.getLogger("audit_pipeline")
# Dagster's own lines go to its event log; the terminal shows the progress lines of the stages alone.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@contextmanager
def at_home(root: Path) -> Iterator[dg.DagsterInstance]:
    """Dagster's instance in the state folder, which this process has to itself; runs of dead processes are ended."""
    prepare_home(root)
    with locked(root), dg.DagsterInstance.get() as instance:
        end_dead_runs(instance)
        yield instance


@dataclass(frozen=True)
class Outcome:
    """What a run did: the batches it brought up to date, and the audit it wrote."""

    changes: list[BatchChange]
    audit: dict[str, Any]


def plan(settings: IndexAuditSettings) -> list[BatchChange]:
    """The batches that are not up to date. Remembers nothing: a dry run must leave no trace that decides anything."""
    check_label_files(settings)
    if settings.sample.like is not None:
        asked_sentences(settings.sample.like)
    workspace = workspace_for(settings)
    if not settings.sources:
        return []
    for error in workspace.scan(fresh=True).unread.values():
        raise error
    return changed_batches(workspace) if settings.index.managed else []


def dry_run_line(settings: IndexAuditSettings) -> str:
    """What a run would do and cost, in one line; nothing is ingested, encoded for keeps or published."""
    return forecast(workspace_for(settings), plan(settings)).as_text(settings.name)


def run_audit(settings: IndexAuditSettings, instance: dg.DagsterInstance) -> Outcome:
    """Bring every new, changed or emptied batch up to date, then audit the whole index.

    Raises AuditInputError and SelfCheckError as the stages do, whatever Dagster wraps around them.
    """
    changes = plan(settings)
    workspace = workspace_for(settings)
    workspace.state.remember(first_audit=workspace.today.isoformat())
    defs = _bring_up_to_date(settings, changes, instance)
    workspace.release_store()
    LOGGER.info("auditing %s", settings.name)
    execute(defs, audit_job_name(settings), instance)
    return Outcome(changes, read_json(workspace.state.report / "audit.json"))


def refuse_unknown_source(indexes: Sequence[IndexAuditSettings], source: str) -> list[IndexAuditSettings]:
    """The managed indexes that have a source. Raises AuditInputError that lists the sources there are."""
    managed = [settings for settings in indexes if settings.index.managed]
    if not managed:
        raise AuditInputError(
            f"index.managed: {indexes[0].name} is audited as it stands, and what writes its table brings in "
            f"{source!r}: set it to true, or run the audit"
        )
    known = {settings.name: known_sources(workspace_for(settings)) for settings in managed}
    having = [settings for settings in managed if slug(source) in known[settings.name]]
    if not having:
        names = sorted({name for sources in known.values() for name in sources.values()})
        raise AuditInputError(
            f"--source: there is no source {source!r}{did_you_mean(source, names)}; sources are {', '.join(names)}: "
            "correct it, or add the source to the settings"
        )
    return having


def backfill_plan(
    settings: IndexAuditSettings, source: str, since: dt.date | None, *, again: bool = False
) -> list[BatchChange]:
    """The batches of one source that are not up to date, from a day on; none where the index has no such source.

    ``again`` takes its other batches as well, to write them once more where the table was damaged.

    Raises AuditInputError where the source cannot be read, whatever is wrong with others.
    """
    return batches_of_source(workspace_for(settings), source, since, again=again) if settings.index.managed else []


def run_backfill(
    settings: IndexAuditSettings, changes: list[BatchChange], instance: dg.DagsterInstance
) -> dict[str, dict[str, int]]:
    """Bring these batches up to date; what is wrong with them in the table, by key, empty where nothing is."""
    _bring_up_to_date(settings, changes, instance)
    workspace = workspace_for(settings)
    found = {change.key: integrity_faults(workspace, change.key) for change in changes}
    return {key: faults for key, faults in found.items() if faults}


def _bring_up_to_date(
    settings: IndexAuditSettings, changes: list[BatchChange], instance: dg.DagsterInstance
) -> dg.Definitions:
    """Ingest these batches one after the other; the definitions, whose grid has them all."""
    workspace = workspace_for(settings)
    earliest = workspace.scan().earliest if settings.sources else None
    if earliest is not None:
        workspace.state.extend_back_to(earliest)
    defs = build_defs(settings)
    if settings.encoder.token_budget is not None and workspace.encoder is not None:
        workspace.encoder.check_budget(forecast(workspace, changes).tokens)
    if changes:
        slugs = sorted({change.key.split("|", 1)[1] for change in changes})
        instance.add_dynamic_partitions(source_partitions_name(settings), slugs)
    for number, change in enumerate(changes, start=1):
        LOGGER.info(
            "batch %s of %s: %s (%s, %s rows)", number, len(changes), change.key, change.reason, f"{change.rows:,}"
        )
        execute(defs, ingest_job_name(settings), instance, partition_key=change.key)
    return defs


def execute(
    defs: dg.Definitions, job: str, instance: dg.DagsterInstance, partition_key: str | None = None
) -> dg.ExecuteInProcessResult:
    """Run one job in this process; an error of a step is raised as it was, a signal as StoppedError."""
    job_def = defs.resolve_job_def(job)
    if pools := {pool for node in job_def.nodes if (pool := getattr(node.definition, "pool", None))}:
        look_at_pools(instance, pools)
    try:
        return job_def.execute_in_process(
            instance=instance, partition_key=partition_key, tags=process_tag(), run_config=QUIET
        )
    except dg.DagsterExecutionInterruptedError:
        raise StoppedError from None
    except DagsterAssetCheckFailedError as error:
        checks = " ".join(str(error).split("\n")[1:]).strip()  # the first line only counts them
        raise AuditInputError(
            f"batch {partition_key}: nothing of it was written to the table, a check that guards it failed "
            f"({checks}): mend its rows in the source store and run again"
        ) from error
    except dg.DagsterError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, AuditInputError | SelfCheckError):
                raise cause from None
            cause = cause.__cause__
        raise
