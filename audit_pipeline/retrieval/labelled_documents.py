"""The documents that come first for each labelled query, and the text before them. Chunks are labelled.py's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.arrays import one_array
from audit_pipeline.corpus.text import count_words
from audit_pipeline.index.documents import known_documents
from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.index.reach import Reach, ranks_within
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.results import Progress, no_progress
from audit_pipeline.retrieval.ranking import Identities
from audit_pipeline.retrieval.tables import as_schema

K = 10
_FIRST_ROWS = 64
_MOST_KEPT = 4_000_000  # rows kept at once, over all queries of a scan


def labelled_documents(
    snapshot: TableSnapshot,
    population: pa.Table | None,
    exact: ExactSearch,
    identities: Identities,
    query_ids: list[str],
    queries: np.ndarray,
    relevant_ids: list[list[str]],
    reach: Reach,
    progress: Progress = no_progress,
) -> tuple[pa.Table, pa.Array]:
    """The first ten distinct documents of each query, and the words of its ten closest chunks, (q,) int64.

    A document stands where its closest chunk stands (MaxP, Dai & Callan 2019), by exact score within the query's
    reach, so that its rank does not depend on how many chunks it was cut into; ties within 1e-6 count in favour. The
    table (schemas.LABELLED_DOCUMENTS) also has the relevant documents beyond the tenth, with rank null. A chunk
    without a document is one by itself; where no chunk has one the table is empty.
    """
    names, known = _names(snapshot, population)
    words_10 = np.zeros(len(query_ids), np.int64)
    if not len(names) or not known:
        table = schemas.LABELLED_DOCUMENTS.empty_table()
        for places, rows, _ in _closest(exact, identities, queries, reach, None, progress):
            words_10[places] = [int(_words(snapshot, own[:K]).sum()) for own in rows]
        return table, pa.array(words_10)
    codes = pc.dictionary_encode(names)
    code_of_row = codes.indices.to_numpy(zero_copy_only=False)
    relevant = _relevant(snapshot, population, names, relevant_ids)
    columns: dict[str, list[Any]] = {field.name: [] for field in schemas.LABELLED_DOCUMENTS}

    def add(*values: Any) -> None:
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)

    for places, rows, scores in _closest(exact, identities, queries, reach, code_of_row, progress):
        for query, own, own_scores in zip(places.tolist(), rows, scores, strict=True):
            words = _words(snapshot, own)
            read = np.concatenate(([0], np.cumsum(words)))
            words_10[query] = read[min(K, len(own))]
            _, first = np.unique(code_of_row[own], return_index=True)
            first.sort()
            wanted = set(relevant[query])
            for place in first.tolist():
                # Rows that tie are no further ahead than one another.
                level = own_scores > own_scores[place] + TIE_TOLERANCE
                ahead = int(np.count_nonzero(level))
                rank = int(np.count_nonzero(level[first])) + 1
                if rank > K:
                    break
                name = names[int(own[place])].as_py()
                add(query_ids[query], rank, name, ahead + 1, int(read[ahead]), int(words[place]), name in wanted)
                wanted.discard(name)
            for name in sorted(wanted):
                add(query_ids[query], None, name, None, None, None, True)
    arrays = {field.name: pa.array(columns[field.name], field.type) for field in schemas.LABELLED_DOCUMENTS}
    table = as_schema(arrays, schemas.LABELLED_DOCUMENTS)
    return table.sort_by([("query_id", "ascending"), ("rank", "ascending"), ("document", "ascending")]), pa.array(
        words_10
    )


def _names(snapshot: TableSnapshot, population: pa.Table | None) -> tuple[pa.Array, bool]:
    """The document of each row of the table, by the population's word before the table's, else the chunk's own id;
    and whether any document is known.
    """
    ids = snapshot.chunk_ids
    own = pa.nulls(len(ids), pa.string())
    if "doc_id" in snapshot.rows.column_names:
        own = one_array(known_documents(snapshot.rows["doc_id"]))
    if population is not None:
        place = pc.index_in(ids, value_set=one_array(population["chunk_id"]))
        own = pc.coalesce(one_array(known_documents(population["doc_id"])).take(place), own)
    return one_array(pc.coalesce(own, ids)), own.null_count < len(own)


def _relevant(
    snapshot: TableSnapshot, population: pa.Table | None, names: pa.Array, relevant_ids: list[list[str]]
) -> list[list[str]]:
    """The documents of each query's relevant chunks, also of those that the table lacks."""
    flat = pa.array([chunk for chunks in relevant_ids for chunk in chunks], pa.string())
    rows = snapshot.row_of(flat)
    found = names.take(pa.array(np.maximum(rows, 0), mask=rows < 0))
    if population is not None:
        place = pc.index_in(flat, value_set=one_array(population["chunk_id"]))
        found = pc.coalesce(found, one_array(known_documents(population["doc_id"])).take(place))
    documents = pc.coalesce(found, flat).to_pylist()
    ends = np.cumsum([len(chunks) for chunks in relevant_ids])
    return [sorted(set(documents[end - len(own) : end])) for own, end in zip(relevant_ids, ends.tolist(), strict=True)]


def _closest(
    exact: ExactSearch,
    identities: Identities,
    queries: np.ndarray,
    reach: Reach,
    documents: np.ndarray | None,
    progress: Progress,
) -> list[tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]]:
    """Parts of the queries with their closest rows, one of each chunk id, and the rows' scores.

    As many as it takes to see ten distinct documents, or rows without ``documents``, ahead of the last one.
    """
    parts = []
    todo, k = np.arange(len(queries)), _FIRST_ROWS
    while len(todo):
        unfinished = []
        at_once = max(1, _MOST_KEPT // k)
        for start in range(0, len(todo), at_once):
            places = todo[start : start + at_once]
            found = ranks_within(exact, reach.take(places), queries[places], None, k, progress=progress)
            done, rows, scores = [], [], []
            for query, own, own_scores in zip(places.tolist(), found.top_rows, found.top_scores, strict=True):
                held = own >= 0
                _, first = np.unique(identities.codes_of(own[held]), return_index=True)
                first.sort()
                kept, kept_scores = own[held][first], own_scores[held][first]
                ahead = kept[kept_scores > (kept_scores[-1] if len(kept) else 0.0) + TIE_TOLERANCE]
                distinct = len(ahead) if documents is None else len(np.unique(documents[ahead]))
                if distinct < K and held.all() and k < len(exact.vectors):
                    unfinished.append(query)
                else:
                    done.append(query)
                    rows.append(kept)
                    scores.append(kept_scores)
            parts.append((np.array(done, np.int64), rows, scores))
        todo, k = np.array(unfinished, np.int64), min(4 * k, len(exact.vectors))
    return parts


def _words(snapshot: TableSnapshot, rows: np.ndarray) -> np.ndarray:
    """Words of the text of each row, (r,) int64."""
    texts = snapshot.rows["text"].take(pa.array(rows, pa.int64()))
    return count_words(texts).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
