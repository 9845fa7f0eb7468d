"""The stages that search and judge: self, held-out and labelled retrieval, the verdict. ANN recall has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.held_out import run_held_out
from audit_pipeline.retrieval.labelled import label_findings, run_labelled
from audit_pipeline.retrieval.self_retrieval import run_self_retrieval
from audit_pipeline.retrieval.vector_findings import vector_findings
from audit_pipeline.retrieval.verdict import run_verdict
from audit_pipeline.stages.held_out import body_vectors, held_out_plan, uncut_bodies
from audit_pipeline.stages.index import can_probe, pinned_snapshot
from audit_pipeline.stages.probes import planned_labels
from audit_pipeline.stages.texts import chunks_of, embedded
from audit_pipeline.stages.vectors import adopted_cut, fidelity_of, read_part_of, suspected_rows
from audit_pipeline.stages.workspace import Workspace, corpus_stage

if TYPE_CHECKING:
    pass


@corpus_stage
def self_retrieval(workspace: Workspace) -> StageResult:
    """Each probe's own text as the query."""
    snapshot = pinned_snapshot(workspace)
    plan = encodable(workspace, workspace.table("probe_plan", "probe_plan"))
    texts = embedded(workspace, chunks_of(workspace.population(), plan["chunk_id"]))
    vectors = workspace.encoded(workspace.settings.encoder.query_arm, texts, snapshot.info.dimension)
    seen = {finding.code for finding in workspace.findings("role_fingerprint")}
    result = run_self_retrieval(
        snapshot,
        plan,
        vectors,
        workspace.population() if workspace.has_store else None,
        workspace.settings,
        workspace.progress,
        variants=snapshot.variant_search,
        fidelity=lambda chunk_ids: fidelity_of(workspace, snapshot, chunk_ids),
        suspected=suspected_rows(workspace, snapshot),
        read_part=read_part_of(workspace, snapshot),
        text_is_embedded="embedded_text_unknown" not in seen,
        encoder_is_stable="encoder_unstable" not in seen,
        rejected=workspace.rejected() if workspace.has_store else None,
    )
    if snapshot.row_filter is not None:
        # Kept for the strata; not published, as the strata are.
        values = {"chunk_id": snapshot.chunk_ids, "filter": snapshot.row_filter.shown}
        result.tables["row_filters"] = pa.table(values)
    result.findings += vector_findings(result.tables["self_retrieval"], workspace.findings("role_fingerprint"))
    return result


@corpus_stage
def held_out_retrieval(workspace: Workspace) -> StageResult:
    """One sentence of each probe as the query, the rest of it as the answer."""
    snapshot = pinned_snapshot(workspace)
    plan = encodable(workspace, workspace.table("probe_plan", "held_out_probes"))
    held = encodable(workspace, held_out_plan(workspace))
    eligible = held.filter(held["eligible"])
    dimension = snapshot.info.dimension
    sentences = workspace.encoded(workspace.settings.encoder.query_arm, eligible["held"], dimension)
    rests = body_vectors(workspace, eligible, dimension)
    result = run_held_out(
        snapshot,
        plan,
        held,
        sentences,
        rests,
        workspace.settings,
        workspace.progress,
        fidelity=lambda chunk_ids: fidelity_of(workspace, snapshot, chunk_ids),
        suspected=suspected_rows(workspace, snapshot),
        read_part=read_part_of(workspace, snapshot),
        uncut=uncut_bodies(workspace, eligible, dimension),
    )
    planned = workspace.summary("probe_plan")
    if "asked_again" in planned:
        result.summary["asked_again"] = planned["asked_again"]
    return result


@corpus_stage
def labelled_retrieval(workspace: Workspace) -> StageResult:
    """The team's judged queries; an empty result where there are none."""
    labels = planned_labels(workspace)
    snapshot = pinned_snapshot(workspace)
    if labels is None:
        return StageResult()
    if not len(labels.queries) or not can_probe(workspace):
        return StageResult(findings=label_findings(labels, len(labels.queries)))
    vectors = workspace.encoded(workspace.settings.encoder.query_arm, labels.queries["text"], snapshot.info.dimension)
    return run_labelled(
        snapshot,
        labels,
        vectors,
        workspace.settings,
        workspace.progress,
        population=workspace.population(),
        variants=snapshot.variant_search,
        fidelity=lambda chunk_ids: fidelity_of(workspace, snapshot, chunk_ids),
        suspected=suspected_rows(workspace, snapshot),
        read_part=read_part_of(workspace, snapshot),
        judge_answers=adopted_cut(workspace) is not None,
    )


BEFORE_THE_VERDICT = (
    "vector_index",
    "corpus_integrity",
    "role_fingerprint",
    "self_retrieval",
    "held_out_retrieval",
    "labelled_retrieval",
    "ann_recall",
    "ann_sweep",
    "observed_retrieval",
)


@corpus_stage
def retrieval_verdict(workspace: Workspace) -> StageResult:
    """Strata, anomalies and the reading."""
    findings = [finding for stage in BEFORE_THE_VERDICT for finding in workspace.findings(stage)]
    population = workspace.population().drop_columns(["text"])
    if workspace.has_table("self_retrieval", "row_filters"):
        own = workspace.table("self_retrieval", "row_filters")
        place = pc.index_in(population["chunk_id"], value_set=own["chunk_id"].combine_chunks())
        population = population.append_column("filter", own["filter"].take(place))
    return run_verdict(
        workspace.settings,
        population,
        workspace.result("self_retrieval"),
        workspace.result("held_out_retrieval"),
        workspace.result("labelled_retrieval"),
        findings,
        own_prompts=workspace.encoder.own_prompts if workspace.encoder else None,
        arms=workspace.summary("formatting_arms")["arms"],
        observed=workspace.result("observed_retrieval"),
        both_sides=_blindness(workspace),
    )


def _blindness(workspace: Workspace) -> str:
    """What another prompt on both sides does, where one stands on both already."""
    encoder, found = workspace.settings.encoder, workspace.summary("formatting_arms")["both_sides"]
    return found["text"] if found is not None and encoder.query_arm == encoder.passage_arm else ""


def encodable(workspace: Workspace, table: pa.Table) -> pa.Table:
    """The table, or none of its rows where no query can be encoded for this index: what cannot be is not measured."""
    return table if can_probe(workspace) else table.slice(0, 0)
