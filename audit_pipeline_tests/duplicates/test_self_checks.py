import numpy as np
import pytest

from audit_pipeline.duplicates import self_checks
from audit_pipeline.duplicates.neighbour_pairs import Neighbours
from audit_pipeline.duplicates.self_checks import check_lanes
from audit_pipeline.errors import SelfCheckError
from audit_pipeline_tests.duplicates.snapshots import SETTINGS, at_degrees, snapshot_of


def corpus():
    return snapshot_of(["...", "first text", "second text"], at_degrees(0, 40, 80))


def test_every_lane_finds_the_planted_copy():
    checks = check_lanes(corpus(), SETTINGS)
    assert [check["name"] for check in checks] == ["duplicates_exact", "duplicates_minhash", "duplicates_neighbour"]
    assert all(check["passed"] for check in checks)


def test_a_blind_neighbour_lane_stops_the_run(monkeypatch):
    def blind(unit, queries, k):
        return Neighbours(np.zeros((1, 1), dtype=np.int64), np.array([[0.5]]))

    monkeypatch.setattr(self_checks, "exact_neighbours", blind)
    with pytest.raises(SelfCheckError, match="neighbour lane"):
        check_lanes(corpus(), SETTINGS)


def test_a_grouping_that_tells_equal_texts_apart_stops_the_run(monkeypatch):
    def apart(signatures, usable, seniority):
        return np.arange(len(signatures)), np.ones(len(signatures), dtype=np.int64)

    monkeypatch.setattr(self_checks, "stand_for", apart)
    with pytest.raises(SelfCheckError, match="exact lane"):
        check_lanes(corpus(), SETTINGS)


def test_a_band_join_that_loses_pairs_stops_the_run(monkeypatch):
    honest = self_checks.join_bands
    monkeypatch.setattr(self_checks, "join_bands", lambda matrix, *rest: honest(matrix[:-1], *rest))
    with pytest.raises(SelfCheckError, match="minhash lane"):
        check_lanes(corpus(), SETTINGS)


def test_lanes_that_no_row_can_test_are_left_out():
    assert check_lanes(snapshot_of(["...", ""]), SETTINGS) == []
    assert [check["name"] for check in check_lanes(snapshot_of(["..."], at_degrees(1)), SETTINGS)] == [
        "duplicates_neighbour"
    ]
    assert check_lanes(snapshot_of([], np.empty((0, 2))), SETTINGS) == []
