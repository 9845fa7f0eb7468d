from __future__ import annotations

import numpy as np

from audit_pipeline.encoder.alignment import first_misaligned_row, seek, seek_owners
from audit_pipeline.encoder.calibration import cosine_loss


def vectors_of(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, 16)).astype(np.float32)


def sought(right: np.ndarray, stored: np.ndarray, rows: list[int], usable: np.ndarray | None = None):
    return seek(
        right[rows],
        np.array(rows),
        stored,
        np.ones(len(stored), dtype=bool) if usable is None else usable,
        1e-4,
        lambda asked: cosine_loss(stored[asked], right[asked]),
    )


def test_a_text_held_by_an_earlier_row_gives_a_positive_shift():
    right = vectors_of(40)
    stored = np.roll(right, -3, axis=0)  # row i holds the vector of row i + 3
    found = sought(right, stored, [3, 10, 39])
    assert found.shift.tolist() == [3, 3, 3]
    assert not found.own_first.any()


def test_rows_in_step_are_found_at_their_own_place_only():
    right = vectors_of(40)
    found = sought(right, right, [0, 7])
    assert np.isnan(found.shift).all()
    assert found.own_first.all()


def test_a_copy_that_is_faithful_to_its_own_text_holds_nothing_of_another_row():
    right = vectors_of(10)
    right[4] = right[9]
    stored = right.copy()
    stored[9] = -stored[9]  # drifted; row 4 rightly holds the same text's vector
    found = sought(right, stored, [9])
    assert np.isnan(found.shift).all()
    assert not found.own_first[0]


def test_an_unusable_row_holds_nothing():
    right = vectors_of(10)
    stored = np.roll(right, 1, axis=0)
    usable = np.ones(10, dtype=bool)
    usable[6] = False
    assert np.isnan(sought(right, stored, [5], usable).shift).all()
    assert sought(right, stored, [5]).shift.tolist() == [-1]


def test_the_run_of_rows_out_of_step_is_bounded_by_bisection():
    asked: list[int] = []

    def is_misaligned(row: int) -> bool:
        asked.append(row)
        return row >= 41_200

    assert first_misaligned_row(-1, 380_000, is_misaligned) == 41_200
    assert len(asked) <= 19
    assert first_misaligned_row(9, 10, is_misaligned) == 10


def owners(right: np.ndarray, stored: np.ndarray, rows: list[int]) -> list[int]:
    usable = np.ones(len(stored), dtype=bool)
    found = seek_owners(np.array(rows), stored, usable, 1e-4, lambda asked: cosine_loss(stored[asked], right[asked]))
    return found.tolist()


def test_rows_that_repeat_the_vector_of_one_of_them_hold_its_text():
    right = vectors_of(12)
    stored = right.copy()
    stored[5:8] = right[4]
    assert owners(right, stored, [5, 6, 7]) == [4, 4, 4]
    stored[10] = right[4]
    right[9] = right[4]  # of two rows with one text, both rightly encoded, the nearest
    stored[9] = right[9]
    assert owners(right, stored, [10, 5]) == [9, 4]


def test_rows_that_share_a_vector_of_no_text_of_theirs_have_no_owner():
    right = vectors_of(12)
    stored = right.copy()
    stored[5:8] = np.full(16, 0.25)
    assert owners(right, stored, [5, 6, 7]) == [-1, -1, -1]
    assert owners(right, stored, [1, 2]) == [-1, -1]  # a vector of one row alone
