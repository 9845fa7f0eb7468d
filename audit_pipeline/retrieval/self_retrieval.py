"""Self-retrieval: every probe's own text as the query, as returned and as exactly scored. Strata are in strata.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.index.reach import Reach, reach_of
from audit_pipeline.index.row_filter import RowFilter
from audit_pipeline.index.snapshot import SearchHits, TableSnapshot, VariantFunction
from audit_pipeline.proportions import stratified
from audit_pipeline.results import Progress, StageResult, no_progress
from audit_pipeline.retrieval.diagnosis import Diagnosis, Probes, diagnose
from audit_pipeline.retrieval.miss import Evidence, Fidelity, FidelityCheck, collided_texts, texts_by_id
from audit_pipeline.retrieval.ranking import Identities, best_others, nullable, rank_answers, rank_returned
from audit_pipeline.retrieval.rows_ahead import ReadPart, suspects_ahead
from audit_pipeline.retrieval.search_findings import expected_results, search_findings
from audit_pipeline.retrieval.tables import (
    PROBE_COLUMNS,
    as_schema,
    booleans,
    qrels_table,
    rank_columns,
    retrieved_table,
)

RUN = "self"
_SEARCH_BLOCK = 500


def run_self_retrieval(
    snapshot: TableSnapshot,
    plan: pa.Table,
    query_vectors: np.ndarray,
    store: pa.Table | None,
    settings: IndexAuditSettings,
    progress: Progress = no_progress,
    *,
    variants: VariantFunction | None = None,
    fidelity: FidelityCheck | None = None,
    suspected: np.ndarray | None = None,
    read_part: ReadPart | None = None,
    text_is_embedded: bool = True,
    encoder_is_stable: bool = True,
    rejected: pa.Table | None = None,
) -> StageResult:
    """Searches each probe's own text as the application does, and scores it exactly.

    ``plan`` has the schema PROBE_PLAN; ``query_vectors`` (n, d) are its chunks' own texts in the query role, in its
    order; ``store`` (schema CHUNKS) is the source store where there is one. Returns the tables ``self_retrieval``,
    ``retrieved`` and ``qrels``, and the section self_retrieval of audit.json without its strata, with ``causes``
    (counts by cause) and ``misses`` beside it. ``fidelity`` judges the vectors of the missed chunks, and of
    ``suspected`` rows, (n,) bool, ahead of them; ``read_part`` says what is read of a row's text;
    ``text_is_embedded`` is False where the vectors encode something unknown, ``encoder_is_stable`` where the encoder's
    own depend on the batch; ``rejected`` (schema REJECTED_CHUNKS) are the store's rows that could not be used. The
    headline self@1 is as returned. Every probe is searched, and ranked, among the rows that the application's
    filter lets through, which is filled from the probe's own row where it names columns. Raises ValueError where
    plan and vectors differ in length.
    """
    if len(query_vectors) != plan.num_rows:
        raise ValueError(f"{len(query_vectors)} query vectors for {plan.num_rows} probes")
    identities = Identities(snapshot)
    exact = ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric)
    limit = settings.index.search.limit
    chunk_ids = plan["chunk_id"]
    own_rows = snapshot.row_of(chunk_ids)
    reach = reach_of(snapshot, own_rows)
    hits = search_in_blocks(snapshot, query_vectors, limit, progress, reach)
    ranking = rank_answers(exact, identities, query_vectors, own_rows, reach=reach, progress=progress)
    returned_rank = rank_returned(hits.rows, identities, identities.codes_of(ranking.row))
    hit_1 = returned_rank == 1
    ids = chunk_ids.to_pylist()
    missed = np.flatnonzero(~hit_1)
    missed_ids = [ids[position] for position in missed]
    own_texts = texts_by_id(store, missed_ids)
    to_judge = list(dict.fromkeys([*missed_ids, *suspects_ahead(ranking, missed, suspected, identities)]))
    judged = fidelity(to_judge) if fidelity is not None and to_judge else Fidelity()
    texts = _query_texts(ids, missed, own_texts, ranking.row, snapshot)
    codes = identities.codes_of(ranking.row)
    diagnosis = diagnose(
        Probes(
            run=RUN,
            k=1,
            probe_ids=[f"{RUN}:{chunk_id}" for chunk_id in ids],
            chunk_ids=ids,
            query_texts=texts,
            queries=query_vectors,
            ranking=ranking,
            rank_returned=returned_rank,
            returned=hits.rows,
            overlaps=[None] * len(ids),
            not_relevant=lambda probe, rows: identities.codes_of(rows) != codes[probe],
            reach=reach,
        ),
        missed,
        Evidence(
            snapshot,
            exact,
            identities,
            settings,
            own_texts,
            variants,
            judged,
            read_part,
            text_is_embedded,
            encoder_is_stable,
            collided=collided_texts(rejected, missed_ids),
        ),
        progress=progress,
    )
    columns = {
        "probe_id": pa.array([f"{RUN}:{chunk_id}" for chunk_id in ids], pa.string()),
        "chunk_id": chunk_ids,
        **{name: plan[name] for name in PROBE_COLUMNS},
        "rank_returned": nullable(returned_rank, pa.int32()),
        **rank_columns(ranking, best_others(ranking, identities), identities),
        "returned": pa.array(hits.returned, pa.int32()),
        "expected": pa.array(expected_results(snapshot, identities, reach, ranking, hits, settings), pa.int32()),
        "hit_1": pa.array(hit_1),
        "hit_10": pa.array((returned_rank >= 1) & (returned_rank <= 10))
        if limit >= 10
        else pa.nulls(len(ids), pa.bool_()),
        "cause": diagnosis.cause,
        "evidence": diagnosis.evidence,
    }
    table = as_schema(columns, schemas.SELF_RETRIEVAL).sort_by("probe_id")
    probe_ids = columns["probe_id"]
    tables = {
        "self_retrieval": table,
        "retrieved": retrieved_table(RUN, probe_ids, hits.rows, query_vectors, exact, identities),
        "qrels": qrels_table(RUN, probe_ids, chunk_ids),
    }
    summary = _summary(table, ranking.haystack, limit, diagnosis)
    if snapshot.row_filter is not None:
        summary["filters"] = _filters(snapshot, snapshot.row_filter, reach, own_rows)
    return StageResult(tables, summary, search_findings(table, settings))


def search_in_blocks(
    snapshot: TableSnapshot, queries: np.ndarray, limit: int, progress: Progress, reach: Reach | None = None
) -> SearchHits:
    """The application's search for many queries: rows (m, limit) padded with -1, returned and beyond_cutoff (m,).

    Each query is sent with the filter of its ``reach``, those of one filter together.
    """
    rows = np.full((len(queries), limit), -1, np.int64)
    returned = np.zeros(len(queries), np.int64)
    beyond = np.zeros(len(queries), np.int64)
    own_filters = reach is not None and reach.filters is not None
    order = np.argsort(reach.group, kind="stable") if reach is not None and own_filters else np.arange(len(queries))
    for start in range(0, len(queries), _SEARCH_BLOCK):
        part = order[start : start + _SEARCH_BLOCK]
        if reach is not None and reach.filters is not None:
            hits = snapshot.search(queries[part], limit, reach.filters[part])
        else:
            hits = snapshot.search(queries[part], limit)
        width = min(limit, hits.rows.shape[1])
        rows[part, :width] = hits.rows[:, :width]
        returned[part] = hits.returned
        if hits.beyond_cutoff is not None:
            beyond[part] = hits.beyond_cutoff
        progress("searching", start + len(part), len(queries))
    return SearchHits(rows, returned, beyond_cutoff=beyond)


def _query_texts(
    ids: list[str], missed: np.ndarray, own_texts: dict[str, str], rows: np.ndarray, snapshot: TableSnapshot
) -> list[str | None]:
    """Own text of the missed probes only: the store's, else the table's."""
    texts: list[str | None] = [None] * len(ids)
    for position in missed:
        text = own_texts.get(ids[position])
        if text is None and rows[position] >= 0:
            text = snapshot.rows["text"][int(rows[position])].as_py()
        texts[position] = text
    return texts


def _filters(snapshot: TableSnapshot, row_filter: RowFilter, reach: Reach, own_rows: np.ndarray) -> dict[str, Any]:
    """What audit.json says of a filter that is filled from rows: its columns, and the rows its fillings let through."""
    counts = [0 if rows is None else int(np.count_nonzero(snapshot.searchable[rows])) for rows in reach.rows]
    sizes = reach.of_each(counts)[own_rows >= 0]
    return {
        "columns": row_filter.names,
        "distinct": row_filter.distinct,
        "searched": len(reach.rows),
        "haystack": {"smallest": int(sizes.min()) if len(sizes) else 0, "largest": int(sizes.max(initial=0))},
    }


def _summary(table: pa.Table, haystack: int, limit: int, diagnosis: Diagnosis) -> dict[str, Any]:
    rank_min = table["rank_min"].fill_null(0).to_numpy()
    rank_max = table["rank_max"].fill_null(0).to_numpy()

    def corpus(hits: np.ndarray) -> dict[str, Any]:
        strata = table["stratum"].to_numpy(zero_copy_only=False)
        return stratified(hits, strata, table["stratum_chunks"].to_numpy()).as_dict()

    return {
        "n": table.num_rows,
        "haystack": haystack,
        "self@1": corpus(booleans(table["hit_1"])),
        "self@10": corpus(booleans(table["hit_10"])) if limit >= 10 else None,
        "self@1_lenient": corpus(rank_min == 1),
        "self@1_unique": corpus(rank_max == 1),
        "short_results": int(np.count_nonzero(table["returned"].to_numpy() < table["expected"].to_numpy())),
        "causes": diagnosis.counts,
        "misses": diagnosis.misses,
    }
