"""Findings of the duplicate stages: when they are raised and what they say. Nothing is measured here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.duplicates.chains import Chains
from audit_pipeline.duplicates.labelled_pairs import INVALID
from audit_pipeline.duplicates.minhash_pairs import HotBucket
from audit_pipeline.duplicates.minhash_recall import RecallPoint
from audit_pipeline.duplicates.pair_table import Pairs
from audit_pipeline.duplicates.recommend import LEAST_AUC, LEAST_LABELS
from audit_pipeline.duplicates.rows import Nodes
from audit_pipeline.duplicates.separation import CANDIDATES, Separation
from audit_pipeline.findings import Finding
from audit_pipeline.proportions import Proportion

ENOUGH_LABELS = 300
LEAST_NEIGHBOUR_RECALL = 0.95
MOST_MISSED = 0.05


def hot_buckets(hot: list[HotBucket], ids: pa.Array, cap: int) -> list[Finding]:
    """hot_bucket: text that very many chunks share was joined as stars; ``ids`` are those of the signature rows."""
    if not hot:
        return []
    largest = max(hot, key=lambda bucket: (bucket.size, -bucket.centre))
    centres = sorted({bucket.centre for bucket in hot})
    return [
        Finding(
            code="hot_bucket",
            severity="info",
            message=f"{len(hot)} MinHash buckets hold more than {cap} different texts (the largest {largest.size}): "
            "near-identical text such as a footer or a generated table; each was joined to its earliest chunk only.",
            remedy="Look at the examples; take boilerplate out before chunking, or raise duplicates.bucket_cap.",
            n_compared=len(ids),
            share=largest.size / len(ids),
            evidence={"buckets": len(hot), "largest": largest.size, "cap": cap},
            examples=[str(ids[centre]) for centre in centres],
        )
    ]


def minhash_recall_low(points: list[RecallPoint]) -> list[Finding]:
    """candidates_missed: planted pairs were found less often than the bands must find them."""
    low = [point for point in points if point.n and point.found < point.low_count]
    return [
        Finding(
            code="candidates_missed",
            severity="warning",
            message=f"MinHash found {point.found} of {point.n} planted pairs of Jaccard {point.jaccard}, where "
            f"{point.expected:.3f} of them are expected and at least {point.low_count} with 99.9 % confidence.",
            remedy="Raise duplicates.permutations and duplicates.bands together, and report the text that shows this.",
            n_compared=point.n,
            share=1 - point.found / point.n,
            evidence={"lane": "minhash", "jaccard": point.jaccard, "found": point.found, "expected": point.expected},
        )
        for point in low
    ]


def neighbours_missed(recall: Proportion) -> list[Finding]:
    """candidates_missed: the private index loses neighbours that an exact scan finds."""
    if recall.value is None or recall.value >= LEAST_NEIGHBOUR_RECALL:
        return []
    return [
        Finding(
            code="candidates_missed",
            severity="warning",
            message=f"The neighbour lane's index found {recall.value:.1%} of the neighbours that an exact scan of "
            f"{recall.n} texts finds.",
            remedy="Raise duplicates.neighbours, so that a loss at the end of the list matters less.",
            n_compared=recall.n,
            share=1 - recall.value,
            evidence={"lane": "neighbour", "recall": recall.as_dict()},
        )
    ]


def neighbours_not_measured(searched: int, representatives: int) -> list[Finding]:
    """not_measured: there were texts, but no vector to compare them by."""
    if searched or not representatives:
        return []
    return [
        Finding(
            code="not_measured",
            severity="info",
            message="No distinct text has a usable vector: paraphrases, floor and sweep were not measured.",
            remedy="Mend the vectors that invalid_vectors names, then run the audit again.",
            n_compared=0,
            evidence={"what": "neighbour_pairs", "texts": representatives},
        )
    ]


def chunk_windows(pairs: Pairs, nodes: Nodes, overlaps: np.ndarray) -> list[Finding]:
    """chunk_windows: neighbouring chunks of a document share text because the splitter overlaps them."""
    rows = np.flatnonzero(pairs.window)
    overlapping = overlaps[overlaps > 0]
    share = len(overlapping) / len(overlaps) if len(overlaps) else None
    typical = int(np.median(overlapping)) if len(overlapping) else None
    beside = "" if share is None else f" {share:.0%} of neighbouring chunks do, typically by {typical} words."
    return [
        Finding(
            code="chunk_windows",
            severity="info",
            message=f"{len(rows)} candidate pairs are overlapping windows of one document; they are in no cluster and "
            f"no sweep.{beside}",
            remedy="Nothing is wrong; a smaller overlap in the splitter makes the index smaller.",
            n_compared=len(overlaps) or len(pairs),
            share=share if len(overlaps) else len(rows) / len(pairs),
            evidence={"window_pairs": len(rows), "median_overlap": typical},
            examples=nodes.ids(np.unique(pairs.a[rows])[:5]).to_pylist(),
        )
    ]


def labels_invalid(invalid: dict[str, int], total: int) -> list[Finding]:
    """labels_invalid: labelled pairs that could not be used."""
    count = sum(invalid.values())
    if not count:
        return []
    reasons = "; ".join(f"{INVALID[name]}: {number:,}" for name, number in sorted(invalid.items()))
    return [
        Finding(
            code="labels_invalid",
            severity="warning",
            message=f"{count} of {total} labelled pairs were not used ({reasons}).",
            remedy="Correct or remove these rows of labels.pairs; judge changed texts again.",
            n_compared=total,
            share=count / total,
            evidence={"labels": "pairs", **invalid},
        )
    ]


def labels_few(duplicates: int, others: int) -> list[Finding]:
    """labels_few: fewer than 300 labelled pairs of origin corpus in a class, though there are some."""
    if min(duplicates, others) >= ENOUGH_LABELS or duplicates + others == 0:
        return []
    return [
        Finding(
            code="labels_few",
            severity="warning",
            message=f"Only {duplicates} duplicates and {others} non-duplicates of this corpus are labelled: a "
            f"threshold drawn from them is uncertain under {ENOUGH_LABELS} of each.",
            remedy="Label more pairs of this corpus, of both classes and over the whole range of scores: "
            "audit-pipeline label queue draws them.",
            n_compared=duplicates + others,
            evidence={"labels": "pairs", "duplicates": duplicates, "others": others},
        )
    ]


def no_usable_threshold(duplicates: int, others: int, separation: Separation | None) -> list[Finding]:
    """no_usable_threshold: too few labels, or a cosine that does not tell the two classes apart."""
    evidence: dict[str, Any] = {"duplicates": duplicates, "others": others, "auc": None, "auc_low": None}
    if separation is not None:
        deciding = separation.deciding
        evidence |= {"auc": deciding.value, "auc_low": deciding.low, "separation": separation.as_dict()}
    if separation is None or min(duplicates, others) < LEAST_LABELS:
        why = f"{duplicates} duplicates and {others} non-duplicates are labelled, {LEAST_LABELS} of each are needed"
    else:
        among = f" among the candidates from {separation.threshold:g}" if separation.decides == CANDIDATES else ""
        why = (
            f"the cosine hardly separates the classes{among} (AUC {deciding.value:.3f}, at least {deciding.low:.3f}; "
            f"{LEAST_AUC} is needed)"
        )
    return [
        Finding(
            code="no_usable_threshold",
            severity="warning",
            message=f"No cosine threshold can be recommended: {why}.",
            remedy="Label more pairs of this corpus; where the classes overlap, rely on the exact and MinHash lanes.",
            n_compared=duplicates + others,
            evidence=evidence,
        )
    ]


def labelled_missed(missed: int, passing: int, examples: list[str]) -> list[Finding]:
    """candidates_missed: labelled duplicates whose cosine passes, but that no lane proposed."""
    if not passing or missed / passing < MOST_MISSED:
        return []
    return [
        Finding(
            code="candidates_missed",
            severity="warning",
            message=f"{missed} of {passing} labelled duplicates above the lowest threshold were proposed by no lane.",
            remedy="Raise duplicates.neighbours: their neighbour lists are full of closer texts.",
            n_compared=passing,
            share=missed / passing,
            evidence={"lane": "all", "missed": missed},
            examples=examples,
        )
    ]


def chained_clusters(
    chains: Chains | None, chunks: int, threshold: float | None, redundancy: float | None, nodes: Nodes
) -> list[Finding]:
    """chained_clusters: clusters whose members are mostly tied only through others; ``redundancy`` is what it gives."""
    if chains is None:
        return []
    several = f"{chains.clusters} clusters" if chains.clusters > 1 else "One cluster"
    whose = "their representatives" if chains.clusters > 1 else "its representative"
    return [
        Finding(
            code="chained_clusters",
            severity="info",
            message=f"{several} at cosine {threshold:g} grew by chains: {chains.chain_only:,} of the {chains.texts:,} "
            f"distinct texts in them are not near {whose}, only near one that is near one. They are "
            f"{chains.chain_only / chunks:.1%} of the chunks: how redundant the corpus is by paraphrase is not told.",
            remedy="Label pairs (audit-pipeline label queue), so that a threshold rests on them, or extend "
            "duplicates.thresholds upwards; go by the exact and lexical redundancy until then.",
            n_compared=chunks,
            share=chains.chain_only / chunks,
            evidence={
                "threshold": threshold,
                "clusters": chains.clusters,
                "texts": chains.texts,
                "chain_only": chains.chain_only,
                "redundancy_with_chains": redundancy,
            },
            examples=nodes.ids(np.array([chains.largest])).to_pylist(),
        )
    ]
