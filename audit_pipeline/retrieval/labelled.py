"""Labelled retrieval: real queries with judgements, as returned and exactly scored. Labels are read in corpus/."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.bands import length_band
from audit_pipeline.corpus.labelled_queries import INVALID
from audit_pipeline.corpus.text import count_words, normalise, sha256_hex, words
from audit_pipeline.findings import Finding
from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.index.reach import Reach
from audit_pipeline.index.snapshot import TableSnapshot, VariantFunction
from audit_pipeline.plural import counted
from audit_pipeline.proportions import bootstrap_mean, wilson
from audit_pipeline.results import Progress, StageResult, no_progress
from audit_pipeline.retrieval.askers import askers_of
from audit_pipeline.retrieval.diagnosis import Diagnosis, Probes, diagnose
from audit_pipeline.retrieval.labelled_documents import labelled_documents
from audit_pipeline.retrieval.miss import Evidence, Fidelity, FidelityCheck
from audit_pipeline.retrieval.ranking import Identities, Ranking, nullable, rank_answers, rank_returned
from audit_pipeline.retrieval.rows_ahead import ReadPart, suspects_ahead
from audit_pipeline.retrieval.self_retrieval import search_in_blocks
from audit_pipeline.retrieval.tables import as_schema, booleans, retrieved_table

RUN = "labelled"
K = 10
_STRATA = ("source", "ingestion_date", "batch", "length_band")


class Labels(Protocol):
    """What is needed of ``corpus.labelled_queries.LabelledQueries``."""

    @property
    def queries(self) -> pa.Table: ...  # query_id, text

    @property
    def qrels(self) -> pa.Table: ...  # query_id, chunk_id, relevance; relevant where relevance > 0

    @property
    def invalid(self) -> dict[str, int]: ...


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
    relevant_rows = _padded(askers.relevant_rows)
    answer, answer_rows = _answers(exact, reach, query_vectors, relevant_rows)
    answer_ids = [ids[place] for ids, place in zip(relevant_ids, answer, strict=True)]
    limit = settings.index.search.limit
    hits = search_in_blocks(snapshot, query_vectors, limit, progress, reach)
    ranking = rank_answers(exact, identities, query_vectors, answer_rows, reach=reach, progress=progress)
    relevant_codes = identities.codes_of(relevant_rows)
    first_returned = _first_returned(hits.rows, identities, relevant_codes)
    figures = _figures(hits.rows, ranking, identities, relevant_codes, np.array([len(ids) for ids in relevant_ids]))
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
    other_row, other_score = _best_irrelevant(ranking, identities, relevant_codes)
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
        "rank_min": nullable(ranking.rank_min, pa.int32()),
        "rank_max": nullable(ranking.rank_max, pa.int32()),
        "score": nullable(ranking.score, pa.float64()),
        "best_other_score": nullable(other_score, pa.float64()),
        "best_other_id": identities.ids_of(other_row),
        "haystack": pa.array(ranking.haystacks),
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
    return StageResult(tables, summary, label_findings(labels, table.num_rows))


def labelled_hits(
    snapshot: TableSnapshot, labels: Labels, queries: dict[str, np.ndarray], progress: Progress = no_progress
) -> dict[str, np.ndarray]:
    """Whether each query has a relevant chunk among ten by exact score, (q,) bool, under each encoding of the queries.

    ``queries`` holds (q, d) vectors by name, aligned with ``labels.queries``.
    """
    identities = Identities(snapshot)
    exact = ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric)
    askers = askers_of(snapshot, relevant_chunks(labels))
    relevant = _padded(askers.relevant_rows)
    hits = {}
    for name, vectors in queries.items():
        _, rows = _answers(exact, askers.reach, vectors, relevant)
        ranking = rank_answers(exact, identities, vectors, rows, reach=askers.reach, progress=progress)
        hits[name] = (ranking.rank_min >= 1) & (ranking.rank_min <= K)
    return hits


def _answers(
    exact: ExactSearch, reach: Reach, queries: np.ndarray, relevant: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Place among its relevant rows, and row, of each query's closest relevant chunk that it can reach."""
    reachable = np.array([reach.holds(query, rows) for query, rows in enumerate(relevant)], bool)
    scores = exact.scores(queries, relevant)
    answer = _closest(np.where(reachable.reshape(scores.shape), scores, np.nan), relevant)
    rows = np.take_along_axis(relevant, answer[:, None], 1)[:, 0] if len(answer) else np.zeros(0, np.int64)
    return answer, rows


