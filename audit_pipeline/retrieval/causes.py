"""Why a probe missed: an ordered table of tests; the first that explains the miss wins. Misses are found elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit_pipeline.index.exact import TIE_TOLERANCE
from audit_pipeline.index.snapshot import VECTOR_STATES
from audit_pipeline.index.text_drift import drift_of
from audit_pipeline.retrieval.miss import Evidence, Miss
from audit_pipeline.retrieval.rows_ahead import equal_as_read, in_another_role

UNDETERMINED = "undetermined"
FINDERS = ("nprobes", "ef", "refine", "exact")
"""Search variants tried in this order for a row that the ANN search loses; "exact" leaves the index out."""

_EXAMPLES = 5

Outcome = dict[str, Any] | None
"""Evidence of a cause that holds, or None. Evidence with the key "settle" abstains: it says what would decide."""

Test = Callable[[Miss, Evidence], Outcome]


@dataclass(frozen=True)
class Cause:
    """The cause of one miss with its evidence, JSON-ready."""

    name: str
    evidence: dict[str, Any]


def cause_of(miss: Miss, evidence: Evidence) -> Cause:
    """The first cause of ``CAUSES`` for the miss's run that holds; ``undetermined`` where none does or one abstains."""
    for name, runs, test in CAUSES:
        if miss.run not in runs:
            continue
        found = test(miss, evidence)
        if found is not None:
            return Cause(UNDETERMINED, found | {"suspected": name}) if "settle" in found else Cause(name, found)
    settle = "look at the query: its vector has no direction or holds values that are no numbers"
    if miss.rank_min is not None:
        settle = "repeat the search: exactly scored the answer is first, yet it was not returned first"
    return Cause(UNDETERMINED, {"settle": settle})


def missing_row(miss: Miss, evidence: Evidence) -> Outcome:
    """The id is not in the table, or the table holds another row of the store there that has the same id."""
    if miss.row < 0:
        return {"table_rows": evidence.snapshot.rows.num_rows}
    instead = evidence.collided.get(miss.chunk_id, ())
    text = evidence.text(miss.row)
    if text not in instead or text == evidence.own_texts.get(miss.chunk_id, text):
        return None
    return {"id_collision": True, "rows_of_store": len(instead) + 1}


def duplicate_id(miss: Miss, evidence: Evidence) -> Outcome:
    """The id stands on several rows with different content."""
    rows = _rows_of_id(miss, evidence)
    if len(rows) < 2 or len({evidence.text(row) for row in rows}) < 2:
        return None
    return {"rows": [int(row) for row in rows[:_EXAMPLES]], "count": len(rows)}


def invalid_vector(miss: Miss, evidence: Evidence) -> Outcome:
    """None of the id's rows has a vector that the metric can score; or a row without one was returned before it."""
    rows = _rows_of_id(miss, evidence)
    if not evidence.snapshot.searchable[rows].any():
        return {"state": VECTOR_STATES[int(evidence.snapshot.vector_state[miss.row])]}
    # LanceDB puts an infinite score first: that of a vector with Inf under dot, of one too short under cosine.
    if miss.rank_max is None or miss.rank_max > miss.k:
        return None
    before = miss.returned if miss.rank_returned is None else miss.returned[: miss.rank_returned - 1]
    before = before[before >= 0]
    broken = before[~evidence.snapshot.searchable[before]]
    if not len(broken) or len(before) - len(broken) >= miss.k:
        return None
    row = int(broken[0])
    state = VECTOR_STATES[int(evidence.snapshot.vector_state[row])]
    return {"row_before": evidence.identities.id_of(row), "state": state}


def filter_excluded(miss: Miss, evidence: Evidence) -> Outcome:
    """The filter does not let the row through; or it is found once the filter is lifted, or put before the search."""
    applied = evidence.applied_filter(miss)
    if applied is None or miss.rank_returned is not None:
        return None
    shown = {"filter": applied}
    if not evidence.passes_filter(miss):
        return shown | {"row_passes": False}
    if not evidence.settings.index.search.prefilter and evidence.found_by(miss, "filter_first"):
        return shown | {"found_by": "prefilter"}
    return _lifted(miss, evidence, "without_filter", shown, "search once without the filter")


def below_cutoff(miss: Miss, evidence: Evidence) -> Outcome:
    """Found, but the application's score cut-off drops it."""
    index = evidence.settings.index
    if not index.search.cutoff or miss.rank_returned is not None:
        return None
    shown: dict[str, Any] = index.search.cutoff | {"score": _number(miss.score)}
    distance = evidence.distance_by(miss, "without_cutoff")
    if distance is not None and not np.isnan(distance):
        shown["distance"] = _number(distance)  # the store's own, which the cut-off is compared with
    return _lifted(miss, evidence, "without_cutoff", shown, "search once without the cut-off")


