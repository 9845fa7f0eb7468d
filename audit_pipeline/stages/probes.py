"""The stages that choose the probes and encode what they need. Nothing is searched here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.asked_again import ask_again
from audit_pipeline.corpus.labelled_queries import LabelledQueries, from_see_also, read_labelled_queries
from audit_pipeline.corpus.sampling import STRATIFIED, plan_of, plan_probes, stratify
from audit_pipeline.corpus.see_also import see_also_queries
from audit_pipeline.corpus.sentences import hold_out
from audit_pipeline.index.pairing import STORE_ID
from audit_pipeline.results import StageResult
from audit_pipeline.stages.asked_again import asked_sentences
from audit_pipeline.stages.held_out import bodies, held_out_plan
from audit_pipeline.stages.index import can_probe
from audit_pipeline.stages.texts import chunks_of, embedded
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
    plan = _with_texts(plan, chunks)
    summary: dict[str, Any] = {"probes": len(plan)}
    if sample.like is None:
        held_out_probes = plan
        documents = population.filter(
            pc.is_in(population["doc_id"], value_set=pc.unique(chunks["doc_id"].combine_chunks()).drop_null())
        )
        held = hold_out(chunks, documents, sample.held_out, sample.min_sentences, sample.min_words, sample.seed)
    else:
        again = ask_again(asked_sentences(sample.like), population, sample.min_words)
        held, summary["asked_again"] = again.held, again.counts
        held_out_probes = plan_of(stratified, held["chunk_id"])
        held_out_probes = _with_texts(held_out_probes, chunks_of(population, held_out_probes["chunk_id"]))
    labels, see_also = labelled_queries(workspace, population)
    tables = {"probe_plan": plan, "held_out_probes": held_out_probes, "held_out_plan": held}
    summary["eligible_for_held_out"] = int(pc.sum(held["eligible"]).as_py() or 0)
    if labels is not None:
        tables |= {"labelled_queries": labels.queries, "judgements": labels.qrels}
        summary |= {"labelled_queries": len(labels.queries), "labels_invalid": labels.invalid, "see_also": see_also}
    return StageResult(tables, summary)


def _with_texts(plan: pa.Table, chunks: pa.Table) -> pa.Table:
    """The plan with what its chunks, in the same order, say of their texts."""
    for name in ("text_sha256", "n_words"):
        plan = plan.set_column(plan.column_names.index(name), plan.schema.field(name), chunks[name])
    return plan


def labelled_queries(
    workspace: Workspace, population: pa.Table
) -> tuple[LabelledQueries | None, dict[str, int] | None]:
    """The team's judged queries, or those of the docstrings with what became of their names; None without any."""
    labels = workspace.settings.labels
    if labels.queries:
        qrels = Path(labels.qrels) if labels.qrels else None
        return _read_labels(Path(labels.queries), qrels, population), None
    if not labels.see_also:
        return None, None
    found = see_also_queries(population)
    counts = {
        "found": found.found,
        "unresolved": found.unresolved,
        "ambiguous": found.ambiguous,
        "repeated": found.repeated,
        "equal_to_first_line": found.equal_to_first_line,
    }
    # Names of things outside the corpus are no broken labels, so they are counted apart from labels_invalid.
    return from_see_also(found), counts


def _read_labels(queries: Path, qrels: Path | None, population: pa.Table) -> LabelledQueries:
    """The judged queries. Where chunks were paired by text, judgements may name them by the store's ids instead of the
    table's: whichever more judgements are found by.
    """
    by_table = read_labelled_queries(queries, qrels, population)
    if STORE_ID not in population.column_names:
        return by_table
    place = population.schema.get_field_index("chunk_id")
    own = population.set_column(place, population.schema.field("chunk_id"), population[STORE_ID])
    by_store = read_labelled_queries(queries, qrels, own)
    if len(by_store.qrels) <= len(by_table.qrels):
        return by_table
    found = pc.index_in(by_store.qrels["chunk_id"], value_set=population[STORE_ID].combine_chunks())
    ids = population["chunk_id"].take(found)
    column = by_store.qrels.schema.get_field_index("chunk_id")
    judged = by_store.qrels.set_column(column, by_store.qrels.schema.field(column), ids)
    return LabelledQueries(by_store.queries, judged, by_store.invalid)


def planned_labels(workspace: Workspace) -> LabelledQueries | None:
    """The labelled queries that probe_plan kept; None where there are none."""
    summary = workspace.summary("probe_plan")
    if "labelled_queries" not in summary:
        return None
    return LabelledQueries(
        workspace.table("probe_plan", "labelled_queries"),
        workspace.table("probe_plan", "judgements"),
        summary["labels_invalid"],
    )


@corpus_stage
def probe_vectors(workspace: Workspace) -> StageResult:
    """Encodes what the probes need; the vectors lie in the vector store, the counts are the result."""
    before = workspace.totals
    if can_probe(workspace):
        prompt = workspace.settings.encoder.query_arm
        plan = workspace.table("probe_plan", "probe_plan")
        held = held_out_plan(workspace)
        eligible = held.filter(held["eligible"])
        labels = planned_labels(workspace)
        wanted: list[tuple[str, str, pa.Array | pa.ChunkedArray]] = [
            ("probes", prompt, embedded(workspace, chunks_of(workspace.population(), plan["chunk_id"]))),
            ("held-out sentences", prompt, eligible["held"]),
            *(("chunks without them", arm, texts) for _, arm, texts in bodies(workspace, eligible)),
        ]
        if labels is not None:
            wanted.append(("labelled queries", prompt, labels.queries["text"]))
        for what, role, strings in wanted:
            workspace.count_cached(workspace.encode(role, strings, what))
    return StageResult(summary={name: count - before[name] for name, count in workspace.totals.items()})
