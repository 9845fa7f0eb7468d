"""What a threshold does elsewhere: by the floors that ship with the package."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit_pipeline.duplicates import reference_floors
from audit_pipeline.duplicates.reference_floors import STEP, elsewhere
from benchmarks.reference_floors import shares


def test_the_share_of_all_pairs_is_what_the_script_counts() -> None:
    # At 0, 60, 90 and 180 degrees: the six cosines are .5, 0, -1, .866, -.5, 0.
    angle = np.radians([0, 60, 90, 180])
    found = shares(np.stack((np.cos(angle), np.sin(angle)), axis=1))
    expected = {0.0: 4 / 6, 0.5: 2 / 6, 0.505: 1 / 6, 0.865: 1 / 6, 0.87: 0.0, 1.0: 0.0}
    assert {t: found[round(t / STEP)] for t in expected} == pytest.approx(expected, rel=1e-5)


def test_the_shipped_floors_fall_and_differ_between_models() -> None:
    both = elsewhere(0.9, 1000, None, None)
    assert len(both) == 2
    assert both[0]["random_share"] < 0.01 < both[1]["random_share"]
    for row in both:
        assert row["pairs"] == round(row["random_share"] * math.comb(1000, 2))
    for floor in reference_floors._document()["floors"]:
        assert len(floor["shares"]) == round(1 / STEP) + 1
        assert floor["shares"] == sorted(floor["shares"], reverse=True)


def test_ones_own_model_is_left_out_by_its_files_or_its_name() -> None:
    floors = reference_floors._document()["floors"]
    own = [
        elsewhere(0.9, 10, floors[0]["fingerprint"], "/models/mine"),
        elsewhere(0.9, 10, "x", "org/All-MiniLM-L6-v2"),
    ]
    assert [[row["model"] for row in rows] for rows in own] == [[floors[1]["model"]]] * 2
    assert [row["model"] for row in elsewhere(0.9, 10, floors[1]["fingerprint"], "m")] == [floors[0]["model"]]


def test_between_two_steps_stands_the_larger_share_and_without_a_threshold_nothing() -> None:
    shares_of = reference_floors._document()["floors"][1]["shares"]
    assert elsewhere(0.9024, 10, None, None)[1]["random_share"] == shares_of[round(0.9 / STEP)]
    assert elsewhere(0.905 - 5e-7, 10, None, None)[1]["random_share"] == shares_of[round(0.905 / STEP)]
    assert elsewhere(None, 10, None, None) == elsewhere(-0.1, 10, None, None) == []
