"""What one audit's duplicate threshold does in another audit: from that one's own sweep. No pair is looked at here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit_pipeline.report.wording import per_10k

_ENCODER = ("model", "fingerprint", "passage_prompt")
_EQUAL = 1e-9


def carried_thresholds(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each of two audits of different encoders that names a threshold: what it flags there, and in the other one.

    ``here`` and ``there`` hold random_share, flagged_per_10k_chunks and expected_all_pairs of the row of that threshold
    in each audit's sweep; ``there`` is None where the other one's sweep has no such row: not measured. Nothing where
    both audits have one encoder, or one of them is of a version without these figures.
    """
    if all(a["encoder"].get(name) == b["encoder"].get(name) for name in _ENCODER):
        return []
    found = []
    for own, other, names in ((a, b, ("first", "second")), (b, a, ("second", "first"))):
        recommended = (own.get("duplicates") or {}).get("recommended") or {}
        threshold = recommended.get("threshold")
        if threshold is not None:
            found.append(
                {
                    "of": names[0],
                    "in": names[1],
                    "threshold": threshold,
                    "provisional": bool(recommended.get("provisional")),
                    "here": _row(own, threshold),
                    "there": _row(other, threshold),
                }
            )
    return found


def carried_words(carried: Mapping[str, Any]) -> str:
    """What a threshold of one encoder does under the other, in sentences."""
    kind = "provisional" if carried["provisional"] else "recommended"
    start = f"The {carried['of']} audit's {kind} duplicate threshold {carried['threshold']:g}"
    there, here = carried["there"], carried["here"]
    if there is None:
        return f"{start} in the {carried['in']} audit: not measured, its sweep has no such row (duplicates.thresholds)."
    at_home = f" ({_figures(here)} in its own)" if here else ""
    return (
        f"{start} flags in the {carried['in']} audit {_figures(there)}{at_home}. A threshold belongs to one model on "
        "one corpus: do not carry it over."
    )


def _figures(row: Mapping[str, Any]) -> str:
    parts = [
        "an unmeasured share of random pairs"
        if row["random_share"] is None
        else f"{per_10k(row['random_share'])} random pairs",
        *(
            []
            if row["flagged_per_10k_chunks"] is None
            else [f"{row['flagged_per_10k_chunks']:,.0f} pairs per 10,000 chunks"]
        ),
    ]
    return " and ".join(parts)


def _row(audit: Mapping[str, Any], threshold: float) -> dict[str, Any] | None:
    for row in (audit.get("duplicates") or {}).get("sweep") or []:
        if abs(row["threshold"] - threshold) < _EQUAL:
            return {name: row.get(name) for name in ("random_share", "flagged_per_10k_chunks", "expected_all_pairs")}
    return None
