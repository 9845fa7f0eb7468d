"""What two audits say of duplicates, side by side, and what of it cannot be compared and why. No layout here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.report.by_document import unlike
from audit_pipeline.report.pairs_compared import compare_pairs, copied_text, over
from audit_pipeline.report.redundancy_words import redundancy_parts
from audit_pipeline.report.saved import SavedReport
from audit_pipeline.report.wording import REDUNDANCY

_VECTORS = ("kind", "model", "fingerprint", "revision", "passage_prompt", "max_tokens")
_SETTINGS = ("shingle_words", "permutations", "bands", "jaccard", "containment", "neighbours", "thresholds")
_RECOMMENDED = ("threshold", "low", "high", "provisional", "edge", "withheld")
_WHICH = ("first", "second")
LEAST_EQUAL = 0.5
"""Share of the probes of one id whose text is the same in both, where the chunks are of other lengths."""


def compare_duplicates(
    a: SavedReport, b: SavedReport, own: tuple[pd.DataFrame, pd.DataFrame], median_words: tuple[float | None, ...]
) -> dict[str, Any]:
    """The part ``duplicates`` of a comparison.

    ``sides`` has of each audit redundancy (shares of all chunks and how many these are, without those that differ in
    numbers only), the threshold with its interval, the floor, the labels and how well the cosine tells them apart.
    ``other_scale`` says why the cosines of the two stand on two scales, None where they stand on one; ``settings`` are
    those that differ. ``copied`` and ``flagged`` are what became of pairs (pairs_compared.compare_pairs): by the
    texts alone, and by each audit's own threshold. ``not_compared`` says in a sentence what has no figure and why.

    ``own`` are the tables of self-retrieval, ``median_words`` how long the chunks are. Raises AuditInputError where a
    table or the list of chunks cannot be read.
    """
    lacking = [which for which, one in zip(_WHICH, (a, b), strict=True) if not _has_duplicates(one.audit)]
    if lacking:
        why = f"the {' and the '.join(lacking)} audit holds nothing on duplicates: run it again"
        return {"sides": None, "other_scale": None, "settings": {}, "not_compared": {"duplicates": why}}
    sides = {"a": _side(a.audit), "b": _side(b.audit)}
    pairs, not_compared = _pairs(a, b, own, median_words, [one["recommended"]["threshold"] for one in sides.values()])
    return {
        "sides": sides,
        "other_scale": _other_scale(a.audit, b.audit),
        "settings": _settings_that_differ(a.audit, b.audit),
        **pairs,
        "not_compared": not_compared,
    }


def _pairs(
    a: SavedReport,
    b: SavedReport,
    own: tuple[pd.DataFrame, pd.DataFrame],
    median_words: tuple[float | None, ...],
    thresholds: list[float | None],
) -> tuple[dict[str, Any], dict[str, str]]:
    """The parts ``copied`` and ``flagged``, None where not compared, and why."""
    nothing: dict[str, Any] = {"copied": None, "flagged": None}
    saved = [(report.candidate_pairs(), report.chunk_ids()) for report in (a, b)]
    whole = [(table, ids) for table, ids in saved if table is not None and ids is not None]
    if len(whole) < len(saved):
        lacking = [which for which, one in zip(_WHICH, saved, strict=True) if None in (one[0], one[1])]
        return nothing, {
            "pairs": f"the {' and the '.join(lacking)} report lacks tables/candidate_pairs.parquet or "
            "beir/*/corpus.jsonl, its list of chunks: compare whole copies of reports that searched something"
        }
    (first, ids_a), (second, ids_b) = whole
    reason = _unlike_ids((ids_a, ids_b), own, median_words)
    if reason is not None:
        return nothing, {"pairs": reason}
    copied = compare_pairs((first, second), (ids_a, ids_b), (copied_text, copied_text))
    if thresholds[0] is None or thresholds[1] is None:
        without = [which for which, threshold in zip(_WHICH, thresholds, strict=True) if threshold is None]
        neither = len(without) == len(_WHICH)
        why = "neither audit recommends a threshold" if neither else f"the {without[0]} audit recommends no threshold"
        return {"copied": copied, "flagged": None}, {"flagged": why}
    rules = over(thresholds[0]), over(thresholds[1])
    return {"copied": copied, "flagged": compare_pairs((first, second), (ids_a, ids_b), rules)}, {}


def _has_duplicates(audit: Mapping[str, Any]) -> bool:
    duplicates = audit.get("duplicates")
    return isinstance(duplicates, Mapping) and {"redundancy", "recommended", "floor", "regime"} <= duplicates.keys()


def _side(audit: Mapping[str, Any]) -> dict[str, Any]:
    """What one audit says: plain counts and shares of all its chunks, and figures with the interval that they have."""
    duplicates, chunks = audit["duplicates"], audit["corpus"]["chunks"]
    recommended, labels = duplicates["recommended"], duplicates.get("labels")
    separation = duplicates.get("separation")
    return {
        "chunks": chunks,
        "redundancy": {
            lane: {"share": share, "chunks": None if share is None else round(share * chunks)}
            for lane, (share, _) in zip(REDUNDANCY, redundancy_parts(duplicates), strict=True)
        },
        "regime": duplicates["regime"]["name"],
        "recommended": {name: recommended.get(name) for name in _RECOMMENDED},
        "floor": {name: duplicates["floor"].get(name) for name in ("p99.9", "n")},
        "labels": None
        if labels is None
        else {
            "duplicates": labels["duplicates"],
            "others": labels["others"],
            "invalid": sum(labels["invalid"].values()),
            "conflicts": labels["conflicts"],
        },
        "auc": None if separation is None else separation[separation["decides"]] | {"of": separation["decides"]},
    }


def _other_scale(a: Mapping[str, Any], b: Mapping[str, Any]) -> str | None:
    """Why a cosine of the one is no cosine of the other; None where the vectors are made alike, as far as is known."""
    one, other = a["encoder"], b["encoder"]
    if not one.get("model") or not other.get("model"):
        return "which models made the vectors is not known"
    regimes = [audit["duplicates"]["regime"]["name"] for audit in (a, b)]
    names = [name for name in _VECTORS if one.get(name) != other.get(name)]
    names += ["query_prompt"] if "query" in regimes and one.get("query_prompt") != other.get("query_prompt") else []
    if "model" in names:
        return f"the models are two: {one['model']} and {other['model']}"
    if names:
        return f"the vectors are made in two ways, which differ in {' and '.join(names)}"
    if regimes[0] != regimes[1]:
        return f"the regimes are two: {regimes[0]} and {regimes[1]}"
    return None


def _settings_that_differ(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, list[Any]]:
    one, other = (((audit.get("settings") or {}).get("duplicates") or {}) for audit in (a, b))
    if not one or not other:
        return {}
    return {name: [one.get(name), other.get(name)] for name in _SETTINGS if one.get(name) != other.get(name)}


def _unlike_ids(
    ids: tuple[pa.Array, pa.Array], own: tuple[pd.DataFrame, pd.DataFrame], median_words: tuple[float | None, ...]
) -> str | None:
    """Why an id does not name the same chunk in both audits; None where it does."""
    if not pc.any(pc.is_in(ids[0], value_set=ids[1])).as_py():
        return (
            "no id of a chunk is in both audits, as where ids are made anew at each ingest; shares and counts are of "
            "each audit's own chunks"
        )
    one, other = median_words
    if not one or not other or not unlike(one, other):
        return None
    both = own[0].merge(own[1], on="chunk_id", suffixes=("_a", "_b"))
    same = float((both["text_sha256_a"] == both["text_sha256_b"]).mean()) if len(both) else 0.0
    if same >= LEAST_EQUAL:
        return None
    return (
        f"the chunks are others, of {one:,.0f} words in the first and {other:,.0f} in the second, so an id that is in "
        "both names two chunks"
    )
