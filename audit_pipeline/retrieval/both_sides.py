"""What self-retrieval cannot see, measured: one prompt on both sides, on a closed haystack. It encodes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from audit_pipeline.arms import describe_arm, split_arm
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.proportions import mcnemar, paired_difference, wilson

SIGNIFICANCE = 0.05
MEASURES = {"self@1": 1, "heldout@10": 10}


@dataclass(frozen=True)
class Sides:
    """One way of encoding both sides.

    ``own`` (m, d) whole texts and ``held`` (m, d) held sentences as queries; ``passages`` (n, d) the haystack's rows;
    ``bodies`` (m, d) the rows of the m asked chunks without their sentence.
    """

    own: np.ndarray
    held: np.ndarray
    passages: np.ndarray
    bodies: np.ndarray


def compare_sides(
    configured: Sides, same: Sides, answers: np.ndarray, metric: str, arm: str, configured_arm: str | None
) -> dict[str, Any]:
    """The section both_sides of audit.json: the same m queries of both encodings, paired (exact McNemar test).

    ``answers`` (m,) are the asked chunks' places among the n rows; ``arm`` stands on both sides of ``same``, and
    ``configured_arm`` on both of ``configured``, None where its sides differ. Ties count as hits in every figure.
    """
    measures = []
    for name in MEASURES:
        a, b = _hits(name, configured, answers, metric), _hits(name, same, answers, metric)
        both, lost, won = int((a & b).sum()), int((a & ~b).sum()), int((~a & b).sum())
        difference, low, high = paired_difference(both, lost, won, len(a) - both - lost - won)
        measures.append(
            {
                "measure": name,
                "configured": wilson(int(a.sum()), len(a)).as_dict(),
                "both": wilson(int(b.sum()), len(b)).as_dict(),
                "won": won,
                "lost": lost,
                "difference": difference,
                "difference_low": low,
                "difference_high": high,
                "p": mcnemar(lost, won),
            }
        )
    prompt, request = split_arm(arm)
    section = {"prompt": prompt, "request": request, "haystack": len(configured.passages), "measures": measures}
    return section | {"text": _text(section, arm, configured_arm)}


def _hits(measure: str, sides: Sides, answers: np.ndarray, metric: str) -> np.ndarray:
    exact = ExactSearch(sides.passages, np.ones(len(sides.passages), bool), metric)
    k = MEASURES[measure]
    if measure == "self@1":
        ranks = exact.ranks(sides.own, answers, k)
    else:
        ranks = exact.ranks(sides.held, answers, k, override=(answers, sides.bodies))
    return (ranks.rank_min >= 1) & (ranks.rank_min <= k)


def _text(section: dict[str, Any], arm: str, configured_arm: str | None) -> str:
    own, held = section["measures"]
    instead = "as configured" if configured_arm is None else f"{describe_arm(configured_arm)} on both sides"
    said = (
        f"On a closed haystack of {section['haystack']:,} rows, {instead} against {describe_arm(arm)} on both sides: "
        f"{_figures(own)}, {_figures(held)}. "
    )
    if own["p"] < SIGNIFICANCE:
        return said + "Here even self@1 moves beyond chance."
    if held["p"] < SIGNIFICANCE:
        return said + "Self-retrieval cannot see a prompt that stands on both sides; held-out retrieval can."
    return said + "Self-retrieval cannot see a prompt that stands on both sides; here held-out stays within chance too."


def _figures(row: dict[str, Any]) -> str:
    a, b = row["configured"], row["both"]
    return (
        f"{row['measure']} {100 * a['value']:.1f} % -> {100 * b['value']:.1f} % (n {a['n']:,}; "
        f"{100 * row['difference']:+.1f} points, {100 * row['difference_low']:+.1f} to "
        f"{100 * row['difference_high']:+.1f})"
    )
