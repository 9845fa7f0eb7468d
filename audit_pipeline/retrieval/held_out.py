"""Held-out retrieval: one sentence asks for its chunk without it, exactly scored. Sentences are chosen in corpus/."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.sentences import stands_in
from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.index.lengths import at_stored_length
from audit_pipeline.index.reach import reach_of
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.proportions import NOT_MEASURED, stratified, wilson
from audit_pipeline.results import Progress, StageResult, no_progress
from audit_pipeline.retrieval.diagnosis import Diagnosis, Probes, diagnose
from audit_pipeline.retrieval.miss import Evidence, Fidelity, FidelityCheck
from audit_pipeline.retrieval.ranking import Identities, Ranking, best_others, rank_answers
from audit_pipeline.retrieval.rows_ahead import ReadPart, suspects_ahead
from audit_pipeline.retrieval.tables import (
    PROBE_COLUMNS,
    as_schema,
    booleans,
    qrels_table,
    rank_columns,
    retrieved_with_scores,
)

RUN = "held_out"
K = 10
_NAMED_BY = ("doc_id", "held_sha256", "held_words", "held_rolling")
"""What another audit finds the held sentence by."""

LEAST_KEPT = 0.1
"""Share of the held sentences that must stand in no other row: the few of documents' last chunks are no ceiling."""


def run_held_out(
    snapshot: TableSnapshot,
    plan: pa.Table,
    held: pa.Table,
    sentence_vectors: np.ndarray,
    body_vectors: np.ndarray,
    settings: IndexAuditSettings,
    progress: Progress = no_progress,
    *,
    fidelity: FidelityCheck | None = None,
    suspected: np.ndarray | None = None,
    read_part: ReadPart | None = None,
    uncut: FidelityCheck | None = None,
) -> StageResult:
    """Scores each held-out sentence against the whole index, the sampled chunks' rows replaced by their bodies.

    Where the application's filter is filled from the chunk's own row (tenants), the whole index is to it what that
    filter lets through, and its own row: another tenant's copy of a text competes with nobody.

    ``held`` is the output of ``corpus.sentences.hold_out`` for the planned chunks, in any order; ``sentence_vectors``
    (query role) and ``body_vectors`` (passage role) are (e, d), aligned with its eligible rows in its order. A chunk
    that the table lacks has no body to put in its place and is ineligible (missing_row). Probes whose sentence also
    stands in a row among the best k are counted apart and kept out of the figures. A tie counts as a hit: the figure is
    a ceiling. Under dot and l2 a body is as long as the row it stands for (``scaled_bodies`` had to be made so).
    ``fidelity``, ``suspected`` and ``read_part`` as in self-retrieval, for rows ahead; ``uncut`` gives the
    whole encodings of missed bodies that are cut as the writer of the vectors cuts. Returns the tables
    held_out_retrieval, retrieved, qrels and the section held_out of audit.json without its strata, with ``causes`` and
    ``misses`` beside it. Raises ValueError where the lengths do not agree.
    """
    eligible_held = held.filter(held["eligible"])
    if not len(sentence_vectors) == len(body_vectors) == eligible_held.num_rows:
        raise ValueError(
            f"{len(sentence_vectors)} sentences, {len(body_vectors)} bodies, {eligible_held.num_rows} eligible chunks"
        )
    rows = snapshot.row_of(eligible_held["chunk_id"])
    present = np.flatnonzero(rows >= 0)
    rows, queries, bodies = rows[present], sentence_vectors[present], body_vectors[present]
    bodies, scaled = at_stored_length(snapshot, rows, bodies)
    probes_held = eligible_held.take(pa.array(present))
    identities = Identities(snapshot)
    exact = ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric)
    override = (rows, bodies)
    drop = _other_rows_of(rows, identities)
    reach = None if snapshot.row_filter is None else reach_of(snapshot, rows).including(rows)
    ranking = rank_answers(
        exact, identities, queries, rows, override=override, drop=drop, reach=reach, progress=progress
    )
    ids = probes_held["chunk_id"].to_pylist()
    body_of_row = dict(zip(rows.tolist(), probes_held["body"].to_pylist(), strict=True))
    overlaps = _overlaps(probes_held["held"].to_pylist(), ranking, snapshot, identities, body_of_row)
    hit = {k: (ranking.rank_min >= 1) & (ranking.rank_min <= k) for k in (1, K)}
    missed = np.flatnonzero(~hit[K])
    # A row that a body replaces carries the right arm in this run, whatever the table holds.
    ahead = None if suspected is None else suspected & ~np.isin(np.arange(len(suspected)), rows)
    to_judge = suspects_ahead(ranking, missed, ahead, identities)
    judged = fidelity(to_judge) if fidelity is not None and to_judge else Fidelity()
    if uncut is not None and len(missed):
        own = uncut([ids[position] for position in missed])
        of_rows = snapshot.row_of(pa.array(own.fresh, pa.string()))
        whole, _ = at_stored_length(snapshot, of_rows, np.array(list(own.fresh.values())))
        judged = Fidelity({**judged.states, **own.states}, {**judged.fresh, **dict(zip(own.fresh, whole, strict=True))})
    diagnosis = diagnose(
        Probes(
            run=RUN,
            k=K,
            probe_ids=[f"heldout:{chunk_id}" for chunk_id in ids],
            chunk_ids=ids,
            query_texts=probes_held["held"].to_pylist(),
            queries=queries,
            ranking=ranking,
            rank_returned=np.full(len(ids), -1),
            returned=np.zeros((len(ids), 0), np.int64),
            overlaps=overlaps,
            not_relevant=lambda probe, other: other != rows[probe],
            reach=reach,
        ),
        missed,
        Evidence(snapshot, exact, identities, settings, fidelity=judged, read_part=read_part, bodies=body_of_row),
        override=override,
        drop=drop,
        progress=progress,
    )
    table = _table(plan, held, ids, ranking, identities, overlaps, hit, diagnosis, settings)
    kept = np.array([overlap is None for overlap in overlaps], bool)
    probe_ids = pa.array([f"heldout:{chunk_id}" for chunk_id in ids], pa.string())
    tables = {
        "held_out_retrieval": table,
        "retrieved": _retrieved(probe_ids, ranking, identities).filter(_of(probe_ids, kept, "query_id")),
        "qrels": qrels_table(RUN, probe_ids.filter(pa.array(kept)), pa.array(ids, pa.string()).filter(pa.array(kept))),
    }
    return StageResult(tables, _summary(table, ranking.haystack, diagnosis) | {"scaled_bodies": scaled})