def unindexed(miss: Miss, evidence: Evidence) -> Outcome:
    """Outside the ANN index while the search skips the tail."""
    info = evidence.snapshot.info
    if not evidence.settings.index.search.fast_search or not info.unindexed_rows or miss.rank_returned is not None:
        return None
    shown = {"unindexed_rows": info.unindexed_rows}
    return _lifted(miss, evidence, "with_tail", shown, "search once without fast_search")


def ann_miss(miss: Miss, evidence: Evidence) -> Outcome:
    """Absent though near enough, or returned behind a row that is worse by more than 1e-6."""
    limit = evidence.settings.index.search.limit
    worse = _worse_before(miss, evidence)
    absent = miss.rank_returned is None and miss.rank_max is not None and miss.rank_max <= limit
    if not absent and worse is None:
        return None
    found = next((variant for variant in FINDERS if evidence.found_by(miss, variant)), None) if absent else None
    shown: dict[str, Any] = {"index_type": evidence.snapshot.info.index_type, "found_by": found}
    if worse is not None:
        shown["worse_row_before"] = worse
    return shown


def metric(miss: Miss, evidence: Evidence) -> Outcome:
    """The same vectors find it under cosine."""
    rank = evidence.cosine_ranks.get(miss.position)
    if evidence.exact.metric == "cosine" or rank is None or not 0 < rank <= miss.k:
        return None
    if miss.rank_min is not None and miss.rank_min <= miss.k:
        return None
    return {"metric": evidence.exact.metric, "rank_min": miss.rank_min, "rank_min_cosine": int(rank)}


def text_drift(miss: Miss, evidence: Evidence) -> Outcome:
    """The table's text is not the store's, and the store's text encoded now would hit."""
    own, held = evidence.own_texts.get(miss.chunk_id), evidence.text(miss.row)
    state, _ = evidence.fidelity.states.get(miss.chunk_id, ("", None))
    # A vector that is another arm's or row's, or encodes neither text, would miss whatever text stands beside it.
    if own is None or own == held or state in ("role_mismatch", "misaligned", "vector_drift"):
        return None
    hit = evidence.would_hit(miss)
    if hit is None:
        return {"settle": "encode the store's text: the table holds another text under this id"}
    if not hit:
        return None
    drift = drift_of(own, held)
    shown: dict[str, Any] = {"kind": drift.kind, "store_characters": len(own), "table_characters": len(held)}
    return shown if drift.lost is None else shown | {"characters_lost": drift.lost}


def misaligned(miss: Miss, evidence: Evidence) -> Outcome:
    """The row holds the vector of another row's text."""
    state, arm = evidence.fidelity.states.get(miss.chunk_id, ("", None))
    return {"shift": arm} if state == "misaligned" else None


def role_mismatch(miss: Miss, evidence: Evidence) -> Outcome:
    """The vector is another arm's encoding of the right text, and the configured arm's would hit; or rows ahead are."""
    state, arm = evidence.fidelity.states.get(miss.chunk_id, ("", None))
    if state == "role_mismatch" and evidence.would_hit(miss):
        return {"arm": arm}
    return in_another_role(miss, evidence) if state in ("", "faithful") else None


def vector_drift(miss: Miss, evidence: Evidence) -> Outcome:
    """The vector is no known encoding of the text, and the fresh one would hit."""
    state, _ = evidence.fidelity.states.get(miss.chunk_id, ("", None))
    return {"score": _number(miss.score)} if state == "vector_drift" and evidence.would_hit(miss) else None


def truncated(miss: Miss, evidence: Evidence) -> Outcome:
    """Answer and rows ahead are longer than what is read of them, and equal within it.

    Or the row holds what the writer's own cut leaves of its text, and the whole text encoded in its place would hit.
    Near-copies are left to ``twin``: they would be level again, were they written whole as well.
    """
    equal = equal_as_read(miss, evidence)
    if equal is not None:
        return equal
    state, part = evidence.fidelity.states.get(miss.chunk_id, ("", None))
    if state != "faithful" or part is None or not evidence.would_hit(miss) or twin_rows(miss, evidence) is not None:
        return None
    return {"encoded": part, "would_hit": True}


def overlap(miss: Miss, evidence: Evidence) -> Outcome:
    """The held-out sentence also stands in a row ahead of the answer or level with k."""
    return None if miss.overlap is None else {"also_in": miss.overlap}


