"""The section on duplicates of a made-up audit: its sweep, second vectors, labels."""

from __future__ import annotations

from typing import Any

from audit_pipeline.proportions import NOT_MEASURED, Proportion, wilson


def flat(name: str, figure: Proportion) -> dict[str, float | None]:
    return {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}


def sample_sweep(labels: bool) -> list[dict[str, Any]]:
    rows = []
    thresholds = (0.90, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99)
    precision = (0.31, 0.52, 0.67, 0.89, 0.96, 0.99, 1.0)
    recall = (0.98, 0.97, 0.95, 0.87, 0.70, 0.41, 0.12)
    flagged = (41_200, 18_300, 8_100, 3_900, 2_100, 900, 210)
    for threshold, p, r, f in zip(thresholds, precision, recall, flagged, strict=True):
        tp = round(400 * r)
        fp = round(tp * (1 - p) / p)
        rows.append(
            {
                "threshold": threshold,
                "threshold_store_score": 1 - threshold,
                "tp": tp if labels else 0,
                "fp": fp if labels else 0,
                "fn": 400 - tp if labels else 0,
                **flat("precision", wilson(tp, tp + fp) if labels else NOT_MEASURED),
                "precision_queue": p / 2 if labels else None,
                "precision_queue_low": p / 2 - 0.1 if labels else None,
                "precision_queue_high": p / 2 + 0.1 if labels else None,
                "precision_queue_n": tp + fp if labels else 0,
                "recall_scored": tp / 400 if labels else None,
                **flat("recall_pipeline", wilson(tp - 4, 400) if labels else NOT_MEASURED),
                "flagged": f,
                "to_read": f - 190,
                "flagged_per_10k_candidates": f / 12.0,
                "flagged_per_10k_chunks": f / 9.1,
                "random_share": 10 ** (-60 * (threshold - 0.85)),
                "expected_all_pairs": 4.1e9 * 10 ** (-60 * (threshold - 0.85)),
                "saturated_rows": f // 30,
                "precision_gained": None,
                "recall_paid": None,
                "exchange": None,
                "inverted": None,
                "recommended": threshold == 0.96,
            }
        )
    return rows