def held_out_hits(
    snapshot: TableSnapshot,
    chunk_ids: pa.Array | pa.ChunkedArray,
    queries: dict[str, np.ndarray],
    body_vectors: np.ndarray,
    progress: Progress = no_progress,
) -> dict[str, np.ndarray]:
    """Whether each held sentence finds its chunk's body among k, (m,) bool, under each encoding of the sentences.

    ``queries`` holds (e, d) vectors by name, ``body_vectors`` (e, d), all aligned with ``chunk_ids``; chunks that the
    table lacks are left out, the same of each.
    """
    rows = snapshot.row_of(chunk_ids)
    present = np.flatnonzero(rows >= 0)
    rows = rows[present]
    bodies, _ = at_stored_length(snapshot, rows, body_vectors[present])
    identities = Identities(snapshot)
    exact = ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric)
    drop = _other_rows_of(rows, identities)
    hits = {}
    for name, vectors in queries.items():
        ranking = rank_answers(
            exact, identities, vectors[present], rows, override=(rows, bodies), drop=drop, progress=progress
        )
        hits[name] = (ranking.rank_min >= 1) & (ranking.rank_min <= K)
    return hits


def _other_rows_of(rows: np.ndarray, identities: Identities) -> np.ndarray:
    """Further rows of the replaced ids: they hold the whole text and would compete with its body."""
    codes = identities.codes_of(rows)
    further = [np.setdiff1d(identities.rows_of_code(codes[p]), rows[p : p + 1]) for p in identities.repeated(codes)]
    return np.concatenate(further) if further else np.zeros(0, np.int64)


def _overlaps(
    sentences: list[str],
    ranking: Ranking,
    snapshot: TableSnapshot,
    identities: Identities,
    body_of_row: dict[int, str],
) -> list[str | None]:
    """Id of the closest row, ahead of or level with rank k, that also holds the sentence; None where no row does."""
    found: list[str | None] = []
    for position, sentence in enumerate(sentences):
        rows, scores = ranking.top_rows[position], ranking.top_scores[position]
        near = rows[
            (rows >= 0) & (scores >= scores[min(K, len(scores)) - 1] - TIE_TOLERANCE) & (rows != ranking.row[position])
        ]
        texts = ((row, body_of_row.get(int(row)) or snapshot.rows["text"][int(row)].as_py() or "") for row in near)
        holder = next((row for row, text in texts if stands_in(sentence, text)), None)
        found.append(None if holder is None else identities.id_of(int(holder)))
    return found