def twin_rows(miss: Miss, evidence: Evidence) -> Outcome:
    """Without the twins among the rows ahead the answer would have reached k."""
    twins, others = [], 0
    for row in miss.ahead:
        how = evidence.twin(miss.row, int(row))
        if how is None:
            others += 1
            if others >= miss.k:
                return None
        else:
            twins.append((int(row), how))
    if not twins:
        return None
    if not miss.ahead_complete:
        return {
            "settle": f"more than {len(miss.ahead)} rows lie ahead and all looked at are twins: thin them out first"
        }
    rows = np.array([row for row, _ in twins[:_EXAMPLES]])
    return {
        "group": len(twins) + 1,  # the answer included
        "twins": evidence.identities.ids_of(rows).to_pylist(),
        "kind": twins[0][1].kind,
        "numeric": any(how.numeric for _, how in twins),
    }


def encoder(miss: Miss, evidence: Evidence) -> Outcome:
    """The model puts another document closer: nothing else explains the miss."""
    if miss.rank_max is None or not len(miss.ahead):
        return None
    if miss.run == "self" and not evidence.text_is_embedded:
        return {"settle": "name what was embedded under index.embed_text: no vector encodes the stored text alone"}
    if miss.run == "self" and not evidence.encoder_is_stable:
        return {"settle": "make the encoder's vectors independent of the batch: the row's own could not be compared"}
    shown: dict[str, Any] = {
        "winner": evidence.identities.id_of(int(miss.ahead[0])),
        "margin": _number(miss.ahead_scores[0] - miss.score),
    }
    if miss.position in evidence.lexical_ranks:
        rank = evidence.lexical_ranks[miss.position]
        shown |= {"lexical_rank": rank, "lexical_finds_it": rank is not None and rank <= miss.k}
    return shown


_EVERY = frozenset(("self", "held_out", "labelled"))
_SEARCHED = frozenset(("self", "labelled"))
_SELF = frozenset(("self",))
_HELD_OUT = frozenset(("held_out",))

# Order decides: what lost or hid the row comes before what is wrong with it, and the model comes last. Held-out is
# scored exactly with the answer's vector made afresh, so nothing of the index or the stored row can explain it.
CAUSES: tuple[tuple[str, frozenset[str], Test], ...] = (
    ("missing_row", _SEARCHED, missing_row),
    ("duplicate_id", _SEARCHED, duplicate_id),
    ("invalid_vector", _SEARCHED, invalid_vector),
    ("filter_excluded", _SEARCHED, filter_excluded),
    ("below_cutoff", _SEARCHED, below_cutoff),
    ("unindexed", _SEARCHED, unindexed),
    ("ann_miss", _SEARCHED, ann_miss),
    ("metric", _SELF, metric),
    ("text_drift", _SELF, text_drift),
    ("misaligned", _SELF, misaligned),
    ("role_mismatch", _EVERY, role_mismatch),
    ("vector_drift", _SEARCHED, vector_drift),
    ("truncated", _EVERY, truncated),
    ("overlap", _HELD_OUT, overlap),
    ("twin", _EVERY, twin_rows),
    ("encoder", _EVERY, encoder),
)
CAUSE_ORDER = (*(name for name, _, _ in CAUSES), UNDETERMINED)


def _rows_of_id(miss: Miss, evidence: Evidence) -> np.ndarray:
    code = evidence.identities.codes_of(np.array([miss.row]))[0]
    return evidence.identities.rows_of_code(int(code))


def _lifted(miss: Miss, evidence: Evidence, variant: str, shown: dict[str, Any], settle: str) -> Outcome:
    """Evidence where the search without this restriction returns the answer."""
    found = evidence.found_by(miss, variant)
    if found is None:
        within = miss.rank_max is not None and miss.rank_max <= evidence.settings.index.search.limit
        return shown | {"settle": settle} if within else None
    return shown if found else None


def _worse_before(miss: Miss, evidence: Evidence) -> str | None:
    """Id of the first row returned before the answer that is worse than it by more than the tolerance."""
    if miss.rank_returned is None or miss.rank_returned < 2 or np.isnan(miss.score):
        return None
    before = miss.returned[: miss.rank_returned - 1]
    scores = evidence.exact.scores(miss.query[None, :], before[None, :])[0]
    worse = np.flatnonzero(scores < miss.score - TIE_TOLERANCE)
    return evidence.identities.id_of(int(before[worse[0]])) if len(worse) else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 9)
