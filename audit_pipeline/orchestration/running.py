"""Running both jobs of an index in this process, as `audit-pipeline run` does. Nothing is printed here."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import dagster as dg

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.errors import AuditInputError, SelfCheckError
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.home import process_tag
from audit_pipeline.orchestration.naming import audit_job_name, ingest_job_name, source_partitions_name
from audit_pipeline.orchestration.workspaces import workspace_for
from audit_pipeline.settings_file import check_label_files
from audit_pipeline.stages.asked_again import asked_sentences
from audit_pipeline.stages.forecast import forecast
from audit_pipeline.stages.index import observed_batches
from audit_pipeline.stages.ingest import BatchChange, changed_batches
from audit_pipeline.state import read_json

LOGGER = logging.getLogger("audit_pipeline")
# Dagster's own lines go to its event log; the terminal shows the progress lines of the stages alone.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


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
    workspace.scan(fresh=True)
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
    workspace.release_store()
    LOGGER.info("auditing %s", settings.name)
    execute(defs, audit_job_name(settings), instance)
    if not settings.index.managed:
        report_observed_batches(settings, instance)
    return Outcome(changes, read_json(workspace.state.report / "audit.json"))


def execute(
    defs: dg.Definitions, job: str, instance: dg.DagsterInstance, partition_key: str | None = None
) -> dg.ExecuteInProcessResult:
    """Run one job in this process; an error of a step is raised as it was."""
    try:
        return defs.resolve_job_def(job).execute_in_process(
            instance=instance, partition_key=partition_key, tags=process_tag(), run_config=QUIET
        )
    except dg.DagsterError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, AuditInputError | SelfCheckError):
                raise cause from None
            cause = cause.__cause__
        raise


def report_observed_batches(settings: IndexAuditSettings, instance: dg.DagsterInstance) -> None:
    """Show the batches of an index as it stands on their partitions, without a run for each."""
    workspace = workspace_for(settings)
    rows_of = observed_batches(workspace)
    if rows_of:
        workspace.state.extend_back_to(min(parse_batch_key(key)[0] for key in rows_of))
    slugs = sorted({key.split("|", 1)[1] for key in rows_of})
    instance.add_dynamic_partitions(source_partitions_name(settings), slugs)
    for key, rows in rows_of.items():
        for name in ("index_rows", "batch_integrity"):
            instance.report_runless_asset_event(
                dg.AssetMaterialization(
                    dg.AssetKey([settings.dagster_name, name]),
                    partition=key,
                    metadata={"dagster/partition_row_count": rows},
                )
            )
