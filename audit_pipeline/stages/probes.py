"""The stages that choose the probes and encode what they need. Nothing is searched here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.labelled_queries import LabelledQueries, from_see_also, read_labelled_queries
from audit_pipeline.corpus.sampling import STRATIFIED, plan_probes, stratify
from audit_pipeline.corpus.sentences import hold_out
from audit_pipeline.results import StageResult
from audit_pipeline.stages.texts import embedded
from audit_pipeline.stages.workspace import Workspace, corpus_stage


@corpus_stage
def probe_plan(workspace: Workspace) -> StageResult:
    """Draws the probes, holds a sentence out of each, and reads the labelled queries."""
    settings = workspace.settings
    population = workspace.population()
    sample = settings.sample
    if settings.index.managed:
        stratified = workspace.batch_tables("probes", STRATIFIED)
    else:
        stratified = stratify(population, sample.seed)
    plan = plan_probes(stratified, sample.total, sample.per_batch)
    chunks = chunks_of(population, plan["chunk_id"])
    documents = population.filter(pc.is_in(population["doc_id"], value_set=pc.unique(chunks["doc_id"]).drop_null()))
    held = hold_out(chunks, documents, sample.held_out, sample.min_sentences, sample.min_words, sample.seed)
    labels = labelled_queries(workspace, population)
    tables = {"probe_plan": plan, "held_out_plan": held}
    summary = {"probes": len(plan), "eligible_for_held_out": int(pc.sum(held["eligible"]).as_py() or 0)}
    if labels is not None:
        tables |= {"labelled_queries": labels.queries, "judgements": labels.qrels}
        summary |= {"labelled_queries": len(labels.queries), "labels_invalid": labels.invalid}
    return StageResult(tables, summary)


def chunks_of(population: pa.Table, chunk_ids: pa.ChunkedArray) -> pa.Table:
    """The population's rows of these ids, in their order; an id that stands twice gives its first row."""
    return population.take(pc.index_in(chunk_ids, value_set=population["chunk_id"].combine_chunks()))


def labelled_queries(workspace: Workspace, population: pa.Table) -> LabelledQueries | None:
    """The team's judged queries, or those that the docstrings hold; None without any."""
    labels = workspace.settings.labels
    if labels.queries:
        qrels = Path(labels.qrels) if labels.qrels else None
        return read_labelled_queries(Path(labels.queries), qrels, population)
    return from_see_also(population) if labels.see_also else None


def planned_labels(workspace: Workspace) -> LabelledQueries | None:
    """The labelled queries that probe_plan kept; None where there are none."""
    summary = workspace.summary("probe_plan")
    if "labelled_queries" not in summary:
        return None
    return LabelledQueries(
        workspace.table("probe_plan", "labelled_queries"), workspace.table("probe_plan", "judgements"), summary["labels_invalid"]
    )


@corpus_stage
def probe_vectors(workspace: Workspace) -> StageResult:
    """Encodes what the probes need; the vectors lie in the vector store, the counts are the result."""
    before = workspace.totals
    if workspace.encoder is not None:
        settings = workspace.settings.encoder
        plan = workspace.table("probe_plan", "probe_plan")
        held = workspace.table("probe_plan", "held_out_plan")
        eligible = held.filter(held["eligible"])
        labels = planned_labels(workspace)
        wanted: list[tuple[str, pa.Array | pa.ChunkedArray]] = [
            (settings.query_prompt, embedded(workspace, chunks_of(workspace.population(), plan["chunk_id"]))),
            (settings.query_prompt, eligible["held"]),
            (settings.passage_prompt, bodies(workspace, eligible)),
        ]
        if labels is not None:
            wanted.append((settings.query_prompt, labels.queries["text"]))
        for prompt, strings in wanted:
            workspace.count_encoded(workspace.encode(prompt, strings))
    return StageResult(summary={name: count - before[name] for name, count in workspace.totals.items()})


def bodies(workspace: Workspace, eligible: pa.Table) -> pa.Array:
    """The embedded text of each held-out chunk without its sentence: the same template over the same row."""
    chunks = chunks_of(workspace.population(), eligible["chunk_id"])
    column = chunks.schema.get_field_index("text")
    return embedded(workspace, chunks.set_column(column, "text", eligible["body"]))