def relevant_chunks(labels: Labels) -> list[list[str]]:
    """Relevant chunk ids of each query, sorted, in the order of the queries."""
    by_query: dict[str, set[str]] = {query: set() for query in labels.queries["query_id"].to_pylist()}
    judged = labels.qrels.filter(pc.greater(labels.qrels["relevance"], 0))
    for query, chunk in zip(judged["query_id"].to_pylist(), judged["chunk_id"].to_pylist(), strict=True):
        if query in by_query:
            by_query[query].add(chunk)
    empty = next((query for query, chunks in by_query.items() if not chunks), None)
    if empty is not None:
        raise ValueError(f"query {empty!r} has no relevant judgement")
    return [sorted(chunks) for chunks in by_query.values()]


def _padded(rows: list[np.ndarray]) -> np.ndarray:
    """Row ordinals of each query's relevant chunks as one matrix, -1 for missing rows and padding."""
    width = max((len(own) for own in rows), default=1)
    matrix = np.full((len(rows), width), -1, np.int64)
    for position, own in enumerate(rows):
        matrix[position, : len(own)] = own
    return matrix


def _closest(scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Place of each query's closest relevant row; where none can be scored, of the first the table has, else 0."""
    comparable = np.where(np.isnan(scores), np.where(rows >= 0, -1e300, -np.inf), scores)
    return comparable.argmax(axis=1) if len(rows) else np.zeros(0, np.int64)


def _first_returned(hits: np.ndarray, identities: Identities, relevant_codes: np.ndarray) -> np.ndarray:
    """Rank of the first relevant chunk returned, (q,), -1 where none was."""
    ranks = np.full(len(hits), -1)
    for place in range(relevant_codes.shape[1]):
        own = rank_returned(hits, identities, relevant_codes[:, place])
        ranks = np.where((own > 0) & ((ranks < 0) | (own < ranks)), own, ranks)
    return ranks


def _figures(
    hits: np.ndarray, ranking: Ranking, identities: Identities, relevant_codes: np.ndarray, relevant: np.ndarray
) -> dict[str, np.ndarray]:
    """Success and recall at ten per query, as returned and exactly."""
    returned = np.zeros(len(hits))
    found = np.zeros(len(hits))
    top_codes = identities.codes_of(ranking.top_rows)
    for query in range(len(hits)):
        wanted = relevant_codes[query][relevant_codes[query] >= 0]
        returned[query] = len(np.intersect1d(identities.codes_of(hits[query, :K]), wanted))
        distinct, first = np.unique(top_codes[query], return_index=True)
        scores = np.sort(ranking.top_scores[query][first[distinct >= 0]])[::-1]
        if len(scores):
            reached = ranking.top_scores[query] >= scores[min(K, len(scores)) - 1] - TIE_TOLERANCE
            found[query] = min(len(np.intersect1d(top_codes[query][reached], wanted)), K)
    return {
        "success_10": returned > 0,
        "recall_10": returned / relevant,
        "exact_success_10": (ranking.rank_min >= 1) & (ranking.rank_min <= K),
        "exact_recall_10": found / relevant,
    }


def _best_irrelevant(
    ranking: Ranking, identities: Identities, relevant_codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Row and score of the best row that is no answer, -1 and NaN where all of the best rows are answers."""
    rows = np.full(len(relevant_codes), -1, np.int64)
    scores = np.full(len(relevant_codes), np.nan)
    codes = identities.codes_of(ranking.top_rows)
    for query in range(len(relevant_codes)):
        others = np.flatnonzero((codes[query] >= 0) & ~np.isin(codes[query], relevant_codes[query]))
        if len(others):
            rows[query], scores[query] = ranking.top_rows[query, others[0]], ranking.top_scores[query, others[0]]
    return rows, scores


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
