"""Which AUC decides whether a threshold is recommended, and what is said of the queue at it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from audit_pipeline import schemas
from audit_pipeline.duplicates.labelled_pairs import LabelledPairs
from audit_pipeline.duplicates.recommend import Resampled
from audit_pipeline.duplicates.separation import CANDIDATES, LABELS, Separation, queue_words, separation_of
from audit_pipeline.duplicates.stages import _recommend
from audit_pipeline.duplicates.sweep import Candidates, Judged, sweep_table

EDGES = (0.5, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0)
THRESHOLDS = [0.9, 0.92, 0.94, 0.96, 0.98]
EASY = 20_000


def drawn_by_band(
    duplicates: list[int], others: list[int], read: list[tuple[int, int]], sought: int = 0, seed: int = 0
) -> tuple[Candidates, Judged]:
    """Candidates over the bands of EDGES: ``duplicates`` and ``others`` of them in each, and how many were ``read``.

    ``sought`` duplicates of the lowest band were labelled beside them, without a band. Each pair joins two chunks of
    its own, so that each label is a family of its own.
    """
    generator = np.random.default_rng(seed)
    cosines, classes, bands, labelled = [], [], [], []
    for (low, high), same, different, (of_same, of_different) in zip(
        pairwise(EDGES), duplicates, others, read, strict=True
    ):
        cosines.append(generator.uniform(low, high - 1e-6, same + different))
        classes.append(np.arange(same + different) < same)
        bands += [f"{low:.2f}-{high:.2f}"] * (same + different)
        chosen = np.zeros(same + different, dtype=bool)
        chosen[:of_same] = chosen[same : same + of_different] = True
        labelled.append(chosen)
    cosines.append(generator.uniform(*EDGES[:2], sought))
    classes.append(np.ones(sought, dtype=bool))
    labelled.append(np.ones(sought, dtype=bool))
    cosine, duplicate, chosen = np.concatenate(cosines), np.concatenate(classes), np.concatenate(labelled)
    a, b = 2 * np.arange(len(cosine)), 2 * np.arange(len(cosine)) + 1
    candidates = Candidates(a, b, cosine, np.arange(2 * len(cosine)))
    named = [*bands, *[None] * sought]
    band: list[str | None] = [name for name, one in zip(named, chosen.tolist(), strict=True) if one]
    labels = LabelledPairs(a[chosen], b[chosen], duplicate[chosen], np.ones(chosen.sum(), dtype=bool), band, {})
    return candidates, Judged(labels, cosine[chosen], np.ones(chosen.sum(), dtype=bool))


def judged_by(candidates: Candidates, judged: Judged) -> tuple[dict[str, Any], Separation, Resampled, pa.Table]:
    floor, reach = schemas.SIMILARITY_FLOOR.empty_table(), np.full(3, np.nan)
    table, resampled = sweep_table(candidates, judged, floor, reach, THRESHOLDS, [None] * len(THRESHOLDS))
    assert resampled is not None
    separation = separation_of(resampled, judged, table)
    recommended, found = _recommend(table, judged, resampled, separation, floor, THRESHOLDS)
    assert bool(found) == (recommended["threshold"] is None)
    return recommended, separation, resampled, table


def test_easy_pairs_under_the_sweep_do_not_buy_a_threshold_that_sorts_nothing() -> None:
    # Over .9 a tenth of the candidates of each band are duplicates: no cut is better than another.
    candidates, judged = drawn_by_band([0, *[40] * 5], [EASY, *[360] * 5], [(0, 40), *[(20, 180)] * 5])
    recommended, separation, _, _ = judged_by(candidates, judged)
    weights = np.where(judged.cosine < 0.9, EASY / 40, 2.0)
    over_all = roc_auc_score(judged.labels.duplicate, judged.cosine, sample_weight=weights)
    assert over_all > 0.9
    assert separation.decides == CANDIDATES
    assert separation.candidates is not None
    assert separation.candidates.value == pytest.approx(0.5, abs=0.05)
    assert (separation.candidates.duplicates, separation.candidates.others) == (100, 900)
    assert recommended["threshold"] is None
    assert "among the candidates from 0.9 (AUC 0." in recommended["reason"]


def test_a_draw_that_makes_the_classes_look_alike_does_not_hide_that_the_candidates_separate() -> None:
    # Over .9 duplicates lie high and others low; but 300 duplicates of a low cosine were sought out by name.
    duplicates, others = [0, 10, 10, 20, 100, 300], [EASY, 3000, 2000, 600, 100, 20]
    read = [(0, 40), (1, 100), (1, 100), (4, 120), (50, 50), (150, 10)]
    candidates, judged = drawn_by_band(duplicates, others, read, sought=300)
    recommended, separation, _, _ = judged_by(candidates, judged)
    assert separation.labels.value < 0.75
    assert (separation.decides, separation.suffices) == (CANDIDATES, True)
    assert recommended["threshold"] is not None
    assert "hardly tells" not in recommended["reason"]
    plain = Judged(replace(judged.labels, band=[None] * len(judged.labels)), judged.cosine, judged.candidate)
    recommended, separation, _, _ = judged_by(candidates, plain)
    assert (separation.candidates, separation.decides, recommended["threshold"]) == (None, LABELS, None)


def test_a_sweep_that_begins_where_most_pairs_are_duplicates_needs_nothing_sorted_within_it() -> None:
    # Four fifths of the candidates over .9 are duplicates, evenly: the cosine separates them from what lies below.
    candidates, judged = drawn_by_band([0, *[80] * 5], [EASY, *[20] * 5], [(0, 400), *[(40, 10)] * 5])
    recommended, separation, _, table = judged_by(candidates, judged)
    assert table["precision_queue"][0].as_py() == pytest.approx(0.8)
    assert separation.candidates is not None
    assert separation.candidates.low < 0.75
    assert (separation.decides, separation.suffices) == (LABELS, True)
    assert (recommended["threshold"], recommended["edge"]) == (0.9, True)
    assert (
        "Among the candidates from 0.9 upwards the cosine hardly tells duplicates from others (AUC 0.5"
        in (recommended["caution"])
    )
    assert recommended["caution"] in recommended["reason"]


def test_too_few_labels_of_a_class_over_the_lowest_threshold_cannot_decide() -> None:
    candidates, judged = drawn_by_band([0, *[40] * 5], [EASY, *[360] * 5], [(0, 400), *[(5, 100)] * 5])
    _, separation, _, _ = judged_by(candidates, judged)
    assert separation.candidates is not None
    assert (separation.candidates.duplicates, separation.decides) == (25, LABELS)


def test_the_weighted_figures_are_those_of_another_implementation() -> None:
    candidates, judged = drawn_by_band(
        [5, 10, 20, 30, 60, 90], [EASY, 900, 500, 200, 100, 30], [(2, 38), *[(8, 30)] * 4, (30, 20)], seed=3
    )
    _, separation, resampled, table = judged_by(candidates, judged)
    counted = np.histogram(candidates.cosine, EDGES)[0] / np.histogram(judged.cosine, EDGES)[0]
    weights = counted[np.searchsorted(EDGES, judged.cosine, side="right") - 1]
    over = judged.cosine >= 0.9
    duplicate = judged.labels.duplicate
    expected = roc_auc_score(duplicate[over], judged.cosine[over], sample_weight=weights[over])
    assert separation.candidates is not None
    assert separation.candidates.value == pytest.approx(expected)
    for number, threshold in enumerate(THRESHOLDS):
        passes = judged.cosine >= threshold
        row = table.slice(number, 1).to_pylist()[0]
        assert row["precision_queue"] == pytest.approx(np.average(duplicate[passes], weights=weights[passes]))
        assert row["precision_queue_n"] == passes.sum()
    # Each label is a family: the bootstrap draws labels, all of them with the same chance.
    generator = np.random.default_rng(99)
    areas, shares = [], []
    for _ in range(500):
        picked = generator.integers(0, len(judged.cosine), len(judged.cosine))
        inside = picked[over[picked]]
        areas.append(roc_auc_score(duplicate[inside], judged.cosine[inside], sample_weight=weights[inside]))
        shares.append(np.average(duplicate[inside], weights=weights[inside]))
    assert separation.candidates.low == pytest.approx(np.quantile(areas, 0.025), abs=0.02)
    assert resampled.queue[0] == pytest.approx(np.quantile(shares, (0.025, 0.975)), abs=0.02)


def row_of(share: float | None, n: int = 200) -> dict[str, Any]:
    low, high = (None, None) if share is None else (share - 0.05, share + 0.05)
    return {
        "precision_queue": share,
        "precision_queue_low": low,
        "precision_queue_high": high,
        "precision_queue_n": n if share is not None else 0,
    }


def test_a_low_precision_of_the_queue_is_said_and_a_missing_one_is_not_measured() -> None:
    low = queue_words(row_of(0.3))
    assert "an estimated 30 % are duplicates (25 to 35 %, n 200)" in low
    assert "not a list to delete" in low
    assert "not a list to delete" not in queue_words(row_of(0.93))
    assert "not measured" in queue_words(row_of(None))
