"""The batches of an index as it stands: shown on their partitions, never made by a run. Nothing is judged here."""

# No `from __future__ import annotations` here: Dagster reads the annotation of `context` as a type.
import dagster as dg

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.orchestration.metadata import check_result
from audit_pipeline.orchestration.naming import batches_group_name, source_partitions_name
from audit_pipeline.orchestration.workspaces import workspace_for
from audit_pipeline.stages.batch_checks import outcome_of
from audit_pipeline.stages.batches import ObservedBatch, not_reported, observed_batches, remember_reported

SHOWN = {
    "index_rows": "Rows of the batch in the table, which something else writes.",
    "batch_integrity": "The batch in the table against the batch in the source store.",
}
CHECK = "table_holds_batch"


def observed_assets(settings: IndexAuditSettings, partitions: dg.MultiPartitionsDefinition) -> list[dg.AssetSpec]:
    """What of the batches is shown: read by the audit in one pass and reported."""
    prefix = settings.dagster_name
    return [
        dg.AssetSpec(
            dg.AssetKey([prefix, name]),
            partitions_def=partitions,
            group_name=batches_group_name(settings),
            owners=settings.owners,
            description=description,
        )
        for name, description in SHOWN.items()
    ]


def observed_checks(
    settings: IndexAuditSettings, partitions: dg.MultiPartitionsDefinition
) -> list[dg.AssetChecksDefinition]:
    """The check on a batch's partition: the audit reports it, and by hand it tells what the last audit found."""

    @dg.asset_check(
        asset=dg.AssetKey([settings.dagster_name, "batch_integrity"]),
        name=CHECK,
        partitions_def=partitions,
        description="The table holds each row of the batch once, with its text and its vector.",
    )
    def table_holds_batch(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        for batch in observed_batches(workspace_for(settings)):
            if batch.key == context.partition_key:
                return check_result(outcome_of(batch))
        return dg.AssetCheckResult(passed=True, description="The table holds no row of this batch.")

    return [table_holds_batch]


def report_observed_batches(settings: IndexAuditSettings, context: dg.AssetExecutionContext) -> None:
    """Show what the audit has just found of each batch on its partition, as events of the audit's own run.

    Not by `report_runless_asset_event`: a check's partition can be reported so once and never again.
    """
    workspace = workspace_for(settings)
    batches = observed_batches(workspace)
    if batches:
        workspace.state.extend_back_to(min(parse_batch_key(batch.key)[0] for batch in batches))
    slugs = sorted({batch.key.split("|", 1)[1] for batch in batches})
    context.instance.add_dynamic_partitions(source_partitions_name(settings), slugs)
    for batch in not_reported(workspace, batches):
        for event in _events(settings, batch):
            context.log_event(event)
    remember_reported(workspace, batches)


def _events(
    settings: IndexAuditSettings, batch: ObservedBatch
) -> list[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    keys = [dg.AssetKey([settings.dagster_name, name]) for name in SHOWN]
    shown: list[dg.AssetMaterialization | dg.AssetCheckEvaluation] = [
        dg.AssetMaterialization(key, partition=batch.key, metadata={"dagster/partition_row_count": batch.rows})
        for key in keys
    ]
    result = check_result(outcome_of(batch))
    check = dg.AssetCheckEvaluation(
        keys[-1],
        CHECK,
        result.passed,
        metadata=result.metadata,
        partition=batch.key,
        severity=result.severity,
        description=result.description,
    )
    return [*shown, check]
