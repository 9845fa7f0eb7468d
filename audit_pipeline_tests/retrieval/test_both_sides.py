"""One prompt on both sides against the configured pair, on vectors whose neighbours are plain to see."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.proportions import wilson
from audit_pipeline.retrieval.both_sides import Sides, compare_sides

ANSWERS = np.arange(12)


def axes(n: int = 24) -> np.ndarray:
    return np.eye(n, dtype=np.float32)


def sides(held_finds: int) -> Sides:
    """24 rows at right angles, 12 of them asked; the sentences of the first ``held_finds`` lie on their own bodies,
    those of the others on the bodies that are nearest to all rows but their own.
    """
    held = np.ones((12, 24), np.float32)
    held[np.arange(12), np.arange(12)] = 0.0
    held[:held_finds] = axes()[:held_finds]
    return Sides(axes()[:12], held, axes(), axes()[:12])


def test_what_one_prompt_on_both_sides_does_is_paired_and_told() -> None:
    found = compare_sides(sides(11), sides(2), ANSWERS, "cosine", "query: ", None)
    own, held = found["measures"]
    assert (own["measure"], own["configured"], own["both"]) == (
        "self@1",
        wilson(12, 12).as_dict(),
        wilson(12, 12).as_dict(),
    )
    assert (own["won"], own["lost"], own["p"], own["difference"]) == (0, 0, 1.0, 0.0)
    assert (held["configured"], held["both"]) == (wilson(11, 12).as_dict(), wilson(2, 12).as_dict())
    assert (held["won"], held["lost"]) == (0, 9)
    assert held["p"] == pytest.approx(2 / 2**9)
    assert held["difference"] == pytest.approx(-9 / 12)
    assert found["haystack"] == 24
    assert found["text"].startswith(
        "On a closed haystack of 24 rows, as configured against with 'query: ' in front on both sides: "
        "self@1 100.0 % -> 100.0 % (n 12; +0.0 points"
    )
    assert "heldout@10 91.7 % -> 16.7 % (n 12; -75.0 points" in found["text"]
    assert found["text"].endswith("cannot see a prompt that stands on both sides; held-out retrieval can.")


def test_a_difference_within_chance_is_said_to_be_so() -> None:
    found = compare_sides(sides(11), sides(10), ANSWERS, "cosine", "passage: ", "query: ")
    assert "with 'query: ' in front on both sides against with 'passage: ' in front on both sides" in found["text"]
    assert found["text"].endswith("here held-out stays within chance too.")


def test_a_body_stands_in_for_its_row() -> None:
    # The row of the whole text is still there to be found; the body lies opposite to the sentence.
    moved = sides(12)
    moved = Sides(moved.own, moved.held, moved.passages, -moved.bodies)
    _, held = compare_sides(sides(12), moved, ANSWERS, "cosine", "query: ", None)["measures"]
    assert (held["configured"]["value"], held["both"]["value"]) == (1.0, 0.0)


def test_where_self_retrieval_moves_too_that_is_what_is_said() -> None:
    whole = sides(12)
    broken = Sides(np.roll(whole.own, 1, axis=0), whole.held, whole.passages, whole.bodies)
    found = compare_sides(whole, broken, ANSWERS, "cosine", "query: ", None)
    assert found["measures"][0]["both"]["value"] == 0.0
    assert found["text"].endswith("Here even self@1 moves beyond chance.")
