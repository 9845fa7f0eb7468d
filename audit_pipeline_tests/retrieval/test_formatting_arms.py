"""Queries under other prompts: the paired test by hand, Holm against statsmodels' published example, words."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.proportions import holm
from audit_pipeline.retrieval.formatting_arms import Asked, arms_text, run_formatting_arms

ARMS = {"query": "", "'query: '": "query: ", "'search_query: '": "search_query: "}


def hits(of: str) -> np.ndarray:
    return np.array([letter == "1" for letter in of])


def test_holm_steps_down_and_never_decreases() -> None:
    # Sorted: .01 x 4, .02 x 3, .04 x 2, .05 x 1, each at least the one before.
    assert holm(np.array([0.04, 0.01, 0.05, 0.02])) == pytest.approx([0.08, 0.04, 0.08, 0.06])
    assert holm(np.array([0.6, 0.9])) == pytest.approx([1.0, 1.0])
    assert len(holm(np.zeros(0))) == 0


def test_each_arm_is_paired_with_the_configured_one() -> None:
    own = hits("1" * 10 + "0" * 20)
    better = hits("1" * 9 + "0" + "1" * 9 + "0" * 11)  # 9 won, 1 lost
    level = hits("1" * 9 + "0" + "1" + "0" * 19)  # 1 won, 1 lost
    found = run_formatting_arms(
        [Asked("held_out", {"query": own, "'query: '": better, "'search_query: '": level})], ARMS
    )
    configured, first, second = found.summary["arms"]
    assert (configured["configured"], configured["success"]["value"], configured["won"]) == (True, 10 / 30, None)
    assert (first["prompt"], first["won"], first["lost"]) == ("query: ", 9, 1)
    assert first["p"] == pytest.approx(2 * (1 + 10) / 2**10)
    assert first["p_holm"] == pytest.approx(2 * first["p"])
    assert first["difference"] == pytest.approx(8 / 30)
    assert (first["better"], second["better"], second["worse"]) == (True, False, False)
    assert second["p_holm"] == 1.0
    assert found.tables["formatting_arms"].num_rows == 3
    text = arms_text(found.summary["arms"])
    assert text.startswith("Queries with 'query: ' in front find more than as configured: heldout@10 +26.7 points (")
    assert text.endswith("beyond chance over 2 other prompts.")


def test_one_arm_in_many_that_is_better_by_chance_is_not_told() -> None:
    own, better = hits("1" * 10 + "0" * 10), hits("1" * 16 + "0" * 4)  # p = 2 / 2^6 = .031 alone, .063 of two
    asked = Asked("labelled", {"query": own, "'query: '": better, "'search_query: '": own})
    first = run_formatting_arms([asked], ARMS).summary["arms"][1]
    assert first["p"] < 0.05 < first["p_holm"]
    assert not first["better"]
    assert arms_text([first]) == ""


def test_a_worse_arm_is_marked_and_not_told() -> None:
    asked = Asked("labelled", {"query": hits("1" * 20), "'query: '": hits("0" * 20)})
    rows = run_formatting_arms([asked], ARMS).summary["arms"]
    assert rows[1]["worse"]
    assert arms_text(rows) == ""


def test_nothing_asked_is_an_empty_table() -> None:
    found = run_formatting_arms([Asked("held_out", {"query": hits(""), "'query: '": hits("")})], ARMS)
    assert (found.tables["formatting_arms"].num_rows, found.summary["arms"]) == (0, [])
