"""What the rows ahead of a missed answer are: written in another role, or equal to it as far as a text is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.retrieval.ranking import Identities, Ranking

if TYPE_CHECKING:
    from audit_pipeline.retrieval.miss import Evidence, Miss

ReadPart = Callable[[int, str | None], str | None]
"""read(row, text) -> what is read of the row's embedded text, made of another text where one is given; None: all."""

MOST_JUDGED = 500
"""Rows ahead of all missed answers of a run whose vectors are compared with fresh ones."""
_EXAMPLES = 5
_EQUAL_INPUT = 1e-3  # two encodings of one input lie closer than this, on any machine


def suspects_ahead(
    ranking: Ranking, missed: np.ndarray, suspected: np.ndarray | None, identities: Identities
) -> list[str]:
    """Ids of the ``suspected`` rows, (n,) bool, ahead of or level with a missed answer, those of most misses first.

    None suspected: none. ``missed`` are positions in the ranking.
    """
    if suspected is None or not len(missed):
        return []
    rows, scores = ranking.top_rows[missed], ranking.top_scores[missed]
    own = np.nan_to_num(ranking.score[missed], nan=-np.inf)[:, None]
    ahead = (rows >= 0) & (scores >= own - TIE_TOLERANCE) & (rows != ranking.row[missed][:, None])
    found, times = np.unique(rows[ahead & suspected[np.maximum(rows, 0)]], return_counts=True)
    return identities.ids_of(found[np.argsort(-times, kind="stable")][:MOST_JUDGED]).to_pylist()


def in_another_role(miss: Miss, evidence: Evidence) -> dict[str, Any] | None:
    """Evidence where the miss is the fault of rows ahead that carry another arm.

    With each of them encoded in the configured arm, fewer than k rows would be strictly closer than the answer.
    """
    arms: dict[str, str | None] = {}
    scores = miss.ahead_scores.copy()
    for place, row in enumerate(miss.ahead):
        chunk_id = evidence.identities.id_of(int(row))
        state, arm = evidence.fidelity.states.get(chunk_id or "", ("", None))
        fresh = evidence.fidelity.fresh.get(chunk_id or "")
        if state == "role_mismatch" and fresh is not None and chunk_id is not None:
            arms[chunk_id] = arm
            scores[place] = _score(evidence.exact.metric, miss.query, fresh)
    if not arms or not miss.ahead_complete or np.isnan(miss.score):
        return None
    if int(np.count_nonzero(scores > miss.score + TIE_TOLERANCE)) >= miss.k:
        return None
    return {"arm": next(iter(arms.values())), "rows_ahead": list(arms)[:_EXAMPLES]}


def equal_as_read(miss: Miss, evidence: Evidence) -> dict[str, Any] | None:
    """Evidence where answer and rows ahead are longer than what is read of them, equal within it, and differ beyond.

    Without these rows the answer would have reached k. A row that got another vector did not give the encoder the same
    input, whatever its text.
    """
    if evidence.read_part is None or miss.row < 0 or not len(miss.ahead) or not miss.ahead_complete:
        return None
    level = np.abs(miss.ahead_scores - miss.score) <= _EQUAL_INPUT
    if len(miss.ahead) - int(level.sum()) >= miss.k:
        return None
    own, own_text = evidence.read(miss.row), evidence.text(miss.row)
    if own is None:
        return None
    equal = [
        int(row) for row in miss.ahead[level] if evidence.text(int(row)) != own_text and evidence.read(int(row)) == own
    ]
    if not equal or len(miss.ahead) - len(equal) >= miss.k:
        return None
    return {
        "group": len(equal) + 1,  # the answer included
        "equal_rows": evidence.identities.ids_of(np.array(equal[:_EXAMPLES])).to_pylist(),
        "characters_read": len(own),
        "characters": len(own_text),
    }


def _score(metric: str, query: np.ndarray, vector: np.ndarray) -> float:
    one = ExactSearch(np.asarray(vector, np.float32)[None, :], np.ones(1, bool), metric)
    score = one.scores(query[None, :], np.zeros((1, 1), np.int64))[0, 0]
    return -np.inf if np.isnan(score) else float(score)
