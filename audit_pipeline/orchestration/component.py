"""The component that makes one YAML file into the assets, checks and jobs of one audited index. No stage logic here."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from dagster.components.scaffold.scaffold import scaffold_with
from pydantic import BaseModel

from audit_pipeline.config import DEFAULT_OWNERS, IndexAuditSettings
from audit_pipeline.orchestration.alerts import alert_sensors
from audit_pipeline.orchestration.automation import (
    audit_schedule,
    condition_sensors,
    discovery_sensor,
    source_batches,
)
from audit_pipeline.orchestration.batch_assets import batch_assets, batch_checks
from audit_pipeline.orchestration.corpus_assets import corpus_assets, corpus_checks
from audit_pipeline.orchestration.naming import audit_job_name, ingest_job_name
from audit_pipeline.orchestration.observed import observed_assets, observed_checks
from audit_pipeline.orchestration.partitions import batch_partitions, grid_start
from audit_pipeline.orchestration.scaffolder import IndexAuditScaffolder
from audit_pipeline.orchestration.workspaces import state_root
from audit_pipeline.settings_file import resolve_paths
from audit_pipeline.stages.grid import first_day
from audit_pipeline.state import StateFolder


@scaffold_with(IndexAuditScaffolder)
class IndexAudit(dg.Component):
    """Audits one vector index: its text, its vectors, its search, and how redundant it is."""

    def __init__(self, settings: IndexAuditSettings) -> None:
        self.settings = settings

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(
            description="Audit of one LanceDB vector index.",
            tags=["retrieval", "data-quality"],
            owners=list(DEFAULT_OWNERS),
        )

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        return IndexAuditSettings

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> IndexAudit:
        assert isinstance(attributes, IndexAuditSettings)
        return cls(resolve_paths(attributes, Path(context.path)))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return build_defs(self.settings)


def build_defs(settings: IndexAuditSettings) -> dg.Definitions:
    """The definitions of one audited index. Of the state folder it reads the start date and batch names, never data."""
    start = first_day(settings, StateFolder(state_root(), settings.name))
    corpus_wide = corpus_assets(settings)
    checks = corpus_checks(settings)
    audit_job = dg.define_asset_job(
        audit_job_name(settings),
        selection=dg.AssetSelection.assets(*corpus_wide),
        description=f"Audits the index {settings.name} as it is now.",
        executor_def=dg.in_process_executor,
    )
    partitions = batch_partitions(settings, start)
    sensors = [
        discovery_sensor(settings, grid_start(settings, start)),
        *condition_sensors(settings),
        *alert_sensors(settings),
    ]
    schedules = [audit_schedule(settings)]
    if not settings.index.managed:
        return dg.Definitions(
            assets=[*observed_assets(settings, partitions), *corpus_wide],
            asset_checks=[*observed_checks(settings, partitions), *checks],
            jobs=[audit_job],
            sensors=sensors,
            schedules=schedules,
        )
    batched = batch_assets(settings, partitions)
    ingest_job = dg.define_asset_job(
        ingest_job_name(settings),
        selection=dg.AssetSelection.assets(*batched),
        description=f"Brings one batch of the index {settings.name} up to date.",
        executor_def=dg.in_process_executor,
    )
    return dg.Definitions(
        assets=[*source_batches(settings, partitions), *batched, *corpus_wide],
        asset_checks=[*batch_checks(settings, partitions), *checks],
        jobs=[ingest_job, audit_job],
        sensors=sensors,
        schedules=schedules,
    )
