"""The texts behind the exported rankings: what was asked, and what was there to be found. Nothing is written here."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.report.beir import ExportTexts
from audit_pipeline.stages.held_out import held_out_plan
from audit_pipeline.stages.index import can_probe
from audit_pipeline.stages.probes import planned_labels
from audit_pipeline.stages.texts import chunks_of, embedded
from audit_pipeline.stages.workspace import Workspace


def export_texts(workspace: Workspace) -> ExportTexts:
    """The texts as they are embedded, without prompts, of all chunks and of all that was asked.

    Texts are null, and none is read, where the settings do not let corpus text into reports whole.
    """
    whole = workspace.settings.report.text == "full"
    population = workspace.population(None if whole else ["chunk_id"])
    first = pc.index_in(pc.unique(population["chunk_id"]), value_set=population["chunk_id"].combine_chunks())
    if len(first) < len(population):
        population = population.take(first)
    plan = workspace.table("probe_plan", "probe_plan")["chunk_id"]
    asked = [_queries("self", "self:", plan, embedded(workspace, chunks_of(population, plan)) if whole else None)]
    bodies = _texts_by_id(plan.slice(0, 0), None)
    if can_probe(workspace):
        held = held_out_plan(workspace)
        held = held.filter(held["eligible"])
        asked.append(_queries("held_out", "heldout:", held["chunk_id"], held["held"] if whole else None))
        bodies = _texts_by_id(held["chunk_id"], _bodies(workspace, population, held) if whole else None)
    labels = planned_labels(workspace)
    if labels is not None:
        queries = labels.queries
        asked.append(_queries("labelled", "", queries["query_id"], queries["text"] if whole else None))
    texts = embedded(workspace, population) if whole else None
    return ExportTexts(_texts_by_id(population["chunk_id"], texts), pa.concat_tables(asked), bodies)


def _bodies(workspace: Workspace, population: pa.Table, held: pa.Table) -> pa.Array:
    chunks = chunks_of(population, held["chunk_id"])
    return embedded(workspace, chunks.set_column(chunks.schema.get_field_index("text"), "text", held["body"]))


def _queries(run: str, prefix: str, ids: pa.ChunkedArray, texts: pa.Array | pa.ChunkedArray | None) -> pa.Table:
    names = pc.binary_join_element_wise(pa.scalar(prefix), ids.cast(pa.string()), "")
    return (
        _texts_by_id(names, texts)
        .rename_columns(["query_id", "text"])
        .add_column(0, "run", pa.repeat(pa.scalar(run), len(ids)))
    )


def _texts_by_id(ids: pa.ChunkedArray, texts: pa.Array | pa.ChunkedArray | None) -> pa.Table:
    texts = pa.nulls(len(ids), pa.large_string()) if texts is None else texts.cast(pa.large_string())
    return pa.table({"chunk_id": ids.cast(pa.string()), "text": texts})