def sample_duplicates(labels: bool = True) -> dict[str, Any]:
    recall = [{"jaccard": j, **wilson(w, 200).as_dict()} for j, w in ((0.5, 171), (0.6, 197), (0.7, 200))]
    return {
        "redundancy": {"exact": 0.021, "lexical": 0.048, "embedding": 0.083 if labels else None},
        "exact": {"groups": 812, "redundant_rows": 1_911, "implied_pairs": 9_130},
        "minhash": {
            "candidates": 8_200,
            "verified": 3_311,
            "measured_recall": recall,
            "expected_recall": [{"jaccard": j, "value": 1 - (1 - j**4) ** 32} for j in (0.5, 0.6, 0.7)],
        },
        "neighbours": {
            "pairs": 910_000,
            "saturated_rows": 321,
            "exact_sample_recall": Proportion(1.0, 0.98, 1.0, 200).as_dict(),
        },
        "floor": {
            **{"mean": 0.71, "p50": 0.71, "p90": 0.78, "p99": 0.84, "p99.9": 0.88, "max": 0.97, "n": 200_000},
            "by_source_pair": [
                {
                    "sources": list(sources),
                    "n": 10_000,
                    "mean": 0.7,
                    "p99.9": p999,
                    "shares": [
                        {"threshold": threshold, **wilson(round(10_000 * 0.002 * rank / (step + 1)), 10_000).as_dict()}
                        for step, threshold in enumerate((0.90, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99))
                    ],
                }
                for rank, (sources, p999) in enumerate([(("api", "api"), 0.912), (("api", "guides"), 0.853)], start=1)
            ],
            "source_pairs_left_out": 4,
        },
        "regime": {"name": "stored", "words": "stored vectors on both sides"},
        "second": sample_second() if labels else None,
        "sweep": sample_sweep(labels),
        "recommended": {
            "threshold": 0.96,
            "low": 0.94 if labels else None,
            "high": 0.97 if labels else None,
            "provisional": not labels,
            "edge": False,
            "regime": "stored",
            "reason": "largest precision + recall_pipeline" if labels else "rests on the similarity floor alone",
        },
        "separation": {
            "labels": {"value": 0.61, "low": 0.55, "duplicates": 400, "others": 700},
            "candidates": {"value": 0.86, "low": 0.81, "duplicates": 310, "others": 420},
            "threshold": 0.90,
            "decides": "candidates",
            "least": 0.75,
            "drawn_by": "components",
        }
        if labels
        else None,
        "elsewhere": [
            {
                "threshold": 0.96,
                "model": "model-m",
                "corpus": "the demo's 3,000 docstrings",
                "random_share": 0.25,
                "pairs": 1_036_000_000,
            }
        ],
        "lane_worth": {
            "threshold": 0.96,
            "minhash_only": {"pairs": 230, "labelled": (wilson(12, 20) if labels else NOT_MEASURED).as_dict()},
            "both": {"pairs": 2_660, "labelled": (wilson(90, 110) if labels else NOT_MEASURED).as_dict()},
            "embedding_only": {"pairs": 870, "labelled": (wilson(61, 190) if labels else NOT_MEASURED).as_dict()},
            "found": {
                lane: (wilson(n, 400) if labels else NOT_MEASURED).as_dict()
                for lane, n in (("minhash", 180), ("embedding", 352), ("either", 371))
            },
            "advice": "MinHash alone finds 230 pairs of copied text that no neighbour list holds: keep it.",
        },
        "clusters": {
            "count": 2_210,
            "members": 5_904,
            "largest": 48,
            "chain_only": 131,
            "numeric": 77,
            "drop": 3_100,
            "copies": 1_870,
            "review": 594,
            "cosine_alone": {"drops": labels, "precision": 0.94 if labels else None, "reason": "Why cosine may drop."},
            "withheld": None if labels else "One cluster grew by chains.",
        },
        "pairs": {"possible": 4_144_000_000, "candidates": 921_000, "never_looked_at": 4_143_079_000, "windows": 12},
        "lanes": {
            "exact": {"pairs": 1_911, "only_this_lane": 1_911, "verified": 1_911},
            "minhash": {"pairs": 8_200, "only_this_lane": 420, "verified": 3_311},
            "neighbour": {"pairs": 910_000, "only_this_lane": 902_220, "verified": 2_890},
        },
        "labels": {
            "duplicates": 400 if labels else 0,
            "others": 700 if labels else 0,
            "constructed_duplicates": 0,
            "constructed_others": 0,
            "invalid": {},
            "conflicts": 2 if labels else 0,
            "adjudicated": 1 if labels else 0,
            "agreement": sample_agreement() if labels else None,
        },
    }


def sample_second() -> dict[str, Any]:
    side = {"threshold": 0.96, "precision": 0.9, "recall_pipeline": 0.85, "auc": 0.97, "edge": False, "sweep": []}
    return {
        "vector": "symmetric",
        "passage_prompt": "query: ",
        "verdict": "better",
        "words": "The second vectors judge duplicates better.",
        "labels": {"duplicates": 400, "others": 700, "left_out": 0},
        "difference": {"value": 0.05, "low": 0.01, "high": 0.09},
        "auc_difference": {"value": 0.01, "low": -0.01, "high": 0.03},
        "first": side,
        "second": side | {"threshold": 0.94, "precision": 0.93, "recall_pipeline": 0.87},
        "cost": {"bytes_per_row": 1536, "bytes": 139_776_000, "texts": 89_000, "encoded": 0, "seconds": None},
    }


def sample_agreement() -> dict[str, Any]:
    """100 pairs judged by two people: 47 yes and 50 no by both, and 3 by one alone."""
    agreed = wilson(97, 100).as_dict()
    both = {"labellers": ["ann", "ben"], "agreed": agreed, "kappa": 0.94}
    return {"labellers": 2, "agreed": agreed, "kappa": 0.94, "by_labellers": [both]}
