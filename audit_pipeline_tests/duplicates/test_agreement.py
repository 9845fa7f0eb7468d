"""Agreement of people on pairs judged twice, by hand and against scikit-learn; what settles a pair."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from audit_pipeline.duplicates.agreement import agreement, cohens_kappa
from audit_pipeline.duplicates.answers import answer_of
from audit_pipeline.duplicates.labelled_pairs import in_table_ids, validate_labelled_pairs
from audit_pipeline.duplicates.rows import nodes_of
from audit_pipeline_tests.duplicates.snapshots import at_degrees, snapshot_of


def judged(*rows: tuple[int, str, bool]):
    """Agreement of (pair, labeller, answer) judgements."""
    pair, labellers, answers = zip(*rows, strict=True)
    return agreement(np.array(pair), list(labellers), np.array(answers))


def test_the_worked_example_of_two_labellers():
    # Yes/yes 20, yes/no 5, no/yes 10, no/no 15: agreed 35 of 50; by chance .5 * .6 + .5 * .4 = .5; kappa .2 / .5.
    answers = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    rows = [row for pair, (a, b) in enumerate(answers) for row in ((pair, "ann", a), (pair, "ben", b))]
    found = judged(*rows, (99, "ann", True))  # judged once: no part of it
    assert found["labellers"] == 2
    assert found["kappa"] == pytest.approx(0.4)
    assert (found["agreed"]["value"], found["agreed"]["n"]) == (0.7, 50)
    # Wilson by hand: centre (.7 + 3.8415 / 100) / 1.07683, half 1.95996 sqrt(.21 / 50 + 3.8415 / 10000) / 1.07683
    assert (found["agreed"]["low"], found["agreed"]["high"]) == pytest.approx((0.5625, 0.8090), abs=5e-4)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_kappa_is_that_of_scikit_learn(answers):
    first, second = (np.array(side) for side in zip(*answers, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = cohen_kappa_score(first, second, labels=[False, True])
    found = cohens_kappa(first, second)
    assert (found is None) == bool(np.isnan(expected))
    assert found is None or found == pytest.approx(expected)


def test_of_three_labellers_a_pair_counts_once_and_each_two_have_their_own_kappa():
    found = judged(
        *((0, name, True) for name in "abc"),
        *((1, name, name == "a") for name in "abc"),
        (2, "a", False),
        (2, "b", False),
    )
    assert (found["labellers"], found["kappa"]) == (3, None)
    assert (found["agreed"]["value"], found["agreed"]["n"]) == (pytest.approx(2 / 3), 3)
    assert {tuple(row["labellers"]): row["agreed"]["n"] for row in found["by_labellers"]} == {
        ("a", "b"): 3,
        ("a", "c"): 2,
        ("b", "c"): 2,
    }


def test_judgements_of_nobody_of_one_who_said_both_and_of_the_one_who_settles_are_no_second_opinion():
    assert judged((0, "", True), (0, "ann", True)) is None
    assert judged((0, "ann", True), (0, "ann", False), (0, "ben", True)) is None
    assert judged((0, "Adjudicated", True), (0, "ann", True)) is None


def test_the_order_of_judgements_does_not_matter():
    rows = [(0, "b", True), (0, "a", False), (1, "a", True), (1, "b", True), (2, "c", True), (2, "a", True)]
    assert judged(*rows) == judged(*reversed(rows))


@pytest.mark.parametrize("yes", ["true", "TRUE", "1", "Yes", "y", "duplicate", " Duplicate ", "WAHR", "1.0"])
def test_common_spellings_of_yes(yes):
    assert answer_of(yes) is True


@pytest.mark.parametrize("no", ["false", "0", "No", "n", "not a duplicate", "not duplicate", "non-duplicate", "FALSCH"])
def test_common_spellings_of_no(no):
    assert answer_of(no) is False


@pytest.mark.parametrize("neither", ["", None, "maybe", "2", "unsure", "?", "yes no"])
def test_what_is_neither(neither):
    assert answer_of(neither) is None


LABEL = {"chunk_id_a": "a", "chunk_id_b": "b", "duplicate": "yes", "origin": "corpus", "labeller": "ann", "band": ""}


def validated(*rows):
    nodes = nodes_of(snapshot_of(["text a", "text b", "text c"], at_degrees(0, 10, 80), ids=["a", "b", "c"]))
    return validate_labelled_pairs(pa.Table.from_pylist([LABEL | row for row in rows]), nodes)


def test_two_who_disagree_leave_the_pair_out_until_it_is_settled():
    rows = [{"band": "0.98-0.99"}, {"duplicate": "no", "labeller": "ben"}]
    disputed = validated(*rows)
    assert (len(disputed), disputed.conflicts, disputed.adjudicated) == (0, 1, 0)
    assert disputed.invalid == {"contradictory": 2}
    settled = validated(*rows, {"duplicate": "no", "labeller": "adjudicated"})
    assert (settled.duplicate.tolist(), settled.conflicts, settled.adjudicated) == ([False], 0, 1)
    assert settled.invalid == {}
    assert settled.band == ["0.98-0.99"]  # it was drawn there, whoever settled it
    assert settled.agreement == disputed.agreement
    assert settled.agreement["agreed"]["value"] == 0
    both_ways = validated(*rows, {"labeller": "adjudicated"}, {"duplicate": "no", "labeller": "adjudicated"})
    assert (len(both_ways), both_ways.conflicts) == (0, 1)


def test_a_pair_judged_twice_alike_is_used_once_and_nothing_is_settled():
    labels = validated({}, {"labeller": "ben", "chunk_id_a": "b", "chunk_id_b": "a"})
    assert (len(labels), labels.conflicts, labels.adjudicated, labels.invalid) == (1, 0, 0, {})
    assert labels.agreement["agreed"]["n"] == 1


def test_ids_of_the_store_are_read_as_those_of_its_rows_and_its_hashes_as_seen():
    store = pa.table({"chunk_id": ["r1", "r2"], "store_id": ["s1", "s2"], "text_sha256": ["1" * 64, "2" * 64]})
    rows = [
        {"chunk_id_a": "s1", "chunk_id_b": "s2", "text_sha256_a": "1" * 64, "text_sha256_b": "0" * 64},
        {"chunk_id_a": "r2", "chunk_id_b": "elsewhere", "text_sha256_a": "2" * 64, "text_sha256_b": None},
    ]
    assert in_table_ids(pa.Table.from_pylist(rows), store).to_pylist() == [
        {"chunk_id_a": "r1", "chunk_id_b": "r2", "text_sha256_a": None, "text_sha256_b": "0" * 64},
        rows[1],
    ]
