"""The stage that asks held-out and labelled queries under every known prompt. The comparison stands in retrieval/."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from audit_pipeline.corpus.sampling import hash_order
from audit_pipeline.encoder.query_side import arms_of_queries
from audit_pipeline.encoder.roles import accepted_arms
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.formatting_arms import Asked, run_formatting_arms
from audit_pipeline.retrieval.held_out import held_out_hits
from audit_pipeline.retrieval.labelled import labelled_hits
from audit_pipeline.stages.both_sides import both_sides
from audit_pipeline.stages.held_out import body_vectors, held_out_plan
from audit_pipeline.stages.index import can_probe, pinned_snapshot
from audit_pipeline.stages.probes import planned_labels
from audit_pipeline.stages.workspace import Workspace, corpus_stage

if TYPE_CHECKING:
    from audit_pipeline.corpus.labelled_queries import LabelledQueries
    from audit_pipeline.index.snapshot import TableSnapshot


@corpus_stage
def formatting_arms(workspace: Workspace) -> StageResult:
    """The same queries under each prompt, and under one on both sides; empty where nothing can be encoded or asked."""
    snapshot = pinned_snapshot(workspace)
    encoder, settings = workspace.encoder, workspace.settings
    if encoder is None or not settings.sample.arms or not can_probe(workspace):
        return _with_both_sides(run_formatting_arms([], {}), None)
    held, labels = _held(workspace), _labels(workspace)
    arms = arms_of_queries(settings.encoder, encoder.own_prompts)
    queries = [*(held["held"].to_pylist()), *(labels.queries["text"].to_pylist() if labels is not None else [])]
    if encoder.is_remote and queries:
        arms = accepted_arms(
            arms, queries[0], lambda texts, arm: workspace.encode(arm, pa.array(texts, pa.large_string())).vectors
        )
    asked = [_held_under(workspace, snapshot, held, arms)] if len(held) else []
    if labels is not None:
        asked.append(_labelled_under(workspace, snapshot, labels, arms))
    return _with_both_sides(run_formatting_arms(asked, arms), both_sides(workspace, snapshot, held, arms))


def _with_both_sides(result: StageResult, section: dict[str, Any] | None) -> StageResult:
    return replace(result, summary=result.summary | {"both_sides": section})


def _held(workspace: Workspace) -> pa.Table:
    held = held_out_plan(workspace)
    return _drawn(workspace, held.filter(held["eligible"]), "chunk_id")


def _labels(workspace: Workspace) -> LabelledQueries | None:
    labels = planned_labels(workspace)
    if labels is None or not len(labels.queries):
        return None
    return type(labels)(_drawn(workspace, labels.queries, "query_id"), labels.qrels, labels.invalid)


def _drawn(workspace: Workspace, table: pa.Table, key: str) -> pa.Table:
    """At most ``sample.arms`` rows, the same ones in every run; the table's order is kept."""
    sample = workspace.settings.sample
    order = np.array([hash_order(sample.seed, name) for name in table[key].to_pylist()], np.uint64)
    return table.take(pa.array(np.sort(np.argsort(order, kind="stable")[: sample.arms])))


def _held_under(workspace: Workspace, snapshot: TableSnapshot, held: pa.Table, arms: dict[str, str]) -> Asked:
    dimension = snapshot.info.dimension
    bodies = body_vectors(workspace, held, dimension)
    queries = {
        name: workspace.encoded(arm, held["held"], dimension, f"held-out sentences, arm {name}")
        for name, arm in arms.items()
    }
    return Asked("held_out", held_out_hits(snapshot, held["chunk_id"], queries, bodies, workspace.progress))


def _labelled_under(
    workspace: Workspace, snapshot: TableSnapshot, labels: LabelledQueries, arms: dict[str, str]
) -> Asked:
    queries = {
        name: workspace.encoded(arm, labels.queries["text"], snapshot.info.dimension, f"labelled queries, arm {name}")
        for name, arm in arms.items()
    }
    return Asked("labelled", labelled_hits(snapshot, labels, queries, workspace.progress))
