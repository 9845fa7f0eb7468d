"""The stages of the near-duplicate search, lane by lane. Nothing is deleted anywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from audit_pipeline.corpus.text import sha256_hex
from audit_pipeline.duplicates import lanes, stages
from audit_pipeline.duplicates.pair_table import IDS_OF_PAIRS
from audit_pipeline.duplicates.removal import cosine_alone
from audit_pipeline.duplicates.rows import nodes_of
from audit_pipeline.duplicates.self_checks import check_lanes
from audit_pipeline.duplicates.signatures import (
    compute_signatures,
    earlier_signatures,
    join_signatures,
    read_signatures,
)
from audit_pipeline.index.pairing import STORE_ID
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.memory import give_back
from audit_pipeline.results import StageResult
from audit_pipeline.stages.index import pinned_snapshot
from audit_pipeline.stages.regime import regime_not_measured, texts_in_query_role
from audit_pipeline.stages.second_vectors import second_vectors
from audit_pipeline.stages.vectors import roles_of_batches
from audit_pipeline.stages.workspace import Workspace, corpus_stage


def signatures(workspace: Workspace, columns: list[str] | None = None) -> pa.Table:
    """The signatures of all rows: those of the batches, or made in one pass for a table of others."""
    settings = workspace.settings.duplicates
    if workspace.settings.index.managed:
        tables = {}
        for pin in workspace.pins():
            folder = workspace.pinned_folder(pin)
            rows = pq.read_metadata(folder / "chunks.parquet").num_rows
            table = read_signatures(folder / "signatures.parquet", pin.key, columns, rows)
            tables[pin.key] = pin.without_gone(table)
        return join_signatures(tables, settings)
    return workspace.table("minhash_pairs", "signatures", columns)


def text_hashes(workspace: Workspace) -> pa.Table:
    """What of the signatures tells equal texts apart from others: a tenth of their bytes."""
    return signatures(workspace, ["chunk_id", "normalised_sha256", "status"])


@corpus_stage
def minhash_pairs(workspace: Workspace) -> StageResult:
    """Pairs of equal and of copied text."""
    snapshot = pinned_snapshot(workspace)
    settings = workspace.settings.duplicates
    self_checks = check_lanes(snapshot, settings)
    managed = workspace.settings.index.managed
    if managed:
        made = signatures(workspace)
    else:
        earlier = earlier_signatures(workspace.state.corpus / "minhash_pairs" / "signatures.parquet", settings)
        made = compute_signatures(snapshot.rows, settings, workspace.progress, earlier)
        del earlier
    result = lanes.exact_and_minhash(snapshot, made, settings, workspace.progress)
    result.summary["self_checks"] = self_checks
    if not managed:
        result.tables["signatures"] = made
    return result


@corpus_stage
def neighbour_pairs(workspace: Workspace) -> StageResult:
    """Nearest distinct texts, then all lanes in one table of candidate pairs."""
    snapshot = pinned_snapshot(workspace)
    settings = workspace.settings.duplicates
    roles = roles_of_batches(workspace)
    folder = workspace.state.corpus / "neighbour_index"
    asked = texts_in_query_role(workspace, first=True)
    give_back()
    near = lanes.neighbour_lane(snapshot, text_hashes(workspace), settings, folder, roles, workspace.progress, asked)
    # No name here holds the two tables, so the merge can let go of them once they are arrays.
    merged = lanes.merge_lanes(
        snapshot,
        workspace.table("minhash_pairs", "lexical_pairs", repeated=IDS_OF_PAIRS),
        near.tables.pop("neighbour_pairs"),
        settings,
        roles,
        workspace.progress,
        asked,
    )
    near.tables["other_texts"] = _other_texts(workspace, snapshot)
    unmeasured = regime_not_measured(workspace)  # where that is why, the lane's own reason is a wrong one
    findings = [*(unmeasured or near.findings), *merged.findings]
    return StageResult(near.tables | merged.tables, near.summary | merged.summary, findings)


def _other_texts(workspace: Workspace, snapshot: TableSnapshot) -> pa.Table:
    """chunk_id and text of rows whose text the source store does not have so: the labelling queue shows the table's."""
    nodes = nodes_of(snapshot)
    rows, others = pa.array(nodes.row), np.zeros(len(nodes), dtype=bool)
    if workspace.settings.index.managed or workspace.has_store:
        chunks = workspace.population(["chunk_id", "text_sha256"])
        place = pc.index_in(nodes.chunk_ids, value_set=chunks["chunk_id"].combine_chunks())
        own = sha256_hex(snapshot.rows["text"]).take(rows)
        same = pc.equal(own, chunks["text_sha256"].combine_chunks().take(place))
        others = ~pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    texts = snapshot.rows["text"].take(rows.filter(pa.array(others)))
    return pa.table({"chunk_id": nodes.chunk_ids.filter(pa.array(others)), "text": texts})


@corpus_stage
def similarity_floor(workspace: Workspace) -> StageResult:
    """Cosine of unrelated texts."""
    return stages.similarity_floor(
        pinned_snapshot(workspace),
        workspace.settings.duplicates,
        roles_of_batches(workspace),
        texts_in_query_role(workspace),
    )


@corpus_stage
def threshold_sweep(workspace: Workspace) -> StageResult:
    """Precision, recall and reading load over one fixed candidate set."""
    labels, store_ids = workspace.settings.labels.pairs, _store_ids(workspace)
    result = stages.threshold_sweep(
        pinned_snapshot(workspace),
        workspace.table("neighbour_pairs", "candidate_pairs", repeated=IDS_OF_PAIRS),
        workspace.table("similarity_floor", "similarity_floor"),
        workspace.table("neighbour_pairs", "neighbour_reach"),
        workspace.settings.duplicates,
        Path(labels) if labels else None,
        roles_of_batches(workspace),
        store_ids,
        texts_in_query_role(workspace),
    )
    result.summary["second"] = second_vectors(workspace, text_hashes(workspace), store_ids)
    return result


def _store_ids(workspace: Workspace) -> pa.Table | None:
    """The store's id and text hash of the table's rows that were paired by text; None where ids are the same kind."""
    population = workspace.population()
    if STORE_ID not in population.column_names:
        return None
    return population.select(["chunk_id", STORE_ID, "text_sha256"])


@corpus_stage
def duplicate_clusters(workspace: Workspace) -> StageResult:
    """Connected components of the pairs that pass the recommended threshold."""
    swept = workspace.summary("threshold_sweep")
    return stages.duplicate_clusters(
        pinned_snapshot(workspace),
        text_hashes(workspace),
        workspace.table("neighbour_pairs", "candidate_pairs", repeated=IDS_OF_PAIRS),
        swept["recommended"]["threshold"],
        workspace.settings.duplicates,
        roles_of_batches(workspace),
        cosine=cosine_alone(swept["recommended"], swept["sweep"], swept["labels"]["bands"]),
        asked=texts_in_query_role(workspace),
    )
