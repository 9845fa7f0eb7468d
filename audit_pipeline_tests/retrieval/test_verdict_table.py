import itertools
from typing import Any

import pytest

from audit_pipeline.retrieval.verdict_table import TABLE, States, reading_of, readings_of


def states(self_1: str, self_10: str, labelled: str, **others: Any) -> States:
    rest = {"held_out": "high", "twins_1": self_1, "twins_10": self_10, "error_finding": False} | others
    return States(self_1, self_10, labelled, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "reading"),
    [
        (states("high", "high", "high"), "healthy"),
        (states("high", "high", "high", error_finding=True), "local_defect"),
        (states("high", "high", "low"), "relationship"),
        (states("high", "high", "low", error_finding=True), "relationship"),
        (states("high", "low", "high"), "local_defect"),
        (states("high", "low", "low"), "local_defect"),
        (states("high", "low", "none"), "local_defect"),
        (states("low", "low", "low"), "vectors_or_index"),
        (states("low", "high", "none"), "vectors_or_index"),
        (states("low", "high", "low", twins_1="high", twins_10="high"), "twins"),
        (states("low", "low", "high", twins_1="high", twins_10="high"), "twins"),
        (states("low", "none", "none", twins_1="high", twins_10="none"), "twins"),
        (states("low", "low", "low", twins_1="high", twins_10="low"), "vectors_or_index"),
        (states("low", "low", "high"), "contradiction"),
        (states("low", "high", "high"), "contradiction"),
        (states("high", "high", "none", held_out="low"), "content"),
        (states("high", "high", "none"), "not_measured"),
        (states("high", "high", "none", held_out="none"), "not_measured"),
        (states("none", "none", "none", held_out="none"), "not_measured"),
        (states("high", "none", "high"), "not_measured"),
        (states("high", "none", "low"), "relationship"),
    ],
)
def test_each_row_of_the_table_is_reached(given: States, reading: str):
    assert reading_of(given) == reading


def every_decided_state() -> list[States]:
    axis = ("high", "low", "none")
    return [
        States(*values, error_finding=error)  # type: ignore[arg-type]
        for values in itertools.product(axis, repeat=6)
        for error in (False, True)
    ]


def test_the_table_is_total():
    assert {reading_of(given) for given in every_decided_state()} == {row.reading for row in TABLE}


def test_no_row_is_dead():
    first = {next(place for place, row in enumerate(TABLE) if row.matches(given)) for given in every_decided_state()}
    assert first == set(range(len(TABLE)))


def test_healthy_needs_real_queries_and_both_self_figures():
    healthy = [given for given in every_decided_state() if reading_of(given) == "healthy"]
    assert {(given.self_1, given.self_10, given.labelled, given.error_finding) for given in healthy} == {
        ("high", "high", "high", False)
    }


def test_an_undecided_figure_that_cannot_change_the_reading_does_not_make_it_undecided():
    assert readings_of(states("low", "undecided", "low", twins_1="low", twins_10="undecided")) == {"vectors_or_index"}
    assert readings_of(states("high", "high", "low", held_out="undecided")) == {"relationship"}


def test_an_undecided_figure_that_matters_leaves_several_readings():
    assert readings_of(states("high", "undecided", "high")) == {"healthy", "local_defect"}
    assert readings_of(states("high", "high", "undecided")) == {"healthy", "relationship"}
    assert readings_of(states("high", "high", "none", held_out="undecided")) == {"content", "not_measured"}


def test_twins_counted_as_hits_never_lower_a_figure():
    # self@1 undecided, adjusted high: either high as it is, or low and explained by twins; never low and unexplained.
    possible = readings_of(states("undecided", "high", "high", twins_1="high", twins_10="high"))
    assert possible == {"healthy", "twins"}


def test_an_undecided_state_has_no_reading_of_its_own():
    with pytest.raises(LookupError):
        reading_of(states("undecided", "high", "high"))
