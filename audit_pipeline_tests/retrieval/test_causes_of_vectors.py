"""Causes that lie in what a row's own vector encodes: drifted texts, unfaithful rows, cuts; each with a clean twin."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.retrieval.miss import Fidelity
from audit_pipeline_tests.retrieval.caused import TEXTS, causes_of, one, rows
from audit_pipeline_tests.retrieval.worlds import (
    on_circle,
    snapshot,
)


def drifted() -> tuple[TableSnapshot, np.ndarray]:
    """The row of b lies at 170 degrees, far from its text's 40; a at 0 and c at 90 are closer."""
    return snapshot(rows(), on_circle(0, 170, 90, 200)), on_circle(0, 40, 90, 200)


def test_text_drift_where_the_stores_text_would_hit():
    made, queries = drifted()
    made.rows = rows([TEXTS[0], "seasons of", *TEXTS[2:]])
    _, cause, evidence = one(causes_of(made, queries, fidelity=Fidelity(fresh={"b": queries[1]})))
    shown = {"kind": "truncated", "characters_lost": 17, "store_characters": 27, "table_characters": 10}
    assert (cause, evidence) == ("text_drift", shown)


def test_a_text_in_another_form_names_that_form():
    made, queries = drifted()
    made.rows = rows([TEXTS[0], TEXTS[1].upper(), *TEXTS[2:]])
    _, cause, evidence = one(
        causes_of(made, queries, fidelity=Fidelity({"b": ("text_drift", None)}, {"b": queries[1]}))
    )
    assert (cause, evidence) == ("text_drift", {"kind": "case", "store_characters": 27, "table_characters": 27})


@pytest.mark.parametrize("state", ["role_mismatch", "misaligned", "vector_drift"])
def test_a_vector_that_is_wrong_for_either_text_is_not_the_texts_fault(state: str):
    made, queries = drifted()
    made.rows = rows([TEXTS[0], "seasons of", *TEXTS[2:]])
    _, cause, _ = one(causes_of(made, queries, fidelity=Fidelity({"b": (state, "none")}, {"b": queries[1]})))
    assert cause == state


def test_text_drift_without_a_fresh_vector_abstains():
    made, queries = drifted()
    made.rows = rows([TEXTS[0], "seasons of", *TEXTS[2:]])
    _, cause, evidence = one(causes_of(made, queries))
    assert (cause, evidence["suspected"]) == ("undetermined", "text_drift")


@pytest.mark.parametrize(
    ("state", "arm", "cause"),
    [
        ("role_mismatch", "query", "role_mismatch"),
        ("vector_drift", None, "vector_drift"),
        ("misaligned", "5", "misaligned"),
    ],
)
def test_an_unfaithful_row_whose_fresh_vector_would_hit(state: str, arm: str | None, cause: str):
    made, queries = drifted()
    fidelity = Fidelity(states={"b": (state, arm)}, fresh={"b": queries[1]})
    assert one(causes_of(made, queries, fidelity=fidelity))[1] == cause


def test_an_unfaithful_row_whose_fresh_vector_would_not_hit_either_is_the_encoders():
    made, queries = drifted()
    fidelity = Fidelity(states={"b": ("vector_drift", None)}, fresh={"b": on_circle(100)[0]})
    assert one(causes_of(made, queries, fidelity=fidelity))[1] == "encoder"


def test_a_faithful_row_has_no_fidelity_cause():
    made, queries = drifted()
    fidelity = Fidelity(states={"b": ("faithful", None)}, fresh={"b": queries[1]})
    assert one(causes_of(made, queries, fidelity=fidelity))[1] == "encoder"


def test_a_row_that_holds_the_writers_cut_of_its_text_is_truncated_where_the_whole_would_hit():
    made, queries = drifted()
    states = {"b": ("faithful", "the first 64 tokens")}
    fidelity = Fidelity(states, fresh={"b": queries[1]})
    found = causes_of(made, queries, fidelity=fidelity)
    assert one(found) == ("b", "truncated", {"encoded": "the first 64 tokens", "would_hit": True})
    no_better = Fidelity(states, fresh={"b": on_circle(100)[0]})
    assert one(causes_of(made, queries, fidelity=no_better))[1] == "encoder"


def test_a_cut_row_behind_its_twin_is_a_twins():
    table = rows(["error 12 of the pump", "error 13 of the pump", *TEXTS[2:]])
    made, queries = drifted()
    made.rows = table
    fidelity = Fidelity({"b": ("faithful", "the first 64 tokens")}, fresh={"b": queries[1]})
    vectors = on_circle(35, 30, 90, 200)  # a is nearer to the query of b, at 40, than b's cut row
    found = causes_of(snapshot(table, vectors), on_circle(35, 40, 90, 200), store=table, fidelity=fidelity)
    assert one(found)[1] == "twin"
