"""The stages that measure the ANN index: recall of the declared search, and the sweep over other settings of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from audit_pipeline.corpus.sampling import hash_order
from audit_pipeline.index.reach import Reach, reach_of
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.ann_recall import run_ann_recall
from audit_pipeline.retrieval.ann_sweep import run_ann_sweep
from audit_pipeline.retrieval.askers import askers_of
from audit_pipeline.retrieval.relevant import relevant_chunks
from audit_pipeline.stages.held_out import held_out_plan
from audit_pipeline.stages.index import can_probe, pinned_snapshot
from audit_pipeline.stages.probes import planned_labels
from audit_pipeline.stages.retrieval import encodable
from audit_pipeline.stages.workspace import Workspace, corpus_stage

if TYPE_CHECKING:
    from audit_pipeline.index.snapshot import TableSnapshot


@corpus_stage
def ann_recall(workspace: Workspace) -> StageResult:
    """The application's search against the exact answer, for held-out sentences and labelled queries."""
    snapshot = pinned_snapshot(workspace)
    queries, vectors, reach = _queries(workspace, snapshot)
    return run_ann_recall(snapshot, queries, vectors, workspace.settings, workspace.progress, reach=reach)


@corpus_stage
def ann_sweep(workspace: Workspace) -> StageResult:
    """Some of the same queries under other nprobes, ef and refine_factor: recall, time, and the cheapest that do."""
    snapshot = pinned_snapshot(workspace)
    recalled, sample = workspace.summary("ann_recall"), workspace.settings.sample
    vectors, reach = np.empty((0, snapshot.info.dimension), np.float32), reach_of(snapshot, np.empty(0))
    if recalled["n"] and sample.ann_sweep:
        queries, vectors, reach = _queries(workspace, snapshot)
        # Only queries that were measured: those that some row can answer.
        ids = workspace.table("ann_recall", "ann_recall")["query_id"].to_pylist()
        measured = set(ids)
        places = [place for place, name in enumerate(queries["query_id"].to_pylist()) if name in measured]
        order = sorted(places, key=lambda place: hash_order(sample.seed, queries["query_id"][place].as_py()))
        drawn = np.array(order[: sample.ann_sweep], np.int64)
        vectors, reach = vectors[drawn], reach.take(drawn)
    return run_ann_sweep(snapshot, vectors, reach, recalled, workspace.settings, workspace.progress)


def _queries(workspace: Workspace, snapshot: TableSnapshot) -> tuple[pa.Table, np.ndarray, Reach]:
    """(query_id and run, vectors (q, d), reach) of all held-out sentences and labelled queries."""
    held = encodable(workspace, held_out_plan(workspace))
    eligible = held.filter(held["eligible"])
    labels = planned_labels(workspace) if can_probe(workspace) else None
    prompt, dimension = workspace.settings.encoder.query_arm, snapshot.info.dimension
    ids = [f"heldout:{chunk_id}" for chunk_id in eligible["chunk_id"].to_pylist()]
    reach = reach_of(snapshot, snapshot.row_of(eligible["chunk_id"]))
    runs = ["held_out"] * len(ids)
    vectors = [workspace.encoded(prompt, eligible["held"], dimension)]
    if labels is not None:
        ids += labels.queries["query_id"].to_pylist()
        runs += ["labelled"] * len(labels.queries)
        vectors.append(workspace.encoded(prompt, labels.queries["text"], dimension))
        reach = reach.followed_by(askers_of(snapshot, relevant_chunks(labels)).reach)
    queries = pa.table({"query_id": pa.array(ids, pa.string()), "run": pa.array(runs, pa.string())})
    return queries, np.concatenate(vectors), reach
