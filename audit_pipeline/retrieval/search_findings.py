"""What the application's search does to rows on its own: short answers, and the cut-off. No limit is judged."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.index.exact import TIE_TOLERANCE
from audit_pipeline.index.reach import Reach
from audit_pipeline.index.snapshot import SearchHits, TableSnapshot
from audit_pipeline.proportions import wilson
from audit_pipeline.retrieval.ranking import Identities, Ranking

_PERCENTILES = (5, 50, 95)


def expected_results(
    snapshot: TableSnapshot,
    identities: Identities,
    reach: Reach,
    ranking: Ranking,
    hits: SearchHits,
    settings: IndexAuditSettings,
) -> np.ndarray:
    """(m,) int64: distinct ids that each search could have answered with.

    Those that its filter lets through and its metric can score, at most the limit. Under a score cut-off, those of
    them that lie within it by exact score; where the search found enough and the cut-off took them away, no more than
    were returned: that is ``below_cutoff`` and not a short answer. More ids than ``ranking`` keeps are not asked for.
    """
    furthest = settings.index.search.furthest(snapshot.metric)
    available = available_ids(snapshot, identities, reach)
    expected = np.minimum(reach.of_each(available), settings.index.search.limit)
    if furthest is None:
        return expected
    found = hits.returned if hits.beyond_cutoff is None else hits.returned + hits.beyond_cutoff
    near = distance_of(ranking.top_scores, snapshot.metric) <= furthest - TIE_TOLERANCE
    codes = np.where(near, identities.codes_of(ranking.top_rows), -1)
    within = np.array([len(np.unique(own[own >= 0])) for own in codes], np.int64)
    return np.where(found >= expected, np.minimum(expected, hits.returned), np.minimum(expected, within))


def available_ids(snapshot: TableSnapshot, identities: Identities, reach: Reach) -> list[int]:
    """Distinct ids that a search can answer with, of each haystack of the reach."""
    counts = []
    for rows in reach.rows:
        within = np.flatnonzero(snapshot.searchable) if rows is None else rows[snapshot.searchable[rows]]
        counts.append(len(np.unique(identities.codes[within])))
    return counts


def distance_of(scores: np.ndarray, metric: str) -> np.ndarray:
    """The distance LanceDB gives rows of these exact scores: 1 - cosine, 1 - dot product, or squared l2."""
    return -scores if metric == "l2" else 1 - scores


def score_of(distances: np.ndarray, metric: str) -> np.ndarray:
    """The scores that ``index.search.min_score`` is compared with, of distances as LanceDB gives them."""
    return 1 - distances / (2 if metric == "l2" else 1)


def search_findings(table: pa.Table, settings: IndexAuditSettings) -> list[Finding]:
    """Findings short_results and below_cutoff of a self-retrieval ``table``."""
    return _short_results(table) + _below_cutoff(table, settings, "probes that the search found by their own text")


def labelled_cutoff_findings(table: pa.Table, settings: IndexAuditSettings) -> list[Finding]:
    """Finding below_cutoff of a labelled ``table``, where surely more than ``limits.labelled_gap`` of the queries lose
    their answer by it: a cut-off is meant to drop some for the sake of the others.
    """
    dropped = pc.sum(pc.equal(table["cause"], "below_cutoff")).as_py() or 0
    low = wilson(dropped, table.num_rows).low
    if low is None or low <= settings.limits.labelled_gap:
        return []
    table = table.rename_columns(["chunk_id" if name == "answer_id" else name for name in table.column_names])
    return _below_cutoff(table, settings, "labelled queries of which the search found a relevant chunk")


def _short_results(table: pa.Table) -> list[Finding]:
    n = table.num_rows
    short = table.filter(pc.less(table["returned"], table["expected"]))
    if not short.num_rows:
        return []
    lost = pc.sum(pc.subtract(short["expected"], short["returned"])).as_py()
    return [
        Finding(
            "short_results",
            "warning",
            f"{short.num_rows:,} of {n:,} searches answered with fewer chunks than were asked for and could be had "
            f"({lost / short.num_rows:.1f} fewer on average).",
            "Filter before the search (prefilter: true), raise nprobes, or ask for more rows and cut afterwards.",
            n_compared=n,
            share=short.num_rows / n,
            evidence={
                "searches": n,
                "short": short.num_rows,
                "expected": pc.sum(short["expected"]).as_py(),
                "returned": pc.sum(short["returned"]).as_py(),
            },
            examples=short["chunk_id"].to_pylist(),
        )
    ]


def _below_cutoff(table: pa.Table, settings: IndexAuditSettings, what: str) -> list[Finding]:
    n = table.num_rows
    below = table.filter(pc.equal(table["cause"], "below_cutoff"))
    if not below.num_rows:
        return []
    cutoff, metric = settings.index.search.cutoff, settings.index.metric
    exact = distance_of(below["score"].drop_null().to_numpy(), metric)
    evidence: dict[str, object] = {**cutoff, "score": _spread(score_of(exact, metric))}
    found = [json.loads(notes).get("distance") for notes in below["evidence"].to_pylist()]
    distances = np.array([distance for distance in found if distance is not None])
    by_score = "max_distance" not in cutoff
    seen = ""
    if len(distances):
        evidence["distance"] = _spread(distances)
        told = score_of(distances, metric) if by_score else distances
        low, middle, high = np.percentile(told, _PERCENTILES)
        name = "score" if by_score else "_distance"
        seen = f" Their {name} is {middle:.3g} at the median ({low:.3g} to {high:.3g} for nine in ten)."
    words = " and ".join(f"{name} = {value}" for name, value in cutoff.items())
    lets = "Let a lower score pass" if by_score else "Let a larger _distance pass"
    known = "scores" if by_score else "distances"
    return [
        Finding(
            "below_cutoff",
            "warning",
            f"The cut-off {words} drops {below.num_rows:,} of {n:,} {what}.{seen}",
            f"{lets}, or set the cut-off from the {known} of queries whose answers are known.",
            n_compared=n,
            share=below.num_rows / n,
            evidence=evidence,
            examples=below["chunk_id"].to_pylist(),
        )
    ]


def _spread(values: np.ndarray) -> dict[str, float]:
    return {f"p{q}": float(np.percentile(values, q)) for q in _PERCENTILES} if len(values) else {}
