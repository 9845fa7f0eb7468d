"""The partitioned assets and checks of a managed index: one batch from the source store to the table."""

# No `from __future__ import annotations` here: Dagster reads the annotation of `context` as a type.
import warnings
from collections.abc import Iterator
from typing import Any

import dagster as dg

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration.automation import SOURCE_BATCHES, condition_of
from audit_pipeline.orchestration.home import tag_process
from audit_pipeline.orchestration.metadata import check_result
from audit_pipeline.orchestration.naming import batches_group_name, table_pool_name
from audit_pipeline.orchestration.workspaces import workspace_for
from audit_pipeline.stages import ingest
from audit_pipeline.stages.batch_checks import CHECKS_OF_BATCH, BatchCheck

warnings.filterwarnings("ignore", category=dg.PreviewWarning, message=".*partitions_def.*")


def batch_assets(settings: IndexAuditSettings, partitions: dg.MultiPartitionsDefinition) -> list[dg.AssetsDefinition]:
    """chunks, probes, passage_vectors, minhash_signatures, index_rows and batch_integrity, in that order."""
    prefix = settings.dagster_name
    common: dict[str, Any] = {
        "key_prefix": prefix,
        "partitions_def": partitions,
        "group_name": batches_group_name(settings),
        "owners": settings.owners,
    }

    @dg.asset(
        **common,
        name="chunks",
        automation_condition=condition_of(settings, "chunks"),
        deps=[dg.AssetKey([prefix, SOURCE_BATCHES])] if settings.automation.mode == "conditions" else None,
        kinds={"parquet"},
        output_required=False,  # a cell that never held anything skips, and all after it with it
        description="Validated rows of the batch. Rejected rows are kept beside them with their reasons.",
    )
    def chunks(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        tag_process(context)
        counts = ingest.ingest_chunks(workspace_for(settings), context.partition_key)
        if counts is not None:
            yield dg.MaterializeResult(
                metadata={"dagster/partition_row_count": counts["rows"], "rejected": counts["rejected"]}
            )

    @dg.asset(
        **common,
        name="probes",
        automation_condition=condition_of(settings, "probes"),
        deps=[chunks],
        kinds={"parquet"},
        description="The batch's rows by length band in hash order, from which probes are drawn. Nothing is encoded.",
    )
    def probes(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        rows = ingest.ingest_probes(workspace_for(settings), context.partition_key)
        return dg.MaterializeResult(metadata={"dagster/partition_row_count": rows})

    @dg.asset(
        **common,
        name="passage_vectors",
        automation_condition=condition_of(settings, "passage_vectors"),
        deps=[chunks],
        kinds={"pytorch"},
        description="Passage vectors in the content-addressed vector store: a text that is known is not encoded again.",
    )
    def passage_vectors(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        counts = ingest.ingest_passage_vectors(workspace_for(settings), context.partition_key)
        return dg.MaterializeResult(metadata={"dagster/partition_row_count": counts["texts"], **counts})

    @dg.asset(
        **common,
        name="minhash_signatures",
        automation_condition=condition_of(settings, "minhash_signatures"),
        deps=[chunks],
        kinds={"parquet"},
        description="MinHash signatures and hashes of the normalised text, with the scheme they were made by.",
    )
    def minhash_signatures(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        rows = ingest.ingest_signatures(workspace_for(settings), context.partition_key)
        return dg.MaterializeResult(metadata={"dagster/partition_row_count": rows})

    @dg.asset(
        **common,
        name="index_rows",
        automation_condition=condition_of(settings, "index_rows"),
        deps=[passage_vectors],
        kinds={"lancedb"},
        pool=table_pool_name(settings),
        description="The batch's rows in the table, replaced in one commit: changed and new rows, and none left over.",
    )
    def index_rows(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        tag_process(context)
        report = ingest.ingest_index_rows(workspace_for(settings), context.partition_key)
        return dg.MaterializeResult(metadata={"table_" + key: value for key, value in report.items()})

    @dg.asset(
        **common,
        name="batch_integrity",
        automation_condition=condition_of(settings, "batch_integrity"),
        deps=[index_rows, probes, minhash_signatures],
        kinds={"lancedb"},
        description="The batch in the table against the batch in the source store; then it counts as current.",
    )
    def batch_integrity(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        workspace = workspace_for(settings)
        integrity = ingest.check_batch_integrity(workspace, context.partition_key)
        manifest = ingest.finish_batch(workspace, context.partition_key)
        return dg.MaterializeResult(metadata={"dagster/partition_row_count": manifest.rows, **integrity})

    return [chunks, probes, passage_vectors, minhash_signatures, index_rows, batch_integrity]


def batch_checks(
    settings: IndexAuditSettings, partitions: dg.MultiPartitionsDefinition
) -> list[dg.AssetChecksDefinition]:
    """Checks that stand on the partition they are about."""

    def made(one: BatchCheck) -> dg.AssetChecksDefinition:
        @dg.asset_check(
            asset=dg.AssetKey([settings.dagster_name, one.asset]),
            name=one.name,
            partitions_def=partitions,
            blocking=one.blocking,
            description=one.what,
        )
        def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
            return check_result(one.outcome(workspace_for(settings), context.partition_key))

        return check

    return [made(one) for one in CHECKS_OF_BATCH]
