"""How labelled pairs are drawn again: by component or, where one holds most of them, by chunk; and what that covers."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.duplicates.label_draws import CHUNKS, COMPONENTS, DRAWS, drawn_by, label_draws
from audit_pipeline.duplicates.recommend import resample


def draws_of(a: list[int], b: list[int]) -> np.ndarray:
    return np.concatenate(list(label_draws(np.array(a), np.array(b))))


def test_separate_pairs_are_drawn_as_components_and_add_up_to_their_number() -> None:
    drawn = draws_of([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
    assert drawn.shape == (DRAWS, 5)
    assert set(drawn.sum(axis=1)) == {5}


def test_a_component_of_a_third_is_drawn_whole_and_a_larger_one_by_its_chunks() -> None:
    # Pairs 0-1 and 1-2 are two of six labels, then two of five.
    six = [0, 1, 10, 12, 14, 16], [1, 2, 11, 13, 15, 17]
    assert drawn_by(*map(np.array, six)) == COMPONENTS
    drawn = draws_of(*six)
    assert np.array_equal(drawn[:, 0], drawn[:, 1])
    five = [ids[:5] for ids in six]
    assert drawn_by(*map(np.array, five)) == CHUNKS
    drawn = draws_of(*five)
    assert not np.array_equal(drawn[:, 0], drawn[:, 1])


def test_a_pair_counts_as_the_product_of_its_chunks() -> None:
    # All four pairs of 0, 1 with 2, 3: of four numbers of copies w the counts are w0 w2, w0 w3, w1 w2, w1 w3.
    drawn = draws_of([0, 0, 1, 1], [2, 3, 2, 3])
    assert np.array_equal(drawn[:, 0] * drawn[:, 3], drawn[:, 1] * drawn[:, 2])
    # (w0 + w1) (w2 + w3) with four copies in all: at most 2 x 2, and 0 where one side is not drawn.
    assert {0, 3, 4} == set(drawn.sum(axis=1))
    # Multinomial: E[w0 w2] = 4 x 3 / 16.
    assert drawn[:, 0].mean() == pytest.approx(0.75, abs=0.1)


def dense_labels(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """300 pairs of 60 texts, one component: each text makes its pairs likelier or less likely to be duplicates.

    Duplicates lie .02 higher in cosine, which each text shifts as well.
    """
    left, right = np.triu_indices(60, 1)
    chosen = generator.choice(len(left), 300, replace=False)
    a, b = left[chosen], right[chosen]
    likely, shift = generator.normal(0, 1, 60), generator.normal(0, 0.01, 60)
    duplicate = likely[a] + likely[b] + generator.normal(0, 1, 300) > 0
    return a, b, 0.92 + shift[a] + shift[b] + 0.02 * duplicate + generator.normal(0, 0.01, 300), duplicate


def test_the_interval_of_a_dense_graph_covers_the_truth_at_least_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    cuts = np.array([0.0, 0.93])
    many = [dense_labels(generator) for _ in range(2000)]
    # By symmetry half of all pairs are duplicates; the truth over the cut is that of 600,000 pairs.
    over = np.concatenate([duplicate[cosine >= 0.93] for _, _, cosine, duplicate in many]).mean()
    precisions, width = [], []
    for a, b, cosine, duplicate in many[:80]:
        assert drawn_by(a, b) == CHUNKS
        found = resample(a, b, cosine, duplicate, np.ones(300, dtype=bool), cuts)
        precisions.append(found.precision)
        width.append(found.precision[0, 1] - found.precision[0, 0])
    intervals = np.array(precisions)
    covered = (intervals[:, :, 0] <= [0.5, over]) & (intervals[:, :, 1] >= [0.5, over])
    # 95 % of 80 is 76; under 71 would be a chance of 1.6 % for an interval that keeps its word.
    assert (covered.sum(axis=0) >= 71).all()
    # A Wilson interval of 300 independent pairs is .113 wide and covers the truth about every second time.
    wilson = np.array([abs(duplicate.mean() - 0.5) <= 0.0566 for _, _, _, duplicate in many[:80]])
    assert wilson.mean() < 0.75
    assert np.mean(width) < 0.45
