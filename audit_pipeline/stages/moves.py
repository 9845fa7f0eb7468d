"""Rows that move between the batches of one run, and the order in which each is brought in once. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import without
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.stages.changes import BatchChange
from audit_pipeline.stages.retired import retired_slugs
from audit_pipeline.stages.workspace import Workspace


def moves_between(workspace: Workspace, changes: Sequence[BatchChange]) -> dict[str, set[str]]:
    """Key of a batch that holds rows which the store has in another of these batches -> the keys of those others."""
    retired = retired_slugs(workspace)  # of which nothing moves
    keys = [change.key for change in changes if parse_batch_key(change.key)[1] not in retired]
    known = {key: manifest for key in keys if (manifest := workspace.manifest(key)) is not None and manifest.rows}
    if not known:
        return {}
    now = {key: workspace.store.read_batch(key).chunks["chunk_id"].combine_chunks() for key in keys}
    lost = {}
    for key, manifest in known.items():
        lost[key] = without(workspace.held_ids(manifest), now[key])
    # One look for all of them: batch by batch it grows with the square of their number, and there may be thousands.
    heirs = pc.index_in(pa.concat_arrays(lost.values()), value_set=pa.concat_arrays(now.values()))
    found: dict[str, set[str]] = {}
    pairs = pa.table({"from": _names(lost), "to": _names(now).take(heirs)}).filter(heirs.is_valid())
    for pair in pairs.group_by(["from", "to"]).aggregate([]).to_pylist():
        found.setdefault(pair["from"], set()).add(pair["to"])
    return found


def _names(ids: Mapping[str, pa.Array]) -> pa.DictionaryArray:
    """The batch of each of these ids, one batch after the other."""
    of = np.repeat(np.arange(len(ids), dtype=np.int32), [len(some) for some in ids.values()])
    return pa.DictionaryArray.from_arrays(pa.array(of), pa.array(ids.keys(), pa.string()))


def in_order(changes: Sequence[BatchChange], moves: Mapping[str, set[str]]) -> list[BatchChange]:
    """The batches so that one which takes rows over comes before the one that gives them up, by key else.

    In any order no row is lost; but a batch that comes first keeps such rows, and is brought in again afterwards. So
    is the first by key of batches whose rows go round in a circle, which begins.
    """
    left = sorted(changes, key=lambda change: change.key)
    ordered: list[BatchChange] = []
    while left:
        waiting = {change.key for change in left}
        ready = [change for change in left if waiting.isdisjoint(moves.get(change.key, ()))] or left[:1]
        ordered += ready
        done = {change.key for change in ready}
        left = [change for change in left if change.key not in done]
    return ordered
