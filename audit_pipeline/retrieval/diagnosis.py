"""From ranks to causes: gathers what lies ahead of each missed answer and names its cause. No test of a cause here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.index.reach import Reach, ranks_within
from audit_pipeline.results import Progress, no_progress
from audit_pipeline.retrieval.causes import CAUSE_ORDER, Cause, cause_of
from audit_pipeline.retrieval.lexical import LexicalSearch
from audit_pipeline.retrieval.miss import Evidence, Miss
from audit_pipeline.retrieval.ranking import NONE, TOP, Ranking

MAX_MISSES = 200
_AHEAD_CAP = 2000  # rows looked at ahead of one answer; a larger group of twins is reported as undetermined
_SEARCHES_AT_ONCE = 128  # of the searches that list all rows ahead
LEXICAL_CAP = 200  # encoder misses whose answer is also sought by words; more would not change what to do


@dataclass(frozen=True)
class Probes:
    """The probes of one run beside their ranking, all (m,): what a diagnosis starts from."""

    run: str
    k: int
    probe_ids: list[str]
    chunk_ids: list[str]
    query_texts: list[str | None]
    queries: np.ndarray
    ranking: Ranking
    rank_returned: np.ndarray  # -1: not returned; all -1 where the run is exact only
    returned: np.ndarray  # (m, limit) rows, (m, 0) where the run is exact only
    overlaps: list[str | None]
    not_relevant: Callable[[int, np.ndarray], np.ndarray]
    """Mask of rows, given a probe and rows: those that are no answer to it, and so can be ahead of the answer."""
    reach: Reach | None = None  # the rows each query was ranked among; None: all


@dataclass(frozen=True)
class Diagnosis:
    """Cause (m,) string and evidence (m,) JSON, null for hits; counts by cause; misses as audit.json lists them."""

    cause: pa.Array
    evidence: pa.Array
    counts: dict[str, int]
    misses: list[dict[str, Any]]


def diagnose(
    probes: Probes,
    missed: np.ndarray,
    evidence: Evidence,
    *,
    override: tuple[np.ndarray, np.ndarray] | None = None,
    drop: np.ndarray | None = None,
    progress: Progress = no_progress,
) -> Diagnosis:
    """The cause of each probe in ``missed`` (positions). ``override`` and ``drop`` as the ranking was made with."""
    missed = np.asarray(missed, np.int64)
    evidence = replace(evidence, cosine_ranks=_cosine_ranks(probes, missed, evidence))
    misses = _look_further([_miss(probes, position) for position in missed], probes, evidence, override, drop)
    causes = []
    for done, miss in enumerate(misses):
        causes.append(cause_of(miss, evidence))
        progress(f"causes of {probes.run} misses", done + 1, len(misses))
    causes = _with_lexical_ranks(probes, misses, causes, evidence, drop)
    return _assemble(probes, misses, causes)


def merge_misses(*runs: Sequence[dict[str, Any]], limit: int = MAX_MISSES) -> list[dict[str, Any]]:
    """At most ``limit`` misses of several runs, by run and cause; every cause of every run keeps its share."""
    entries = [miss for run in runs for miss in run]
    seen: Counter[tuple[str, str]] = Counter()
    numbered = []
    for position, miss in enumerate(entries):
        key = (miss["run"], miss["cause"])
        numbered.append((seen[key], position))
        seen[key] += 1
    kept = sorted(position for _, position in sorted(numbered)[:limit])
    return [entries[position] for position in kept]


def _miss(probes: Probes, position: int) -> Miss:
    ranking = probes.ranking
    rows, scores = ranking.top_rows[position], ranking.top_scores[position]
    score = float(ranking.score[position])
    rank_max = int(ranking.rank_max[position])
    ahead = _ahead(probes, position, rows, scores, score)
    return Miss(
        run=probes.run,
        position=int(position),
        probe_id=probes.probe_ids[position],
        chunk_id=probes.chunk_ids[position],
        k=probes.k,
        row=int(ranking.row[position]),
        query=probes.queries[position],
        rank_returned=_rank(probes.rank_returned[position]),
        rank_min=_rank(ranking.rank_min[position]),
        rank_max=_rank(rank_max),
        score=score,
        returned=probes.returned[position],
        ahead=rows[ahead],
        ahead_scores=scores[ahead],
        # A row that is left out of the list is no closer than its last one.
        ahead_complete=rank_max == NONE or rows[-1] < 0 or bool(scores[-1] < score - TIE_TOLERANCE),
        overlap=probes.overlaps[position],
        filter=None if probes.reach is None else probes.reach.filter_of(position),
    )


def _ahead(probes: Probes, position: int, rows: np.ndarray, scores: np.ndarray, score: float) -> np.ndarray:
    """Mask over the best rows: those that are closer than the answer or level with it, and no answer themselves."""
    ahead = rows >= 0
    if not np.isnan(score):
        ahead &= scores >= score - TIE_TOLERANCE
    ahead[ahead] = probes.not_relevant(position, rows[ahead])
    return ahead


def _only_twins(miss: Miss, evidence: Evidence) -> bool:
    """Whether too few rows that are no twins lie among the rows looked at, so that the rest of them matters."""
    others = sum(evidence.twin(miss.row, int(row)) is None for row in miss.ahead)
    return miss.row >= 0 and others < miss.k


def _look_further(
    misses: list[Miss],
    probes: Probes,
    evidence: Evidence,
    override: tuple[np.ndarray, np.ndarray] | None,
    drop: np.ndarray | None,
) -> list[Miss]:
    """The misses, those whose rows ahead were all twins so far with as many more of them as can be looked at."""
    n = evidence.snapshot.rows.num_rows
    short = [place for place, miss in enumerate(misses) if not miss.ahead_complete and _only_twins(miss, evidence)]

    def wanted(place: int) -> int:
        # Further rows of the answer's id are not counted in its rank; there are few, and the list may fall short.
        return min((misses[place].rank_max or 0) + TOP, _AHEAD_CAP, n)

    misses = list(misses)
    short.sort(key=wanted)
    for start in range(0, len(short), _SEARCHES_AT_ONCE):
        batch = short[start : start + _SEARCHES_AT_ONCE]
        k = wanted(batch[-1])
        queries = np.stack([misses[place].query for place in batch])
        reach = _reach_of(probes, np.array([misses[place].position for place in batch]))
        ranks = ranks_within(evidence.exact, reach, queries, None, k, override=override, drop=drop)
        for place, rows, scores in zip(batch, ranks.top_rows, ranks.top_scores, strict=True):
            miss = misses[place]
            ahead = _ahead(probes, miss.position, rows, scores, miss.score)
            complete = k == n or rows[-1] < 0 or bool(scores[-1] < miss.score - TIE_TOLERANCE)
            misses[place] = replace(miss, ahead=rows[ahead], ahead_scores=scores[ahead], ahead_complete=complete)
    return misses


def _cosine_ranks(probes: Probes, missed: np.ndarray, evidence: Evidence) -> dict[int, int]:
    if evidence.exact.metric == "cosine" or len(missed) == 0:
        return {}
    cosine = ExactSearch(evidence.exact.vectors, evidence.exact.searchable & _has_direction(evidence), "cosine")
    ranks = ranks_within(cosine, _reach_of(probes, missed), probes.queries[missed], probes.ranking.row[missed], 1)
    return dict(zip(missed.tolist(), ranks.rank_min.tolist(), strict=True))


def _reach_of(probes: Probes, positions: np.ndarray) -> Reach | None:
    return None if probes.reach is None else probes.reach.take(positions)


def _has_direction(evidence: Evidence) -> np.ndarray:
    from audit_pipeline.index.snapshot import USABLE

    return evidence.snapshot.vector_state == USABLE


def _with_lexical_ranks(
    probes: Probes, misses: list[Miss], causes: list[Cause], evidence: Evidence, drop: np.ndarray | None
) -> list[Cause]:
    """The causes, with the rank of the answer in a word search added to those that are the encoder's.

    It is the rank among the rows and texts that the vectors were ranked among: a held sentence asks for its body. Of
    several right answers the best counts.
    """
    of_encoder = [place for place, cause in enumerate(causes) if cause.name == "encoder"][:LEXICAL_CAP]
    sought = [(place, text) for place in of_encoder if (text := probes.query_texts[misses[place].position])]
    if not sought:
        return causes
    nowhere = {} if drop is None else dict.fromkeys(drop.tolist(), "")
    instead = {**nowhere, **evidence.bodies}
    search = LexicalSearch(evidence.snapshot.rows["text"], [text for _, text in sought], instead)
    every = np.arange(evidence.snapshot.rows.num_rows)
    ranks = {}
    for query, (place, _) in enumerate(sought):
        position = misses[place].position
        others = probes.not_relevant(position, every)
        answers = np.flatnonzero(~others)
        if probes.reach is not None:
            others &= probes.reach.holds(position, every)
            answers = answers[probes.reach.holds(position, answers)]
        ranks[position] = search.rank(query, answers, others)
    evidence = replace(evidence, lexical_ranks=ranks)
    causes = list(causes)
    for place, _ in sought:
        causes[place] = cause_of(misses[place], evidence)
    return causes


def _assemble(probes: Probes, misses: list[Miss], causes: list[Cause]) -> Diagnosis:
    names: list[str | None] = [None] * len(probes.probe_ids)
    notes: list[str | None] = [None] * len(probes.probe_ids)
    listed = []
    for miss, cause in zip(misses, causes, strict=True):
        names[miss.position] = cause.name
        notes[miss.position] = json.dumps(cause.evidence, ensure_ascii=False, sort_keys=True)
        listed.append(
            {
                "probe_id": miss.probe_id,
                "chunk_id": miss.chunk_id,
                "run": miss.run,
                "rank_returned": miss.rank_returned,
                "rank_min": miss.rank_min,
                "rank_max": miss.rank_max,
                "cause": cause.name,
                "evidence": cause.evidence,
            }
        )
    counted = Counter(cause.name for cause in causes)
    listed.sort(key=lambda entry: (CAUSE_ORDER.index(entry["cause"]), entry["probe_id"]))
    return Diagnosis(
        pa.array(names, pa.string()),
        pa.array(notes, pa.string()),
        {name: counted[name] for name in CAUSE_ORDER if counted[name]},
        merge_misses(listed),
    )


def _rank(value: int | np.integer) -> int | None:
    return None if value < 0 else int(value)
