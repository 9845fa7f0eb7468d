"""Where in its document each chunk stands, for the strata. What follows from it is in strata.py and anomalies.py."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.index.documents import Documents

PLACES = ("first", "middle", "last")
LEAST_CHUNKS = 3
"""Chunks of a document from which on it has a middle; shorter documents are in no stratum of their own."""


def with_places(table: pa.Table, population: pa.Table) -> pa.Table:
    """The table (with chunk_id, or answer_id) and two columns: ``document``, the doc_id, and ``position``.

    ``population`` are all chunks with source, doc_id and position; without these the table stays as it is. Position
    is one of PLACES. Both are null where the document is unknown, the position also where the document has fewer than
    three known positions.
    """
    if not {"chunk_id", "source", "doc_id", "position"} <= set(population.column_names):
        return table
    documents = Documents.of(population)
    known = np.flatnonzero((documents.code >= 0) & (documents.position >= 0))
    place = np.full(len(documents.code), -1)
    if len(known):
        _, of, counts = np.unique(documents.code[known], return_inverse=True, return_counts=True)
        position = documents.position[known]
        lowest, highest = np.full(len(counts), np.iinfo(np.int64).max), np.full(len(counts), -1)
        np.minimum.at(lowest, of, position)
        np.maximum.at(highest, of, position)
        of_row = np.where(position == lowest[of], 0, np.where(position == highest[of], 2, 1))
        long = (counts >= LEAST_CHUNKS) & (highest > lowest)
        place[known] = np.where(long[of], of_row, -1)
    key = "chunk_id" if "chunk_id" in table.column_names else "answer_id"
    row = pc.index_in(table[key].combine_chunks(), value_set=population["chunk_id"].combine_chunks())
    codes = pa.array(place, mask=place < 0, type=pa.int64()).take(row)
    doc_id = population["doc_id"].combine_chunks()
    named = pc.if_else(pa.array(documents.code >= 0), doc_id, pa.scalar(None, pa.string())).take(row)
    table = table.drop_columns([name for name in ("document", "position") if name in table.column_names])
    return table.append_column("document", named).append_column("position", pa.array(PLACES).take(codes))
