"""Whether a second vector per chunk, under another prompt, would judge duplicates better. No table is written."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.arms import as_arm
from audit_pipeline.corpus.text import is_blank
from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.clusters import components
from audit_pipeline.duplicates.lanes import neighbour_lane
from audit_pipeline.duplicates.pair_table import EXACT, IDS_OF_PAIRS, from_table, union
from audit_pipeline.duplicates.rows import nodes_of
from audit_pipeline.duplicates.second_vectors import Scored, compare_vectors, few_labels, verdict_words
from audit_pipeline.duplicates.stages import usable_labels
from audit_pipeline.duplicates.sweep import Candidates
from audit_pipeline.index.second_column import read_second_column, rows_on_disk, with_vectors
from audit_pipeline.index.snapshot import NULL, USABLE, TableSnapshot
from audit_pipeline.stages.index import pinned_snapshot
from audit_pipeline.stages.regime import embedded_template, texts_in_query_role
from audit_pipeline.stages.vectors import roles_of_batches
from audit_pipeline.stages.workspace import Workspace

_BYTES = 4  # of a float32


def second_vectors(workspace: Workspace, text_hashes: pa.Table, store_ids: pa.Table | None) -> dict[str, Any] | None:
    """The part ``duplicates.second`` of audit.json; None where the settings name no second vectors.

    The first vectors are judged in the settings' regime, the second ones stored on both sides. Candidates are those of
    the audit and what the second vectors' own neighbour lane finds. Nothing is encoded where labels are few.
    """
    settings = workspace.settings.duplicates
    if settings.second is None:
        return None
    snapshot, roles = pinned_snapshot(workspace), roles_of_batches(workspace)
    first = nodes_of(snapshot, roles, texts_in_query_role(workspace))
    pairs = from_table(first, workspace.table("neighbour_pairs", "candidate_pairs", repeated=IDS_OF_PAIRS))
    named = workspace.settings.labels.pairs
    _, known, _ = usable_labels(first, pairs, Path(named) if named else None, store_ids)
    known = known.where(known.corpus)
    folder = workspace.state.corpus / "second"
    rows = np.flatnonzero((snapshot.vector_state == USABLE) & ~is_blank(snapshot.rows["text"]).to_numpy(False))
    texts = pc.count_distinct(snapshot.rows["text"].take(pa.array(rows))).as_py()
    cost = {"bytes_per_row": _BYTES * snapshot.info.dimension, "texts": texts, "encoded": 0, "seconds": None}
    enough = not few_labels(int(known.duplicate.sum()), int((~known.duplicate).sum()))
    scored = [np.full(len(known), np.nan)] * 2
    found_pairs = (pairs.a[~pairs.window], pairs.b[~pairs.window])
    of_pairs = [np.empty(0), np.empty(0)]
    exact = pairs.in_lane(EXACT)
    same_text = components(len(first), pairs.a[exact], pairs.b[exact])
    try:
        if enough or settings.second.vector is not None:  # a column that is not there is told in any case
            other = _read_or_encode(workspace, snapshot, settings, rows, folder, cost)
        if enough:
            second = nodes_of(other)
            index = folder / "neighbour_index"
            near = neighbour_lane(other, text_hashes, settings, index, progress=workspace.progress)
            sides = (near.tables["neighbour_pairs"][side].to_numpy() for side in ("node_a", "node_b"))
            windows = pairs.a[pairs.window] * len(first) + pairs.b[pairs.window]
            a, b, _ = union(len(first), found_pairs, tuple(sides))
            kept = ~np.isin(a * len(first) + b, windows)
            found_pairs = a[kept], b[kept]
            of_pairs = [nodes.cosines(*found_pairs) for nodes in (first, second)]
            scored = [nodes.cosines(known.a, known.b) for nodes in (first, second)]
        else:
            scored = [first.cosines(known.a, known.b)] * 2  # too few of them: only counted
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    candidate = Candidates(*found_pairs, of_pairs[0], same_text).contains(known.a, known.b)
    thresholds = sorted(set(settings.second.thresholds or settings.thresholds))
    kinds = [
        Scored(scored[0], of_pairs[0], settings.thresholds),
        Scored(scored[1], of_pairs[1], thresholds),
    ]
    found = compare_vectors(known.a, known.b, known.duplicate, candidate, *kinds)
    if not enough:
        found |= {"first": None, "second": None}
    cost["bytes"] = cost["bytes_per_row"] * len(snapshot.rows)
    what = {"vector": settings.second.vector, "passage_prompt": settings.second.passage_prompt}
    return what | found | {"cost": cost, "words": verdict_words(found, cost, settings.regime)}


def _read_or_encode(
    workspace: Workspace,
    snapshot: TableSnapshot,
    settings: DuplicateSettings,
    rows: np.ndarray,
    folder: Path,
    cost: dict[str, Any],
) -> TableSnapshot:
    """The rows with their second vectors; ``cost`` gets the bytes a row, and the time where texts were encoded."""
    assert settings.second is not None
    if settings.second.vector is not None:
        other, cost["bytes_per_row"] = read_second_column(
            snapshot, workspace.settings.index, workspace.index_uri, settings.second.vector, folder
        )
        return other
    started = time.perf_counter()
    texts = embedded_template(workspace, snapshot.rows.take(pa.array(rows))).dictionary_encode()
    extra = workspace.settings.encoder.passage_extra
    encoded = workspace.encode(as_arm(settings.second.passage_prompt or "", extra), texts.dictionary)
    workspace.count_cached(encoded)
    if encoded.encoded:
        cost |= {"encoded": encoded.encoded, "seconds": round(time.perf_counter() - started, 3)}
    cost["bytes_per_row"] = _BYTES * encoded.vectors.shape[1]
    vectors = rows_on_disk(folder, len(snapshot.rows), encoded.vectors.shape[1])
    state = np.full(len(snapshot.rows), NULL, dtype=np.uint8)
    places = texts.indices.to_numpy()
    for start in range(0, len(rows), 8192):
        vectors[rows[start : start + 8192]] = encoded.vectors[places[start : start + 8192]]
    state[rows] = USABLE
    return with_vectors(snapshot, vectors, state)
