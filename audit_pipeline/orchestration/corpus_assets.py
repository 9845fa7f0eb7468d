"""The unpartitioned assets and checks: one corpus-wide audit from the pinned table to the report."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dagster as dg

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration.automation import condition_of, freshness_of
from audit_pipeline.orchestration.home import tag_process
from audit_pipeline.orchestration.metadata import check_result, report_metadata, stage_metadata
from audit_pipeline.orchestration.naming import table_pool_name
from audit_pipeline.orchestration.observed import report_observed_batches
from audit_pipeline.orchestration.runs import batches_under_way, discovery_looks
from audit_pipeline.orchestration.workspaces import workspace_for
from audit_pipeline.results import StageResult
from audit_pipeline.stages import ann, duplicates, formatting_arms, index, observed, probes, report, retrieval, vectors
from audit_pipeline.stages.batches import BATCH_CHECKS, batch_check
from audit_pipeline.stages.checks import REPORT_CHECKS
from audit_pipeline.stages.discovery import unasked_batches, waiting_batches
from audit_pipeline.stages.limits import CheckOutcome, report_check
from audit_pipeline.stages.workspace import Workspace

OBSERVED_BATCH_ASSETS = ("index_rows", "batch_integrity")
LONGEST_QUEUE = dt.timedelta(days=1)
"""A batch whose run has waited for longer is no longer under way: nothing takes runs from that queue."""


@dataclass(frozen=True)
class CorpusAsset:
    """One corpus-wide asset: its stage, what it reads, and how the UI shows it."""

    stage: Callable[[Workspace], StageResult]
    group: str
    kinds: tuple[str, ...]
    description: str
    deps: tuple[str, ...] = ()
    batch_deps: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.stage.__name__


CORPUS_ASSETS = (
    CorpusAsset(
        index.vector_index,
        "index",
        ("lancedb",),
        "The table at one pinned version: its ANN index built or brought up to date where it is ours, its coverage.",
        batch_deps=("index_rows", "batch_integrity"),
    ),
    CorpusAsset(
        index.corpus_integrity,
        "index",
        ("lancedb",),
        "All rows of the table against the source store: ids, texts, unusable vectors, norms.",
        deps=("vector_index",),
    ),
    CorpusAsset(
        vectors.role_fingerprint,
        "retrieval",
        ("pytorch",),
        "Stored vectors against fresh encodings of their text: which prompt they were encoded with, or none known.",
        deps=("corpus_integrity",),
    ),
    CorpusAsset(
        probes.probe_plan,
        "retrieval",
        ("parquet",),
        "The chunks to probe, allocated over batches and length bands, and the sentence held out of each.",
        deps=("vector_index",),
        batch_deps=("probes",),
    ),
    CorpusAsset(
        probes.probe_vectors,
        "retrieval",
        ("pytorch",),
        "The encodings that the probes need, in the vector store.",
        deps=("probe_plan", "role_fingerprint"),
    ),
    CorpusAsset(
        retrieval.self_retrieval,
        "retrieval",
        ("lancedb",),
        "Each probe's own text as the query: as the application searches, and exactly.",
        deps=("probe_vectors",),
    ),
    CorpusAsset(
        retrieval.held_out_retrieval,
        "retrieval",
        ("lancedb",),
        "One sentence of each probe as the query, the chunk without it as the answer, exactly in the whole haystack.",
        deps=("probe_vectors",),
    ),
    CorpusAsset(
        retrieval.labelled_retrieval,
        "retrieval",
        ("lancedb",),
        "The team's judged queries: as the application searches, and exactly.",
        deps=("probe_vectors",),
    ),
    CorpusAsset(
        ann.ann_recall,
        "retrieval",
        ("lancedb",),
        "What the application's search returns against the exact answer, for queries that are no rows of the table.",
        deps=("probe_vectors",),
    ),
    CorpusAsset(
        ann.ann_sweep,
        "retrieval",
        ("lancedb",),
        "Recall and time per query under other nprobes, ef and refine_factor, and the cheapest that reach the limit.",
        deps=("ann_recall",),
    ),
    CorpusAsset(
        observed.observed_retrieval,
        "retrieval",
        ("lancedb",),
        "The application's own query vectors and the ids it got back, against the settings and an exact search.",
        deps=("role_fingerprint",),
    ),
    CorpusAsset(
        formatting_arms.formatting_arms,
        "retrieval",
        ("pytorch",),
        "Held-out and labelled queries under every known prompt, paired: whether another one finds more.",
        deps=("probe_vectors",),
    ),
    CorpusAsset(
        retrieval.retrieval_verdict,
        "retrieval",
        ("parquet",),
        "Strata, anomalies and the reading of self-retrieval, held-out, labels and observed queries together.",
        deps=(
            "self_retrieval",
            "held_out_retrieval",
            "labelled_retrieval",
            "ann_recall",
            "ann_sweep",
            "observed_retrieval",
            "formatting_arms",
            "corpus_integrity",
        ),
    ),
    CorpusAsset(
        duplicates.minhash_pairs,
        "duplicates",
        ("parquet",),
        "Pairs of equal and of copied text, each verified directly.",
        deps=("vector_index",),
        batch_deps=("minhash_signatures",),
    ),
    CorpusAsset(
        duplicates.neighbour_pairs,
        "duplicates",
        ("numpy",),
        "The nearest distinct texts of every distinct text, by stored vectors on both sides.",
        deps=("minhash_pairs", "role_fingerprint"),
    ),
    CorpusAsset(
        duplicates.similarity_floor,
        "duplicates",
        ("numpy",),
        "Cosine of unrelated texts: random pairs, at all and across sources.",
        deps=("role_fingerprint",),
    ),
    CorpusAsset(
        duplicates.threshold_sweep,
        "duplicates",
        ("parquet",),
        "Precision, recall and reading load at each cosine threshold, and the recommended one.",
        deps=("neighbour_pairs", "similarity_floor"),
    ),
    CorpusAsset(
        duplicates.duplicate_clusters,
        "duplicates",
        ("parquet",),
        "Connected components of the passing pairs, with a representative and a proposal for each member.",
        deps=("threshold_sweep",),
    ),
    CorpusAsset(
        report.audit_report,
        "report",
        ("html",),
        "audit.json, audit.html, the tables as Parquet and the TREC files.",
        deps=("retrieval_verdict", "duplicate_clusters"),
    ),
)


def corpus_assets(settings: IndexAuditSettings) -> list[dg.AssetsDefinition]:
    """Every corpus-wide asset of one index."""
    return [_corpus_asset(settings, spec) for spec in CORPUS_ASSETS]


def _corpus_asset(settings: IndexAuditSettings, spec: CorpusAsset) -> dg.AssetsDefinition:
    prefix = settings.dagster_name
    every_batch = dg.AllPartitionMapping()
    deps: list[Any] = [dg.AssetKey([prefix, name]) for name in spec.deps]
    deps += [
        dg.AssetDep(dg.AssetKey([prefix, name]), partition_mapping=every_batch)
        for name in spec.batch_deps
        if settings.index.managed or name in OBSERVED_BATCH_ASSETS
    ]

    @dg.asset(
        name=spec.name,
        key_prefix=prefix,
        deps=deps,
        group_name=f"{prefix}_{spec.group}",
        kinds=set(spec.kinds),
        owners=settings.owners,
        description=spec.description,
        automation_condition=condition_of(settings, spec.name),
        freshness_policy=freshness_of(settings) if spec.name == "audit_report" else None,
        pool=table_pool_name(settings) if spec.name == "vector_index" and settings.index.managed else None,
    )
    def materialise(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        tag_process(context)
        workspace = workspace_for(settings)
        metadata = stage_metadata(spec.stage(workspace))
        if spec.name == "audit_report":
            if not settings.index.managed:
                report_observed_batches(settings, context)
            metadata = report_metadata(workspace.state.report) | metadata
        return dg.MaterializeResult(metadata=metadata)

    return materialise


def corpus_checks(settings: IndexAuditSettings) -> list[dg.AssetChecksDefinition]:
    """The checks on the report, for each limit and each kind of finding, and those on all batches together."""
    report, integrity = (dg.AssetKey([settings.dagster_name, name]) for name in ("audit_report", "corpus_integrity"))
    on_batches = [name for name in BATCH_CHECKS if settings.index.managed or name != "no_failed_batches"]

    def of_report(context: dg.AssetCheckExecutionContext, name: str) -> CheckOutcome:
        return report_check(workspace_for(settings), name)

    def of_batches(context: dg.AssetCheckExecutionContext, name: str) -> CheckOutcome:
        return _batch_check(settings, context.instance, name)

    return [
        *(_check(report, name, what, of_report) for name, what in REPORT_CHECKS.items()),
        *(_check(integrity, name, BATCH_CHECKS[name], of_batches) for name in on_batches),
    ]


def _batch_check(settings: IndexAuditSettings, instance: dg.DagsterInstance, name: str) -> CheckOutcome:
    """Asked again where it fails: a run may have begun or ended while the check looked at its batch. What the sensor
    will ask for by itself, since it arrived after its last look, is on its way as well.
    """
    workspace = workspace_for(settings)
    before = batches_under_way(settings, instance, LONGEST_QUEUE)
    waiting = waiting_batches(workspace)
    outcome = batch_check(workspace, name, before, waiting)
    if outcome.passed:
        return outcome
    soon = frozenset[str]()
    if name == "covers_all_batches" and settings.index.managed and discovery_looks(settings, instance):
        soon = unasked_batches(workspace)
    return batch_check(workspace, name, before | batches_under_way(settings, instance, LONGEST_QUEUE) | soon, waiting)


def _check(
    asset: dg.AssetKey,
    name: str,
    what: str,
    outcome_of: Callable[[dg.AssetCheckExecutionContext, str], CheckOutcome],
) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=asset, name=name, description=what)
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return check_result(outcome_of(context, name))

    return check
