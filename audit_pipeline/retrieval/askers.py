"""Which tenant asks a labelled query, where the filter is filled from a row. Nothing is searched or scored here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from audit_pipeline.index.reach import Reach, reach_of
from audit_pipeline.index.snapshot import TableSnapshot


@dataclass(frozen=True)
class Askers:
    """The relevant chunks of each query that its asker could be answered with, and what the asker's filter reaches.

    ``relevant_ids`` and ``relevant_rows`` are aligned, -1 for an id that the table lacks; ``left_out`` (q,) counts the
    relevant chunks that belong to others.
    """

    relevant_ids: list[list[str]]
    relevant_rows: list[np.ndarray]
    reach: Reach
    left_out: np.ndarray


def askers_of(snapshot: TableSnapshot, relevant_ids: list[list[str]]) -> Askers:
    """One asker for each query, given its relevant chunks.

    A query is one person's, and a filter that is filled from a row shows that person one tenant's rows. Where the
    judgements span tenants (a text that several of them hold), the asker is the one whose filter lets most of the
    relevant chunks through, the first by chunk id among equals; the chunks of others are no answers to this asker, so
    counting them as missed would invent misses, and leaving the query out would lose what was judged. A relevant
    chunk of the asker's own values stays one although another part of the filter hides it: that is a miss.
    """
    rows = [snapshot.row_of(pa.array(ids, pa.string())) for ids in relevant_ids]
    left_out = np.zeros(len(rows), np.int64)
    if snapshot.row_filter is None:
        return Askers(relevant_ids, rows, reach_of(snapshot, np.full(len(rows), -1)), left_out)
    codes = snapshot.row_filter.codes
    asking = np.full(len(rows), -1, np.int64)
    kept_ids, kept_rows = [], []
    for query, (ids, own) in enumerate(zip(relevant_ids, rows, strict=True)):
        known = own[own >= 0]
        kept = np.ones(len(own), bool)
        if len(known):
            candidates = known[np.sort(np.unique(codes[known], return_index=True)[1])]
            reach = reach_of(snapshot, candidates)
            reached = [(codes[known] == codes[row]) | reach.holds(place, known) for place, row in enumerate(candidates)]
            best = int(np.argmax([int(mask.sum()) for mask in reached]))
            asking[query] = candidates[best]
            kept[own >= 0] = reached[best]
        left_out[query] = int((~kept).sum())
        kept_ids.append([chunk_id for chunk_id, keep in zip(ids, kept, strict=True) if keep])
        kept_rows.append(own[kept])
    return Askers(kept_ids, kept_rows, reach_of(snapshot, asking), left_out)
