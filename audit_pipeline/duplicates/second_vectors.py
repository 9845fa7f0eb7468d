"""Two kinds of vectors on the same labels and candidates: sweeps, paired bootstrap, verdict. None is read here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from audit_pipeline.duplicates.floor import TOLERANCE
from audit_pipeline.duplicates.label_draws import CHUNKS, drawn_by, label_draws
from audit_pipeline.duplicates.recommend import LEAST_LABELS, area_under_curve, best_row

BETTER, WORSE, NOT_SHOWN, NOT_MEASURED = "better", "worse", "not_shown", "not_measured"


@dataclass(frozen=True)
class Scored:
    """One kind of vectors: cosines of the labelled pairs (n,) and of the candidates (m,), and its own thresholds."""

    labelled: np.ndarray
    candidates: np.ndarray
    thresholds: list[float]

    @property
    def passing(self) -> np.ndarray:
        """(n, rows) bool: which labelled pair passes which threshold."""
        return self.labelled[:, None] >= np.array(self.thresholds)[None, :] - TOLERANCE


def compare_vectors(
    a: np.ndarray, b: np.ndarray, duplicate: np.ndarray, candidate: np.ndarray, first: Scored, second: Scored
) -> dict[str, Any]:
    """Whether the second vectors judge the labelled pairs better; all arrays (n,) stand by labelled pair.

    ``a, b`` are the chunks of each pair, ``candidate`` whether a lane proposed it with either kind of vectors. Pairs
    whose cosine is not known (NaN) under both kinds are left out and counted. The difference is that of precision +
    recall_pipeline, each kind at the best row of its own sweep, chosen anew in every draw; the draws (label_draws) are
    the same for both kinds: a paired bootstrap.
    Better or worse only where its 95 % interval excludes 0. Where the first kind's best row is at the edge of its
    sweep a better row may lie beyond it, so the second one is not called better.
    """
    known = ~np.isnan(first.labelled) & ~np.isnan(second.labelled)
    a, b, duplicate, candidate = a[known], b[known], duplicate[known], candidate[known]
    kinds = [Scored(kind.labelled[known], kind.candidates, kind.thresholds) for kind in (first, second)]
    counts = {"duplicates": int(duplicate.sum()), "others": int((~duplicate).sum()), "left_out": int((~known).sum())}
    sides = [_side(kind, duplicate, candidate) for kind in kinds]
    found: dict[str, Any] = {"labels": counts, "first": sides[0], "second": sides[1], "difference": None}
    found |= {"auc_difference": None, "verdict": NOT_MEASURED, "drawn_by": drawn_by(a, b)}
    if few_labels(counts["duplicates"], counts["others"]) or None in (sides[0]["threshold"], sides[1]["threshold"]):
        return found
    sums, aucs = _draws(a, b, duplicate, candidate, kinds)
    found["difference"] = _interval(_best(sides[1]) - _best(sides[0]), sums)
    found["auc_difference"] = _interval(sides[1]["auc"] - sides[0]["auc"], aucs)
    found["verdict"] = NOT_SHOWN
    if found["difference"]["low"] > 0 and not sides[0]["edge"]:
        found["verdict"] = BETTER
    elif found["difference"]["high"] < 0 and not sides[1]["edge"]:
        found["verdict"] = WORSE
    return found


def few_labels(duplicates: int, others: int) -> bool:
    """Whether so few pairs of a class are labelled that nothing is compared."""
    return min(duplicates, others) < LEAST_LABELS


def verdict_words(found: dict[str, Any], cost: dict[str, Any], regime: str) -> str:
    """One paragraph: what the second vectors gain over the first in their regime, and what they cost."""
    labels = found["labels"]
    paid = f"They cost {cost['bytes_per_row']:,} bytes a row ({cost['bytes'] / 1e6:,.1f} MB) and the encoding of "
    paid += f"{cost['texts']:,} texts"
    if cost["seconds"] is not None:
        paid += f" ({cost['encoded']:,} of them took {cost['seconds']:,.0f} s here)"
    if found["verdict"] == NOT_MEASURED:
        why = "no labelled pair passes a threshold of one of the sweeps"
        if few_labels(labels["duplicates"], labels["others"]):
            why = f"{labels['duplicates']} duplicates and {labels['others']} non-duplicates are labelled, "
            why += f"{LEAST_LABELS} of each are needed"
        return f"Whether second vectors judge duplicates better was not measured: {why}. {paid}."
    gained = f"precision + recall {_signed(found['difference'])}, AUC {_signed(found['auc_difference'])} against the "
    gained += f"first vectors in regime {regime}"
    said = {
        BETTER: f"The second vectors judge duplicates better: {gained}.",
        WORSE: f"The second vectors judge duplicates worse: {gained}. A second index is not worth its cost.",
        NOT_SHOWN: f"The second vectors are not shown to be better: {gained}. A second index is not worth its cost on "
        "this evidence.",
    }[found["verdict"]]
    edges = [name for name, setting in _EDGES.items() if found[name]["edge"]]
    at_edge = [f"The {name} sweep's best row is at its edge: extend {_EDGES[name]}." for name in edges]
    drawn = [_BY_CHUNK] if found["drawn_by"] == CHUNKS else []
    return " ".join([said, *at_edge, *drawn, f"{paid}."])


_BY_CHUNK = "For the intervals chunks were drawn, as one family holds more than a third of the labels."
_EDGES = {"first": "duplicates.thresholds", "second": "duplicates.second.thresholds"}


def _side(kind: Scored, duplicate: np.ndarray, candidate: np.ndarray) -> dict[str, Any]:
    passing = kind.passing
    tp, fp = (passing & duplicate[:, None]).sum(axis=0), (passing & ~duplicate[:, None]).sum(axis=0)
    found = (passing & (duplicate & candidate)[:, None]).sum(axis=0)
    positives = int(duplicate.sum())
    rows = [
        {
            "threshold": threshold,
            "tp": int(tp[row]),
            "fp": int(fp[row]),
            "fn": positives - int(tp[row]),
            "precision": float(tp[row] / (tp[row] + fp[row])) if tp[row] + fp[row] else None,
            "recall_pipeline": float(found[row] / positives) if positives else None,
            "flagged": int(np.sum(kind.candidates >= threshold - TOLERANCE)),
        }
        for row, threshold in enumerate(kind.thresholds)
    ]
    best = best_row([row["precision"] for row in rows], [row["recall_pipeline"] for row in rows])
    auc = float(area_under_curve(kind.labelled, duplicate, np.ones((1, len(duplicate))))[0])
    chosen: dict[str, Any] = {"threshold": None, "precision": None, "recall_pipeline": None}
    if best is not None:
        chosen = {name: rows[best][name] for name in chosen}
    return chosen | {"auc": None if np.isnan(auc) else auc, "edge": best in (0, len(rows) - 1), "sweep": rows}


def _draws(
    a: np.ndarray, b: np.ndarray, duplicate: np.ndarray, candidate: np.ndarray, kinds: list[Scored]
) -> tuple[np.ndarray, np.ndarray]:
    """(draws,) each: second less first of the best precision + recall, and of the AUC; NaN where one has none."""
    sums, aucs = [], []
    for counted in label_draws(a, b):
        drawn = counted.astype(float)
        best, area = [], []
        for kind in kinds:
            passing = kind.passing
            tp, fp = drawn @ (passing & duplicate[:, None]), drawn @ (passing & ~duplicate[:, None])
            with np.errstate(invalid="ignore", divide="ignore"):
                total = tp / (tp + fp) + drawn @ (passing & (duplicate & candidate)[:, None]) / (
                    drawn @ duplicate[:, None]
                )
            best.append(np.where(np.isnan(total), -np.inf, total).max(axis=1))
            area.append(area_under_curve(kind.labelled, duplicate, drawn))
        with np.errstate(invalid="ignore"):
            sums.append(best[1] - best[0])
        aucs.append(area[1] - area[0])
    return np.concatenate(sums), np.concatenate(aucs)


def _best(side: dict[str, Any]) -> float:
    return float(side["precision"] + side["recall_pipeline"])


def _interval(value: float, draws: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(draws[np.isfinite(draws)], (0.025, 0.975))
    return {"value": float(value), "low": float(low), "high": float(high)}


def _signed(difference: dict[str, float]) -> str:
    return f"{difference['value']:+.3f} (95 %: {difference['low']:+.3f} to {difference['high']:+.3f})"