def _table(
    plan: pa.Table,
    held: pa.Table,
    ids: list[str],
    ranking: Ranking,
    identities: Identities,
    overlaps: list[str | None],
    hit: dict[int, np.ndarray],
    diagnosis: Diagnosis,
    settings: IndexAuditSettings,
) -> pa.Table:
    """One row a planned chunk; what was measured is put in its place, the rest stays null."""
    chunk_ids = plan["chunk_id"].combine_chunks()
    place = pc.index_in(chunk_ids, value_set=pa.array(ids, pa.string()))
    looked_at = held.take(pc.index_in(chunk_ids, value_set=held["chunk_id"].combine_chunks()))
    measured = place.is_valid()
    reason = pc.if_else(
        measured, pa.scalar(None, pa.string()), pc.coalesce(looked_at["reason"], pa.scalar("missing_row"))
    )
    reason = pc.if_else(pc.is_null(looked_at["chunk_id"]), pa.scalar("not_looked_at"), reason)
    ranks = rank_columns(ranking, best_others(ranking, identities), identities)
    columns: dict[str, Any] = {
        "probe_id": pc.binary_join_element_wise("heldout", chunk_ids, ":"),
        "chunk_id": chunk_ids,
        **{name: plan[name] for name in PROBE_COLUMNS},
        "eligible": measured,
        "ineligible_reason": reason,
        "held": pc.if_else(
            measured,
            pa.scalar(settings.sample.held_out if settings.sample.like is None else "like"),
            pa.scalar(None, pa.string()),
        ),
        **{name: looked_at[name] for name in _NAMED_BY},
        "sentences": looked_at["sentences"],
        "overlap": pa.array([overlap is not None for overlap in overlaps], pa.bool_()).take(place),
        **{name: column.take(place) for name, column in ranks.items()},
        "hit_1": pa.array(hit[1], pa.bool_()).take(place),
        "hit_10": pa.array(hit[K], pa.bool_()).take(place),
        "cause": diagnosis.cause.take(place),
        "evidence": diagnosis.evidence.take(place),
    }
    return as_schema(columns, schemas.HELD_OUT_RETRIEVAL).sort_by("probe_id")


def _retrieved(query_ids: pa.Array, ranking: Ranking, identities: Identities) -> pa.Table:
    """The best k rows, the answer in front of what is level with it, as its rank says."""
    rows, scores = ranking.top_rows[:, :K].copy(), ranking.top_scores[:, :K].copy()
    for position in np.flatnonzero((ranking.rank_min >= 1) & (ranking.rank_min <= min(K, rows.shape[1]))):
        place = int(ranking.rank_min[position]) - 1
        others = ranking.top_rows[position] != ranking.row[position]
        for array, source, own in (
            (rows, ranking.top_rows, ranking.row),
            (scores, ranking.top_scores, ranking.score),
        ):
            array[position] = np.insert(source[position][others], place, own[position])[: array.shape[1]]
    return retrieved_with_scores(RUN, query_ids, rows, scores, identities)


def _of(probe_ids: pa.Array, kept: np.ndarray, column: str) -> pc.Expression:
    return pc.field(column).isin(probe_ids.filter(pa.array(kept)))


def _summary(table: pa.Table, haystack: int, diagnosis: Diagnosis) -> dict[str, Any]:
    eligible = booleans(table["eligible"])
    overlap = table["overlap"].fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    kept = eligible & ~overlap
    strata = table["stratum"].to_numpy(zero_copy_only=False)
    chunks = table["stratum_chunks"].to_numpy()
    _, index = np.unique(strata, return_inverse=True)
    planned = np.bincount(index)
    # The figures speak of the chunks that can be held out, whose number per stratum is itself estimated.
    domain = (chunks * np.bincount(index, weights=kept)[index]) / planned[index]
    summary: dict[str, Any] = {
        "n": int(kept.sum()),
        "haystack": haystack,
        "eligible": int(eligible.sum()),
        "eligible_share": stratified(eligible, strata, chunks).as_dict(),
        "ineligible": dict(
            sorted(Counter(table.filter(pc.invert(table["eligible"]))["ineligible_reason"].to_pylist()).items())
        ),
        "overlap": int(overlap.sum()),
    }
    measured = kept.sum() >= LEAST_KEPT * eligible.sum()
    for k in (1, K):
        hits = table[f"hit_{k}"].fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
        figure = stratified(hits[kept], strata[kept], domain[kept]) if measured else NOT_MEASURED
        summary[f"heldout@{k}"] = figure.as_dict()
        summary[f"overlapping_heldout@{k}"] = wilson(int(hits[overlap].sum()), int(overlap.sum())).as_dict()
    return summary | {"causes": diagnosis.counts, "misses": diagnosis.misses}
