"""The threshold sweep over one fixed candidate set: counts and shares. Which row wins is decided elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.duplicates.bands import BandWeights, band_weights
from audit_pipeline.duplicates.floor import ALL, TOLERANCE, share_name, statistic
from audit_pipeline.duplicates.labelled_pairs import LabelledPairs
from audit_pipeline.duplicates.recommend import Resampled, resample, steps


@dataclass(frozen=True)
class Candidates:
    """The candidate set that the sweep cuts: pairs a < b of ``chunks`` nodes, window pairs already left out.

    ``same_text`` (chunks,) numbers the exact groups: copies of one text go through the lanes as one, so a labelled pair
    counts as a candidate where any pair of the two groups is one.
    """

    a: np.ndarray
    b: np.ndarray
    cosine: np.ndarray
    same_text: np.ndarray

    @property
    def chunks(self) -> int:
        return len(self.same_text)

    def contains(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(len(a),) bool: the pair, or another pair of copies of its texts, is a candidate."""
        known = np.unique(self._groups(self.a, self.b))
        return np.isin(self._groups(a, b), known) | (self.same_text[a] == self.same_text[b])

    def _groups(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        left, right = self.same_text[a].astype(np.int64), self.same_text[b].astype(np.int64)
        return np.minimum(left, right) * self.chunks + np.maximum(left, right)


@dataclass(frozen=True)
class Judged:
    """Labelled pairs of origin corpus with what the pipeline makes of them."""

    labels: LabelledPairs
    cosine: np.ndarray
    candidate: np.ndarray

    @property
    def duplicates(self) -> int:
        return int(self.labels.duplicate.sum())

    @property
    def others(self) -> int:
        return len(self.labels) - self.duplicates


def sweep_table(
    candidates: Candidates,
    judged: Judged,
    floor: pa.Table,
    reach: np.ndarray,
    thresholds: list[float],
    store_score: list[float | None],
) -> tuple[pa.Table, Resampled | None]:
    """One row a threshold, ascending (schemas.THRESHOLD_SWEEP, nothing recommended yet), and the bootstrap behind it.

    ``reach`` is the cosine of each representative's last neighbour (NaN where it has fewer): a row is saturated at a
    threshold that this reaches. ``store_score`` is each threshold in the score that the store returns.
    """
    duplicate = judged.labels.duplicate
    cuts = np.array(thresholds) - TOLERANCE
    copies = candidates.same_text[candidates.a] == candidates.same_text[candidates.b]
    weights = weights_of(candidates, judged).weights
    resampled = None
    if judged.duplicates and judged.others:
        resampled = resample(
            judged.labels.a, judged.labels.b, judged.cosine, duplicate, judged.candidate, cuts, weights
        )
    chunks, size = candidates.chunks, len(candidates.a)
    rows: list[dict[str, object]] = []
    for number, (threshold, cut) in enumerate(zip(thresholds, cuts, strict=True)):
        passes = judged.cosine >= cut
        tp, fp = int(np.sum(passes & duplicate)), int(np.sum(passes & ~duplicate))
        found = int(np.sum(passes & duplicate & judged.candidate))
        flagged = int(np.sum(candidates.cosine >= cut))
        random_share = statistic(floor, ALL, share_name(threshold))
        rows.append(
            {
                "threshold": threshold,
                "threshold_store_score": store_score[number],
                "tp": tp,
                "fp": fp,
                "fn": judged.duplicates - tp,
                "precision": _share(tp, tp + fp),
                "precision_low": _bound(resampled.precision[number, 0]) if resampled else None,
                "precision_high": _bound(resampled.precision[number, 1]) if resampled else None,
                "precision_queue": _queue_precision(weights, passes, duplicate),
                "precision_queue_low": _bound(resampled.queue[number, 0]) if resampled else None,
                "precision_queue_high": _bound(resampled.queue[number, 1]) if resampled else None,
                "precision_queue_n": 0 if weights is None else int(np.sum(passes & (weights > 0))),
                "recall_scored": _share(tp, judged.duplicates),
                "recall_pipeline": _share(found, judged.duplicates),
                "recall_pipeline_low": _bound(resampled.recall[number, 0]) if resampled else None,
                "recall_pipeline_high": _bound(resampled.recall[number, 1]) if resampled else None,
                "flagged": flagged,
                "to_read": int(np.sum(candidates.cosine[~copies] >= cut)),
                "flagged_per_10k_candidates": _share(10_000 * flagged, size),
                "flagged_per_10k_chunks": _share(10_000 * flagged, chunks),
                "random_share": random_share,
                "expected_all_pairs": None if random_share is None else random_share * (chunks * (chunks - 1) / 2),
                "saturated_rows": int(np.sum(reach >= cut)),
                "recommended": False,
            }
        )
    precision, recall = ([row[name] for row in rows] for name in ("precision", "recall_pipeline"))
    for row, step in zip(rows, steps(precision, recall), strict=True):  # type: ignore[arg-type]
        row |= {
            "precision_gained": step.precision_gained,
            "recall_paid": step.recall_paid,
            "exchange": step.exchange,
            "inverted": step.inverted,
        }
    return pa.Table.from_pylist(rows, schema=schemas.THRESHOLD_SWEEP), resampled


def weights_of(candidates: Candidates, judged: Judged) -> BandWeights:
    """What each judged pair stands for. Equal texts need no reading: no queue that labels were drawn from has them."""
    copies = candidates.same_text[candidates.a] == candidates.same_text[candidates.b]
    return band_weights(judged.labels.band, judged.cosine, candidates.cosine[~copies])


def _queue_precision(weights: np.ndarray | None, passes: np.ndarray, duplicate: np.ndarray) -> float | None:
    if weights is None:
        return None
    total = float(weights[passes].sum())
    return float(weights[passes & duplicate].sum()) / total if total > 0 else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _bound(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
