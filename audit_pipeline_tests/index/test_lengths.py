from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.index.lengths import Lengths, at_stored_length, at_usual_length, norms, summarised
from audit_pipeline.index.snapshot import USABLE, ZERO, TableSnapshot
from audit_pipeline_tests.retrieval.worlds import chunk_table, on_circle, snapshot

ANGLES = (0, 20, 40, 60)
UNIT = on_circle(*ANGLES)
ROWS = np.arange(4)


def stored(lengths: list[float], metric: str = "dot", state: np.ndarray | None = None) -> TableSnapshot:
    ids = [f"c{i}" for i in range(len(lengths))]
    vectors = UNIT[: len(lengths)] * np.array(lengths, np.float32)[:, None]
    return snapshot(chunk_table(ids, ids), vectors, metric=metric, state=state)


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_vectors_of_one_length_get_that_of_the_row_they_stand_for(metric: str) -> None:
    scaled, count = at_stored_length(stored([2.5, 2.5, 1.0, 0.4], metric), ROWS, UNIT)
    assert norms(scaled) == pytest.approx([2.5, 2.5, 1.0, 0.4], rel=1e-6)
    assert (count, scaled.dtype) == (3, np.float32)
    assert np.allclose(scaled / norms(scaled)[:, None], UNIT, atol=1e-7)


def test_nothing_is_scaled_under_cosine_or_within_the_rounding_of_storage() -> None:
    for table in (stored([2.5] * 4, "cosine"), stored([1, 1.0004, 0.9996, 1])):
        same, count = at_stored_length(table, ROWS, UNIT)
        assert same is UNIT
        assert count == 0


def test_lengths_that_the_encoder_itself_varies_are_kept_up_to_one_factor() -> None:
    fresh = UNIT * np.array([[3.0], [4.0], [5.0], [6.0]], np.float32)
    kept, count = at_stored_length(stored([3.1, 4.2, 4.9, 6.3]), ROWS, fresh)
    assert kept is fresh
    assert count == 0
    doubled, count = at_stored_length(stored([6, 8, 10, 12]), ROWS, fresh)
    assert norms(doubled) == pytest.approx([6, 8, 10, 12], rel=1e-6)
    assert count == 4
    normalised, _ = at_stored_length(stored([1, 1, 1, 1]), ROWS, fresh)
    assert norms(normalised) == pytest.approx([1, 1, 1, 1], rel=1e-6)


def test_a_row_without_a_usable_vector_has_no_length_to_take() -> None:
    state = np.array([USABLE, ZERO, USABLE, USABLE], np.uint8)
    scaled, count = at_stored_length(stored([2, 0, 2, 2], state=state), ROWS, UNIT)
    assert norms(scaled) == pytest.approx([2, 1, 2, 2], rel=1e-6)
    assert count == 3


def test_a_whole_text_takes_the_usual_length_though_its_own_row_has_another() -> None:
    ids = [f"c{i}" for i in range(20)]
    lengths = np.full((20, 1), 2.5, np.float32)
    lengths[3] = 1
    vectors = on_circle(*range(20)) * lengths
    made = snapshot(chunk_table(ids, ids), vectors, metric="dot")
    fresh = at_usual_length(made, np.array([3, 4]), on_circle(3, 4))
    assert norms(fresh) == pytest.approx([2.5, 2.5], rel=1e-6)
    # Of four rows no length is that of nine in ten.
    uneven = at_usual_length(stored([1, 2, 3, 4]), ROWS, UNIT)
    assert norms(uneven) == pytest.approx([1, 2, 3, 4], rel=1e-6)


def test_even_are_lengths_that_no_metric_tells_apart() -> None:
    def even(*lengths: float) -> bool:
        return summarised(np.array(lengths), np.ones(len(lengths), bool)).even

    assert even(2.5, 2.505, 2.5)
    assert not even(2.5, 2.52, 2.5)
    assert even(0.4, 0.4039)
    assert not even(0.4, 0.405)  # over one in a hundred of the length
    assert not even(100, 100.5)  # l2 tells them apart, where queries have length 1
    assert not Lengths(0, 0, 0).even
    assert summarised(np.array([1.0, 9.0]), np.array([True, False])) == Lengths(1, 1, 1)
