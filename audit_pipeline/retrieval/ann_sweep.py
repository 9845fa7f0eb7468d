"""ANN settings sweep: recall and time of the same queries under a grid of settings. The choice is in ann_choice.py."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.index.ann_settings import AnnSearch, AnnSettings, as_yaml, grid_of, present_settings
from audit_pipeline.index.reach import Reach
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.index.vector_index import VectorIndex
from audit_pipeline.proportions import Proportion
from audit_pipeline.results import Progress, StageResult, no_progress
from audit_pipeline.retrieval.ann_choice import LEAST_QUERIES, Choice, Measured, choose
from audit_pipeline.retrieval.ann_recall import ExactTen, K
from audit_pipeline.retrieval.ranking import Identities
from audit_pipeline.retrieval.verdict_text import mean_shown

_SECONDS = 20.0  # longest sweep; a slow table is measured with fewer queries, at least those that a choice needs
_GENERIC_REMEDY = "Raise nprobes, ef or refine_factor, or build the index with less compression."


def run_ann_sweep(
    snapshot: TableSnapshot,
    query_vectors: np.ndarray,
    reach: Reach,
    recalled: Mapping[str, Any],
    settings: IndexAuditSettings,
    progress: Progress = no_progress,
) -> StageResult:
    """Every query under every setting of a small grid around the declared one, one search at a time.

    ``query_vectors`` (q, d) are some of the queries of ann_recall with their ``reach``, ``recalled`` is its section of
    audit.json. The settings take turns within each query, in random order, after a round that warms the caches, so that
    drift and caching hit all of them alike; recall and time are paired by query. Filter, limit and all else are as
    declared. Times are of this machine: they are in the summary only, no table holds them. The summary is the section
    ann_sweep of audit.json; finding ann_recall_low names the settings that would do.
    """
    figure = Proportion(**recalled[f"ann_recall@{K}"])
    search, askable = snapshot.ann, _askable(query_vectors)
    if search is None or search.index is None or recalled["n"] == 0 or not len(askable):
        reason = recalled.get("reason")
        if reason is None:
            reason = "sample.ann_sweep is 0" if not settings.sample.ann_sweep else "no query can be asked"
        summary: dict[str, Any] = {"n": 0, "status": "not_measured", "reason": reason, "settings": []}
        return StageResult({}, summary, _low_recall(figure, snapshot, settings, _GENERIC_REMEDY, None))
    query_vectors, reach = query_vectors[askable], reach.take(askable)
    partitions, limit = search.partitions(), settings.index.search.limit
    present = present_settings(settings.index.search, search.index, partitions)
    grid = grid_of(present, search.index, partitions, limit)
    asked, rows, seconds = _ask_all(search, query_vectors, reach, grid, present, limit, progress)
    exact = ExactTen(snapshot, Identities(snapshot), query_vectors[asked], reach.take(asked), progress)
    measured = [Measured(one, exact.recall(rows[place]), seconds[place]) for place, one in enumerate(grid)]
    rebuilding = _rebuilding(search.index, snapshot.info.unindexed_rows, settings)
    summary = sweep_section(measured, grid.index(present), figure, settings, rebuilding)
    summary |= {"queries": len(query_vectors), "index_type": search.index.type, "partitions": partitions}
    remedy = summary["text"] if summary["status"] in ("raise", "unreached") else _GENERIC_REMEDY
    return StageResult({}, summary, _low_recall(figure, snapshot, settings, remedy, summary["yaml"]))


def sweep_section(
    measured: list[Measured], own: int, recall: Proportion, settings: IndexAuditSettings, rebuilding: str
) -> dict[str, Any]:
    """The measured settings, of which ``own`` are the declared ones, and what to do, as audit.json says it.

    ``recall`` is ann_recall@10 over all queries, ``rebuilding`` what would raise it where no setting does.
    """
    limit = settings.limits.ann_recall_at_10
    choice = choose(measured, own, recall, limit)
    yaml = None
    if choice.place is not None and choice.place != own:
        yaml = as_yaml(measured[choice.place].settings, settings.index.search, measured[own].settings)
    return {
        "n": len(measured[own].recall),
        "limit": limit,
        "status": choice.status,
        "sure": choice.sure,
        "yaml": yaml,
        "text": sweep_text(choice, measured, own, yaml, recall, limit, rebuilding),
        "settings": [
            _shown(one, measured[own], limit)
            | {"present": place == own, "recommended": place == choice.place and place != own}
            for place, one in enumerate(measured)
        ],
    }


def sweep_text(
    choice: Choice,
    measured: list[Measured],
    own: int,
    yaml: str | None,
    recall: Proportion,
    limit: float,
    rebuilding: str,
) -> str:
    """What a person should do about the settings, in a sentence or two."""
    n, tried = len(measured[own].recall), len(measured)
    if choice.status == "too_few":
        return f"{n:,} queries are too few to choose settings by: it takes {LEAST_QUERIES}."
    if choice.status == "as_it_is":
        return (
            f"Nothing needs changing: the search returns {mean_shown(recall)} of the ten closest chunks, the limit is "
            f"{limit:.0%}, and none of the {tried} settings tried that certainly reaches it takes a fifth less time."
        )
    if choice.status == "unreached" or choice.place is None:
        best = max(measured, key=lambda one: float(one.recall.mean()))
        reached = f"{limit:.0%} (the best: {mean_shown(best.figure)})"
        return f"None of the {tried} settings tried reaches {reached}. {rebuilding}"
    chosen = measured[choice.place]
    middle, low, high = chosen.against(measured[own])
    reached = (
        f"{mean_shown(chosen.figure)}, in {middle:.2f} times the present time per query "
        f"({low:.2f} to {high:.2f} on this machine)"
    )
    if choice.status == "cheaper":
        return (
            f"The search reaches the limit of {limit:.0%} as it is; so does `{yaml}`: {reached}. Change it only where "
            "queries are too slow."
        )
    if choice.sure:
        return f"Search with `{yaml}`: of {tried} settings tried the cheapest that reaches {limit:.0%}: {reached}."
    return (
        f"Search with `{yaml}`: of {tried} settings tried the cheapest whose estimate reaches {limit:.0%}: {reached}. "
        "More queries (sample.ann_sweep) would make it certain."
    )


def _askable(queries: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.isfinite(queries).all(axis=1) & (queries != 0).any(axis=1))


def _ask_all(
    search: AnnSearch,
    queries: np.ndarray,
    reach: Reach,
    grid: list[AnnSettings],
    present: AnnSettings,
    limit: int,
    progress: Progress,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(queries asked (q,), rows (settings, q, limit), seconds (settings, q)): whole rounds until the time is up."""
    random = np.random.default_rng(0)
    order = random.permutation(len(queries))
    rows = np.full((len(grid), len(order), limit), -1, np.int64)
    seconds = np.zeros((len(grid), len(order)))
    # The declared search is asked as it stands, not by what its settings are taken to mean.
    asks = [None if settings == present else settings for settings in grid]

    def ask(place: int, query: int) -> tuple[np.ndarray, float]:
        return search.ask(queries[query], limit, asks[place], reach.filter_of(query))

    for place in reversed(range(len(grid))):  # the widest first: it loads what the others need
        ask(place, int(order[0]))
    started = time.perf_counter()
    for done, query in enumerate(order.tolist()):
        if done >= LEAST_QUERIES and time.perf_counter() - started > _SECONDS:
            return order[:done], rows[:, :done], seconds[:, :done]
        for place in random.permutation(len(grid)).tolist():
            rows[place, done], seconds[place, done] = ask(place, query)
        progress("ANN settings", done + 1, len(order))
    return order, rows, seconds


