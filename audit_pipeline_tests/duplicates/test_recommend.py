import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from audit_pipeline.duplicates.recommend import area_under_curve, best_row, resample, steps

THRESHOLDS = [0.90, 0.94, 0.96, 0.97, 0.98]
# One gains .36 .22 .07 .03 of precision and pays .03 .08 .17 .29 of recall.
PRECISION = [0.30, 0.66, 0.88, 0.95, 0.98]
RECALL = [0.98, 0.95, 0.87, 0.70, 0.41]


def test_the_worked_example_exchanges_at_twelve_two_and_three_quarters_and_then_under_one():
    found = steps(PRECISION, RECALL)
    assert found[0].exchange is None
    assert [round(step.exchange, 2) for step in found[1:]] == [12.0, 2.75, 0.41, 0.10]
    assert [step.inverted for step in found[1:]] == [False, False, True, True]


def test_the_worked_example_recommends_the_last_row_before_the_inversion():
    assert THRESHOLDS[best_row(PRECISION, RECALL)] == 0.96


def test_a_local_peak_does_not_win_over_the_highest_sum():
    # The third step is inverted, the fourth is not: the sums are 1.2, 1.5, 1.45, 1.6.
    precision, recall = [0.3, 0.65, 0.70, 0.95], [0.9, 0.85, 0.75, 0.65]
    assert [step.inverted for step in steps(precision, recall)] == [None, False, True, False]
    assert best_row(precision, recall) == 3


def test_ties_go_to_the_higher_threshold():
    assert best_row([0.5, 0.7, 0.8], [0.9, 0.8, 0.7]) == 2


def test_nothing_paid_has_no_exchange_and_is_not_inverted():
    [_, step] = steps([0.5, 0.6], [0.9, 0.9])
    assert (step.exchange, step.inverted) == (None, False)
    assert step.precision_gained == pytest.approx(0.1)
    assert step.recall_paid == 0


def test_a_step_that_pays_and_loses_precision_is_inverted():
    [_, step] = steps([0.6, 0.5], [0.9, 0.8])
    assert step.exchange == pytest.approx(-1)
    assert step.inverted is True


def test_rows_without_precision_are_neither_stepped_nor_recommended():
    found = steps([0.5, None], [0.9, 0.0])
    assert (found[1].precision_gained, found[1].exchange, found[1].inverted) == (None, None, None)
    assert best_row([0.5, None], [0.9, 0.0]) == 0
    assert best_row([None, None], [0.0, 0.0]) is None


def test_the_area_under_the_curve_is_that_of_another_implementation_with_ties_and_weights():
    generator = np.random.default_rng(0)
    cosine = np.round(generator.random(200), 1)
    duplicate = generator.random(200) < 0.4
    weights = generator.integers(0, 4, (3, 200))
    found = area_under_curve(cosine, duplicate, weights)
    for row, weight in zip(found, weights, strict=True):
        assert row == pytest.approx(roc_auc_score(duplicate, cosine, sample_weight=weight))


def test_one_class_has_no_area():
    assert np.isnan(area_under_curve(np.array([0.1, 0.2]), np.array([True, True]), np.ones((1, 2))))[0]


def labelled(component_size):
    """600 labels, 300 of each class, in families of this size whose pairs all behave alike."""
    generator = np.random.default_rng(1)
    families = 600 // component_size
    duplicate = np.repeat(np.arange(families) % 2 == 0, component_size)
    cosine = np.repeat(generator.normal(0.9, 0.03, families), component_size) + np.where(duplicate, 0.03, 0)
    centre = np.repeat(np.arange(families), component_size) * 1000
    return centre, centre + 1 + np.tile(np.arange(component_size), families), cosine, duplicate


def test_the_interval_of_independent_labels_is_that_of_a_binomial():
    a, b, cosine, duplicate = labelled(1)
    found = resample(a, b, cosine, duplicate, np.ones(600, dtype=bool), np.array([0.92]))
    recall = np.mean(cosine[duplicate] >= 0.92)
    half = 1.96 * np.sqrt(recall * (1 - recall) / 300)
    assert found.recall[0] == pytest.approx([recall - half, recall + half], abs=0.015)


def test_labels_of_one_family_count_as_one_and_widen_the_interval():
    def width(size):
        a, b, cosine, duplicate = labelled(size)
        found = resample(a, b, cosine, duplicate, np.ones(600, dtype=bool), np.array([0.92]))
        return found.recall[0, 1] - found.recall[0, 0]

    assert width(10) > 2 * width(1)


def test_the_bootstrap_is_the_same_each_time():
    a, b, cosine, duplicate = labelled(2)
    cuts = np.array([0.88, 0.92, 0.96])
    one, other = (resample(a, b, cosine, duplicate, np.ones(600, dtype=bool), cuts) for _ in range(2))
    assert np.array_equal(one.precision, other.precision)
    assert (one.row_low, one.row_high, one.auc_low) == (other.row_low, other.row_high, other.auc_low)
