"""Labelled retrieval: real queries with judgements, as returned and exactly scored. Labels are read in corpus/."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.bands import length_band
from audit_pipeline.corpus.labelled_queries import INVALID
from audit_pipeline.corpus.text import count_words, normalise, sha256_hex, words
from audit_pipeline.findings import Finding
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.index.snapshot import TableSnapshot, VariantFunction
from audit_pipeline.plural import counted
from audit_pipeline.proportions import bootstrap_mean, wilson
from audit_pipeline.results import Progress, StageResult, no_progress
from audit_pipeline.retrieval.askers import askers_of
from audit_pipeline.retrieval.diagnosis import Diagnosis, Probes, diagnose
from audit_pipeline.retrieval.labelled_documents import labelled_documents
from audit_pipeline.retrieval.miss import Evidence, Fidelity, FidelityCheck
from audit_pipeline.retrieval.ranking import Identities, nullable, rank_answers
from audit_pipeline.retrieval.relevant import (
    K,
    Labels,
    best_irrelevant,
    closest_answers,
    figures_of,
    first_returned_of,
    padded,
    relevant_chunks,
)
from audit_pipeline.retrieval.rows_ahead import ReadPart, suspects_ahead
from audit_pipeline.retrieval.search_findings import labelled_cutoff_findings
from audit_pipeline.retrieval.self_retrieval import search_in_blocks
from audit_pipeline.retrieval.tables import as_schema, booleans, rank_columns, retrieved_table

RUN = "labelled"
_STRATA = ("source", "ingestion_date", "batch", "length_band")


def run_labelled(
    snapshot: TableSnapshot,
    labels: Labels,
    query_vectors: np.ndarray,
    settings: IndexAuditSettings,
    progress: Progress = no_progress,
    *,
    population: pa.Table | None = None,
    variants: VariantFunction | None = None,
    fidelity: FidelityCheck | None = None,
    suspected: np.ndarray | None = None,
    read_part: ReadPart | None = None,
    judge_answers: bool = False,
) -> StageResult:
    """Searches each labelled query as the application does, and scores it exactly.

    ``query_vectors`` (q, d) are ``labels.queries`` in the query role, in its order; every query needs a relevant
    judgement. ``population`` gives source, ingestion_date, batch and length_band of the answers by chunk_id (default:
    the table's own). Success@10 is whether any relevant chunk is among ten, recall@10 (TREC) the share of the relevant
    chunks that are; exact figures count ties in favour. As-returned figures are null where the application asks for
    fewer than ten rows; documents are ranked exactly. ``fidelity``, ``suspected`` and ``read_part`` as in
    self-retrieval, for suspected answers (for every missed one with ``judge_answers``) and the rows ahead. Returns the
    tables labelled_retrieval, labelled_documents, retrieved, qrels and the section labelled of audit.json, with
    ``causes`` and ``misses`` beside it. Raises ValueError where a query has no relevant judgement.
    """
    queries = labels.queries
    if len(query_vectors) != queries.num_rows:
        raise ValueError(f"{len(query_vectors)} query vectors for {queries.num_rows} queries")
    identities = Identities(snapshot)
    exact = ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric)
    askers = askers_of(snapshot, relevant_chunks(labels))
    relevant_ids, reach = askers.relevant_ids, askers.reach
    relevant_rows = padded(askers.relevant_rows)
    answer, answer_rows = closest_answers(exact, reach, query_vectors, relevant_rows)
    answer_ids = [ids[place] for ids, place in zip(relevant_ids, answer, strict=True)]
    limit = settings.index.search.limit
    hits = search_in_blocks(snapshot, query_vectors, limit, progress, reach)
    ranking = rank_answers(exact, identities, query_vectors, answer_rows, reach=reach, progress=progress)
    relevant_codes = identities.codes_of(relevant_rows)
    first_returned = first_returned_of(hits.rows, identities, relevant_codes)
    figures = figures_of(hits.rows, ranking, identities, relevant_codes, np.array([len(ids) for ids in relevant_ids]))
    missed = ~(figures["success_10"] if limit >= K else figures["exact_success_10"])
    query_ids = queries["query_id"].to_pylist()
    to_judge = suspects_ahead(ranking, np.flatnonzero(missed), suspected, identities)
    if suspected is not None or judge_answers:
        at_fault = missed & (answer_rows >= 0)
        if not judge_answers and suspected is not None:
            at_fault &= suspected[np.maximum(answer_rows, 0)]
        answers = {answer_ids[query] for query in np.flatnonzero(at_fault)}
        to_judge = sorted(answers.union(to_judge))
    judged = fidelity(to_judge) if fidelity is not None and to_judge else Fidelity()
    diagnosis = diagnose(
        Probes(
            run=RUN,
            k=K,
            probe_ids=query_ids,
            chunk_ids=answer_ids,
            query_texts=queries["text"].to_pylist(),
            queries=query_vectors,
            ranking=ranking,
            rank_returned=first_returned,
            returned=hits.rows,
            overlaps=[None] * len(query_ids),
            not_relevant=lambda probe, rows: ~np.isin(identities.codes_of(rows), relevant_codes[probe]),
            reach=reach,
        ),
        np.flatnonzero(missed),
        Evidence(snapshot, exact, identities, settings, variants=variants, fidelity=judged, read_part=read_part),
        progress=progress,
    )
    documents, words_10 = labelled_documents(
        snapshot, population, exact, identities, query_ids, query_vectors, relevant_ids, reach, progress
    )
    asked_enough = limit >= K
    nothing = pa.nulls(len(query_ids))
    columns: dict[str, Any] = {
        "query_id": queries["query_id"],
        "relevant": pa.array([len(ids) for ids in relevant_ids], pa.int32()),
        "answer_id": pa.array(answer_ids, pa.string()),
        **_strata_of(answer_ids, snapshot if population is None else population),
        "text_sha256": sha256_hex(queries["text"]),
        "verbatim": pa.array(_verbatim(queries["text"].to_pylist(), relevant_rows, snapshot), pa.bool_()),
        "rank_returned": nullable(first_returned, pa.int32()),
        **rank_columns(ranking, best_irrelevant(ranking, identities, relevant_codes), identities),
        "returned": pa.array(hits.returned, pa.int32()),
        "success_10": pa.array(figures["success_10"]) if asked_enough else nothing,
        "recall_10": pa.array(figures["recall_10"]) if asked_enough else nothing,
        "exact_success_10": pa.array(figures["exact_success_10"]),
        "exact_recall_10": pa.array(figures["exact_recall_10"]),
        "words_10": words_10,
        "cause": diagnosis.cause,
        "evidence": diagnosis.evidence,
    }
    table = as_schema(columns, schemas.LABELLED_RETRIEVAL).sort_by("query_id")
    ids = queries["query_id"].combine_chunks()
    tables = {
        "labelled_retrieval": table,
        "labelled_documents": documents,
        "retrieved": retrieved_table(RUN, ids, hits.rows, query_vectors, exact, identities),
        "qrels": _judgements(labels, query_ids, relevant_ids),
    }
    summary = _summary(table, asked_enough, ranking.haystack, labels.invalid, diagnosis)
    if askers.left_out.any():
        # Told beside the figures: they speak of the rest of the judgements.
        summary["judged_for_others"] = {
            "queries": int(np.count_nonzero(askers.left_out)),
            "judgements": int(askers.left_out.sum()),
        }
    findings = label_findings(labels, table.num_rows) + labelled_cutoff_findings(table, settings)
    return StageResult(tables, summary, findings)


def labelled_hits(
    snapshot: TableSnapshot, labels: Labels, queries: dict[str, np.ndarray], progress: Progress = no_progress
) -> dict[str, np.ndarray]:
    """Whether each query has a relevant chunk among ten by exact score, (q,) bool, under each encoding of the queries.

    ``queries`` holds (q, d) vectors by name, aligned with ``labels.queries``.
    """
    identities = Identities(snapshot)
    exact = ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric)
    askers = askers_of(snapshot, relevant_chunks(labels))
    relevant = padded(askers.relevant_rows)
    hits = {}
    for name, vectors in queries.items():
        _, rows = closest_answers(exact, askers.reach, vectors, relevant)
        ranking = rank_answers(exact, identities, vectors, rows, reach=askers.reach, progress=progress)
        hits[name] = (ranking.rank_min >= 1) & (ranking.rank_min <= K)
    return hits


def _strata_of(answer_ids: list[str], origin: TableSnapshot | pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    """Source, date, batch and length band of the answers; null where the origin does not say."""
    rows = origin if isinstance(origin, pa.Table) else origin.rows
    ids = rows["chunk_id"].combine_chunks()
    own = rows.take(pc.index_in(pa.array(answer_ids, ids.type), value_set=ids))
    strata = {name: own[name] if name in own.column_names else pa.nulls(own.num_rows) for name in _STRATA}
    if "length_band" not in own.column_names:
        known = own["chunk_id"].combine_chunks().is_valid()
        n_words = count_words(own["text"].combine_chunks().fill_null(""))
        n_tokens = own["n_tokens"] if "n_tokens" in own.column_names else pa.nulls(own.num_rows, pa.int32())
        strata["length_band"] = pc.if_else(known, length_band(n_tokens, n_words), pa.scalar(None, pa.string()))
    return strata


def _verbatim(queries: list[str], relevant_rows: np.ndarray, snapshot: TableSnapshot) -> list[bool]:
    """Whether the query stands word for word in the text of a relevant chunk."""
    texts: dict[int, str] = {}

    def spaced(text: str) -> str:
        return f" {' '.join(words(normalise(text)))} "

    def holds(row: int, wanted: str) -> bool:
        if row not in texts:
            texts[row] = spaced(snapshot.rows["text"][row].as_py() or "")
        return wanted in texts[row]

    verbatim = []
    for query, rows in zip(queries, relevant_rows, strict=True):
        wanted = spaced(query)
        verbatim.append(bool(wanted.strip()) and any(holds(int(row), wanted) for row in rows[rows >= 0]))
    return verbatim


def _judgements(labels: Labels, query_ids: list[str], relevant_ids: list[list[str]]) -> pa.Table:
    """The judgements that the figures rest on: of relevant chunks, those that the query's asker can be shown."""
    qrels = labels.qrels.filter(pc.is_in(labels.qrels["query_id"], value_set=pa.array(query_ids, pa.string())))
    kept = {(query, chunk) for query, chunks in zip(query_ids, relevant_ids, strict=True) for chunk in chunks}
    pairs = zip(*(qrels[name].to_pylist() for name in ("query_id", "chunk_id", "relevance")), strict=True)
    qrels = qrels.filter(pa.array([value <= 0 or (query, chunk) in kept for query, chunk, value in pairs], pa.bool_()))
    columns = {
        "run": pa.array([RUN] * qrels.num_rows, pa.string()),
        "query_id": qrels["query_id"],
        "chunk_id": qrels["chunk_id"],
        "relevance": qrels["relevance"],
    }
    return as_schema(columns, schemas.QRELS).sort_by([("query_id", "ascending"), ("chunk_id", "ascending")])


def _summary(
    table: pa.Table, asked_enough: bool, haystack: int, invalid: dict[str, int], diagnosis: Diagnosis
) -> dict[str, Any]:
    def figures(rows: pa.Table) -> dict[str, Any]:
        n = rows.num_rows
        part: dict[str, Any] = {"n": n}
        for name, prefix, measured in (("labelled", "", asked_enough), ("exact", "exact_", True)):
            success, recall = rows[f"{prefix}success_10"], rows[f"{prefix}recall_10"]
            part[f"{name}_success@{K}"] = wilson(int(booleans(success).sum()), n).as_dict() if measured else None
            part[f"{name}_recall@{K}"] = bootstrap_mean(recall.to_numpy()).as_dict() if measured else None
        return part

    return {
        **figures(table),
        "haystack": haystack,
        "verbatim": int(booleans(table["verbatim"]).sum()),
        "without_verbatim": figures(table.filter(pc.invert(table["verbatim"]))),
        "invalid": dict(sorted(invalid.items())),
        "causes": diagnosis.counts,
        "misses": diagnosis.misses,
    }


def label_findings(labels: Labels, n: int) -> list[Finding]:
    """labels_invalid, where judgements or queries could not be used; ``n`` queries remain."""
    invalid = {reason: count for reason, count in sorted(labels.invalid.items()) if count}
    if not invalid:
        return []
    total = sum(invalid.values())
    counts = "; ".join(f"{INVALID[reason]}: {count:,}" for reason, count in invalid.items())
    used = labels.qrels.num_rows
    return [
        Finding(
            "labels_invalid",
            "warning",
            f"{counted(total, 'label')} could not be used ({counts}); {counted(n, 'query remains', 'queries remain')}.",
            "Draw the labels again from this corpus, or mend the ids they point to.",
            n_compared=used + total,
            share=total / (used + total),
            evidence={"invalid": invalid, "queries": n, "judgements": used},
        )
    ]
