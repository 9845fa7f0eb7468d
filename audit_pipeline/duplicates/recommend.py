"""Exchange rates between the rows of a sweep, the recommended row, and how sure it is. Counting pairs is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit_pipeline.duplicates.label_draws import drawn_by, label_draws

LEAST_LABELS = 30
LEAST_AUC = 0.75
_EQUAL = 1e-9
_DIGITS = 12


@dataclass(frozen=True)
class Step:
    """What the step from the row before to this one gains and pays; None where it has no meaning."""

    precision_gained: float | None
    recall_paid: float | None
    exchange: float | None
    inverted: bool | None


def steps(precision: list[float | None], recall: list[float | None]) -> list[Step]:
    """One step per row of a sweep in ascending threshold; the first row has none.

    ``exchange`` is precision gained per recall paid, None where nothing is paid; a step is inverted where it pays more
    than it gains.
    """
    result = [Step(None, None, None, None)]
    for row in range(1, len(precision)):
        gained, paid = _minus(precision[row], precision[row - 1]), _minus(recall[row - 1], recall[row])
        if gained is None or paid is None:
            result.append(Step(gained, paid, None, None))
            continue
        pays = paid > _EQUAL
        result.append(Step(gained, paid, gained / paid if pays else None, pays and paid - gained > _EQUAL))
    return result


def best_row(precision: list[float | None], recall: list[float | None]) -> int | None:
    """Row with the largest precision + recall, ties to the higher threshold; None where no row has both."""
    best, best_sum = None, -np.inf
    for row, (p, r) in enumerate(zip(precision, recall, strict=True)):
        if p is not None and r is not None and p + r >= best_sum - _EQUAL:
            best, best_sum = row, max(best_sum, p + r)
    return best


def area_under_curve(cosine: np.ndarray, duplicate: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """AUC of the cosine as a score for "duplicate", one per row of ``weights`` (draws, n); NaN with an empty class.

    The share of (duplicate, non-duplicate) pairs in the right order, ties half (Hanley & McNeil 1982), each labelled
    pair counted with its weight.
    """
    # Equal cosines differ in their last digits by the order in which their products were summed: they are ties.
    cosine = np.round(cosine, _DIGITS)
    order = np.argsort(cosine, kind="stable")
    _, group = np.unique(cosine[order], return_inverse=True)
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else np.empty(0, dtype=np.int64)
    if not len(starts):
        return np.full(len(weights), np.nan)
    ordered = weights[:, order].astype(float)
    positive = np.add.reduceat(np.where(duplicate[order], ordered, 0.0), starts, axis=1)
    negative = np.add.reduceat(np.where(duplicate[order], 0.0, ordered), starts, axis=1)
    below = np.cumsum(negative, axis=1) - negative
    total = positive.sum(axis=1) * negative.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, (positive * (below + negative / 2)).sum(axis=1) / total, np.nan)


@dataclass(frozen=True)
class Resampled:
    """95 % intervals over bootstrap draws: (rows, 2) for precision and recall (NaN: none), the row, and the AUC.

    ``auc`` is that of the labels, each counted once. ``queue`` is the precision with each label counted by its weight
    in the queue, ``auc_weighted`` the AUC with ``weights`` (n,), those of labels under the lowest cut being 0; NaN and
    None without weights.
    """

    precision: np.ndarray
    recall: np.ndarray
    row_low: int | None
    row_high: int | None
    auc: float
    auc_low: float
    queue: np.ndarray
    weights: np.ndarray | None
    auc_weighted: float
    auc_weighted_low: float
    drawn_by: str  # of label_draws


def resample(
    a: np.ndarray,
    b: np.ndarray,
    cosine: np.ndarray,
    duplicate: np.ndarray,
    candidate: np.ndarray,
    cuts: np.ndarray,
    weights: np.ndarray | None = None,
    seed: int = 0,
) -> Resampled:
    """Bootstrap over the labels as label_draws draws them.

    ``a, b`` name the chunks of each labelled pair; ``cuts`` (rows,) are the lowest cosines that pass, ascending;
    ``weights`` (n,) say how many candidates each label stands for; they stay as they are in every draw.
    """
    passing = cosine[:, None] >= cuts[None, :]
    weight = np.zeros(len(cosine)) if weights is None else weights
    true, false = passing & duplicate[:, None], passing & ~duplicate[:, None]
    parts = (true, false, true & candidate[:, None], true * weight[:, None], false * weight[:, None])
    per_label = np.concatenate((*parts, duplicate[:, None]), axis=1).astype(float)
    reached = weight * (cosine >= cuts[0])
    precisions, recalls, queues, aucs, weighted, rows = [], [], [], [], [], []
    for drawn in label_draws(a, b, seed):
        totals = drawn.astype(float) @ per_label
        tp, fp, found, heavy, light = np.split(totals[:, :-1], 5, axis=1)
        precision, recall = _ratio(tp, tp + fp), _ratio(found, totals[:, -1:])
        precisions.append(precision)
        recalls.append(recall)
        queues.append(_ratio(heavy, heavy + light))
        rows.append(_best_rows(precision + recall))
        aucs.append(area_under_curve(cosine, duplicate, drawn))
        if weights is not None:
            weighted.append(area_under_curve(cosine, duplicate, drawn * reached))
    chosen = np.concatenate(rows)
    chosen = np.sort(chosen[chosen >= 0])
    return Resampled(
        precision=_interval(np.concatenate(precisions)),
        recall=_interval(np.concatenate(recalls)),
        row_low=int(chosen[int(0.025 * (len(chosen) - 1))]) if len(chosen) else None,
        row_high=int(chosen[int(np.ceil(0.975 * (len(chosen) - 1)))]) if len(chosen) else None,
        auc=float(area_under_curve(cosine, duplicate, np.ones((1, len(cosine))))[0]),
        auc_low=_lower_bound(aucs),
        queue=_interval(np.concatenate(queues)),
        weights=None if weights is None else reached,
        auc_weighted=np.nan if weights is None else float(area_under_curve(cosine, duplicate, reached[None])[0]),
        auc_weighted_low=np.nan if weights is None else _lower_bound(weighted),
        drawn_by=drawn_by(a, b),
    )


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def _lower_bound(draws: list[np.ndarray]) -> float:
    return float(_interval(np.concatenate(draws)[:, None])[0, 0])


def _minus(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _best_rows(sums: np.ndarray) -> np.ndarray:
    """best_row of every draw, -1 where none."""
    filled = np.where(np.isnan(sums), -np.inf, sums)
    best = filled.max(axis=1)
    is_best = filled >= best[:, None] - _EQUAL
    last = sums.shape[1] - 1 - np.argmax(is_best[:, ::-1], axis=1)
    return np.where(np.isneginf(best), -1, last)


def _interval(values: np.ndarray) -> np.ndarray:
    """(columns, 2) percentile interval of each column over its draws that have a value."""
    result = np.full((values.shape[1], 2), np.nan)
    for column in range(values.shape[1]):
        known = values[~np.isnan(values[:, column]), column]
        if len(known):
            result[column] = np.quantile(known, (0.025, 0.975))
    return result
