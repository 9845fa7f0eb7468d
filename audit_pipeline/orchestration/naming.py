"""Dagster names of one audited index, and the refusal of two that collide. No definition is made here."""

from __future__ import annotations

from collections.abc import Iterable

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError

REASON_TAG = "audit_pipeline/reason"
"""The run tag that says why a batch is brought in: new, changed, emptied and so on, as BatchChange has it."""


def source_partitions_name(settings: IndexAuditSettings) -> str:
    """Name of the dynamic source dimension. Such names are instance-wide, so the index's name goes in front."""
    return f"{settings.dagster_name}__source"


def table_pool_name(settings: IndexAuditSettings) -> str:
    """The pool of those who commit to the managed table: the limit in dagster.yaml lets one of them work at once."""
    return f"{settings.dagster_name}__table"


def batches_group_name(settings: IndexAuditSettings) -> str:
    """The group of the assets that have a partition for each batch."""
    return f"{settings.dagster_name}_batches"


def ingest_job_name(settings: IndexAuditSettings) -> str:
    """The partitioned job that brings one batch up to date."""
    return settings.ingest_job


def audit_job_name(settings: IndexAuditSettings) -> str:
    """The job that audits the whole index."""
    return f"{settings.dagster_name}__corpus_audit"


def discovery_sensor_name(settings: IndexAuditSettings) -> str:
    """The sensor that looks for what has arrived."""
    return f"{settings.dagster_name}__discovery"


def audit_schedule_name(settings: IndexAuditSettings) -> str:
    """The schedule of the job that audits the whole index."""
    return f"{settings.dagster_name}__audit_schedule"


def condition_sensor_name(settings: IndexAuditSettings) -> str:
    """The sensor that evaluates the automation conditions."""
    return f"{settings.dagster_name}__conditions"


def alert_sensor_name(settings: IndexAuditSettings) -> str:
    """The sensor that posts what is newly wrong."""
    return f"{settings.dagster_name}__alerts"


def refuse_collisions(every: Iterable[tuple[str, IndexAuditSettings]]) -> None:
    """Raise AuditInputError where two of (where, settings) would share their Dagster names."""
    seen: dict[str, tuple[str, str]] = {}
    for where, settings in every:
        known = seen.get(settings.dagster_name)
        if known is not None:
            raise AuditInputError(
                f"{where}: index name {settings.name!r} collides with {known[1]!r} of {known[0]} "
                "(in Dagster's names '-' and '_' are one): rename one of them"
            )
        seen[settings.dagster_name] = (where, settings.name)
