"""Checks of the measuring instrument: no figure may come from a broken exact search. Nothing is repaired here."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit_pipeline.errors import SelfCheckError
from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.index.snapshot import TableSnapshot

_SAMPLE = 4  # rows whose ranks are counted again by other arithmetic
_ROWS_PER_BLOCK = 16_384


def retrieval_self_checks(snapshot: TableSnapshot, exact: ExactSearch | None = None) -> list[dict[str, Any]]:
    """Entries {name, passed, detail} of audit.json's self_checks. Raises SelfCheckError where one fails.

    Three checks under the application's metric: the exact search scores as many rows as are searchable; an exact
    duplicate planted in memory ties with its original; and the ranks of a few rows agree with a plain count over all
    rows in float64. ``exact`` is the search to check (default: the one the runs use).
    """
    exact = exact or ExactSearch(snapshot.vectors, snapshot.searchable, snapshot.metric)
    rows = _sample(snapshot)
    return [
        _every_row_scored(snapshot, exact, rows),
        _duplicate_found(snapshot, exact, rows),
        _ranks_agree(snapshot, exact, rows),
    ]


def _sample(snapshot: TableSnapshot) -> np.ndarray:
    """A few searchable rows spread over the table, the last one among them."""
    searchable = np.flatnonzero(snapshot.searchable)
    if len(searchable) == 0:
        return searchable
    return searchable[np.unique(np.linspace(0, len(searchable) - 1, _SAMPLE).astype(np.int64))]


def _every_row_scored(snapshot: TableSnapshot, exact: ExactSearch, rows: np.ndarray) -> dict[str, Any]:
    name, expected = "exact_search_scores_every_row", int(snapshot.searchable.sum())
    scored = exact.ranks(_vectors(snapshot, rows), rows, 1).scored_rows
    if scored != expected:
        raise SelfCheckError(f"{name}: the exact search scored {scored:,} rows where {expected:,} can be searched")
    return _passed(name, f"{scored:,} rows scored under {snapshot.metric}")


def _duplicate_found(snapshot: TableSnapshot, exact: ExactSearch, rows: np.ndarray) -> dict[str, Any]:
    name = "planted_duplicate_is_found"
    if len(rows) < 2:
        return _passed(name, f"not applicable to {len(rows)} searchable rows")
    original, planted = rows[0], rows[-1]
    vector = _vectors(snapshot, rows[:1])
    ranks = exact.ranks(np.repeat(vector, 2, axis=0), np.array([original, planted]), 2, override=(rows[-1:], vector))
    same_score = abs(ranks.score[0] - ranks.score[1]) <= TIE_TOLERANCE
    if not same_score or ranks.rank_min[0] != ranks.rank_min[1] or ranks.rank_max[0] < ranks.rank_min[0] + 1:
        raise SelfCheckError(
            f"{name}: a copy of row {original} put in the place of row {planted} does not tie with it "
            f"(ranks {ranks.rank_min.tolist()} to {ranks.rank_max.tolist()})"
        )
    return _passed(name, "an exact copy ties with its original")


def _ranks_agree(snapshot: TableSnapshot, exact: ExactSearch, rows: np.ndarray) -> dict[str, Any]:
    name = "ranks_agree_with_a_plain_count"
    queries = _vectors(snapshot, rows)
    ranks = exact.ranks(queries, rows, 1)
    own = _plain_scores(queries, queries, snapshot.metric).diagonal()
    ahead, level = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for start in range(0, len(snapshot.vectors), _ROWS_PER_BLOCK):
        block = slice(start, start + _ROWS_PER_BLOCK)
        usable = np.asarray(snapshot.vectors[block])[snapshot.searchable[block]]
        scores = _plain_scores(queries, usable, snapshot.metric)
        ahead += (scores > own[:, None] + 2 * TIE_TOLERANCE).sum(axis=1)
        level += (scores >= own[:, None] - TIE_TOLERANCE / 2).sum(axis=1)
    # The plain count leaves room for rounding on both sides of a tie, so it brackets the rank instead of naming it.
    if (
        (ranks.rank_min < ahead + 1).any()
        or (ranks.rank_max < level).any()
        or (np.abs(ranks.score - own) > TIE_TOLERANCE).any()
    ):
        raise SelfCheckError(
            f"{name}: under {snapshot.metric} rows {rows.tolist()} rank {ranks.rank_min.tolist()} to "
            f"{ranks.rank_max.tolist()}, a plain count finds {(ahead + 1).tolist()} to {level.tolist()}"
        )
    return _passed(name, f"{len(rows)} rows counted again in float64")


def _plain_scores(queries: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    """Scores (m, r) by the textbook formula, larger is closer."""
    queries, vectors = queries.astype(np.float64), vectors.astype(np.float64)
    products = queries @ vectors.T
    if metric == "dot":
        return products
    if metric == "cosine":
        return products / np.linalg.norm(queries, axis=1)[:, None] / np.linalg.norm(vectors, axis=1)[None, :]
    return 2 * products - (queries**2).sum(axis=1)[:, None] - (vectors**2).sum(axis=1)[None, :]


def _vectors(snapshot: TableSnapshot, rows: np.ndarray) -> np.ndarray:
    return np.asarray(snapshot.vectors[rows], dtype=np.float32)


def _passed(name: str, detail: str) -> dict[str, Any]:
    return {"name": name, "passed": True, "detail": detail}