def _shown(one: Measured, present: Measured, limit: float) -> dict[str, Any]:
    figure, milliseconds = one.figure, 1000 * one.seconds
    middle, low, high = one.against(present)
    return {
        **one.settings.as_dict(),
        f"ann_recall@{K}": figure.as_dict(),
        "reaches": figure.low is not None and figure.low >= limit,
        "median_ms": float(np.median(milliseconds)),
        "p90_ms": float(np.percentile(milliseconds, 90)),
        "times_present": {"median": middle, "low": low, "high": high},
    }


def _rebuilding(index: VectorIndex, unindexed_rows: int, settings: IndexAuditSettings) -> str:
    """What would raise the recall where no setting of the search does."""
    search = settings.index.search
    if search.fast_search and unindexed_rows:
        return "fast_search skips the rows outside the index: optimize the table, or search without it."
    if settings.index.filter is not None and not search.prefilter:
        return "The filter comes after the search and leaves too few rows: filter before it (prefilter: true)."
    if index.is_graph:
        flat = "" if not index.is_quantised else ", or as IVF_HNSW_FLAT"
        return f"Build the index again with a larger m and ef_construction{flat}."
    if index.is_quantised:
        finer = "" if index.type.endswith("SQ") else "with more num_sub_vectors or num_bits, or as IVF_SQ, or "
        return f"Build the index again {finer}as IVF_FLAT."
    return "Build the index again with fewer partitions."


def _low_recall(
    figure: Proportion, snapshot: TableSnapshot, settings: IndexAuditSettings, remedy: str, yaml: str | None
) -> list[Finding]:
    limit = settings.limits.ann_recall_at_10
    if figure.value is None or figure.value >= limit:
        return []
    return [
        Finding(
            "ann_recall_low",
            "warning",
            f"The search returns {figure.value:.1%} of the ten closest chunks ({figure.low:.1%} to {figure.high:.1%}, "
            f"{figure.n:,} queries), under the {limit:.0%} asked for.",
            remedy,
            n_compared=figure.n,
            share=1 - figure.value,
            evidence={
                f"ann_recall@{K}": figure.as_dict(),
                "limit": limit,
                "index_type": snapshot.info.index_type,
                "settings": yaml,
            },
        )
    ]
