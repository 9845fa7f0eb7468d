"""Answers against exact searches, on points of a circle and a line whose order is worked out by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.retrieval.ranking import Identities
from audit_pipeline.retrieval.returned_rows import (
    agree,
    cut_between,
    explain,
    returned_rows,
    sources_left_out,
)
from audit_pipeline_tests.retrieval.worlds import chunk_table, on_circle, snapshot

# Angles 0, 3, ..., 57 degrees: for a query at 0 the closest rows are c00, c01, ...
IDS = [f"c{i:02}" for i in range(20)]
AT_ZERO = on_circle(0)


def circle(ids: list[str] = IDS, sources: list[str] | None = None, **options: object) -> TableSnapshot:
    rows = chunk_table(ids, [f"text {i}" for i in range(20)], sources)
    return snapshot(rows, on_circle(*range(0, 60, 3)), **options)  # type: ignore[arg-type]


def lists(*answers: list[str | None] | None) -> pa.Array:
    return pa.array(answers, pa.list_(pa.string()))


def recall(made: TableSnapshot, *answers: list[str], metric: str = "cosine", **options: bool) -> list[float]:
    got = returned_rows(lists(*answers), made, 10)
    queries = np.repeat(AT_ZERO, len(answers), axis=0)
    return agree(made, Identities(made), queries, got.rows, metric, **options).recall.tolist()


def test_ids_become_rows_once_each_in_their_order_within_the_limit() -> None:
    got = returned_rows(lists(["c03", "c01", "c03", "gone", "c00"], None, [], ["gone", None, "c05"]), circle(), 4)
    assert got.rows.tolist() == [[3, 1, 0, -1], [-1] * 4, [-1] * 4, [5, -1, -1, -1]]
    assert got.distinct.tolist() == [4, 0, 0, 3]
    assert got.unknown.tolist() == [1, 0, 0, 2]
    assert got.logged.tolist() == [True, False, True, True]
    cut = returned_rows(lists(IDS), circle(), 4)
    assert (cut.rows.tolist(), cut.distinct.tolist()) == ([[0, 1, 2, 3]], [20])


def test_recall_is_the_share_of_the_returned_rows_among_as_many_closest() -> None:
    made = circle()
    assert recall(made, ["c00", "c01", "c02", "c03"]) == [1.0]
    assert recall(made, ["c03", "c02", "c01", "c00"]) == [1.0]  # the order is another figure
    # Of four returned, c00 and c02 are among the closest four; c04 and c19 are not.
    assert recall(made, ["c00", "c02", "c04", "c19"]) == [0.5]
    assert recall(made, ["c19"]) == [0.0]
    assert np.isnan(recall(made, ["gone"])[0])
    # What was deleted since makes no other row wrong: one known id is held against the closest one.
    assert recall(made, ["gone", "c00"]) == [1.0]


def test_ties_are_agreement() -> None:
    vectors = on_circle(0, 10, 10, -10, 20)
    made = snapshot(chunk_table(list("abcde"), ["t"] * 5), vectors)
    for second in "bcd":  # all at ten degrees: any of them is a right second
        assert recall(made, ["a", second]) == [1.0]
    assert recall(made, ["a", "e"]) == [0.5]


def test_an_id_on_several_rows_counts_by_its_best_one() -> None:
    made = circle(["twice", *IDS[1:19], "twice"])  # its first row is the farthest from 57 degrees, its last the closest
    got = returned_rows(lists(["twice", "c18"]), made, 10)
    assert agree(made, Identities(made), on_circle(57), got.rows, "cosine").recall == 1


def test_order_is_the_share_of_neighbours_that_do_not_rise() -> None:
    made = circle()
    got = returned_rows(lists(["c00", "c01", "c02"], ["c02", "c01", "c03"], ["c05"]), made, 10)
    found = agree(made, Identities(made), np.repeat(AT_ZERO, 3, axis=0), got.rows, "cosine").order
    assert found[:2].tolist() == [1.0, 0.5]
    assert np.isnan(found[2])


def test_a_row_that_the_filter_hides_is_no_agreement_until_it_is_lifted() -> None:
    made = circle(passes_filter=np.arange(20) % 2 == 0)
    assert recall(made, ["c00", "c02", "c04"]) == [1.0]
    assert recall(made, ["c00", "c01", "c02"]) == [pytest.approx(2 / 3)]
    assert recall(made, ["c00", "c01", "c02"], filtered=False) == [1.0]


def test_each_metric_explains_its_own_answers() -> None:
    # From (1, 0): cosine likes b most, then a and c; l2 likes a (0.5 away), dot the longest (c).
    vectors = np.array([[0.5, 0.1], [4.0, 0.0], [9.0, 3.0]], np.float32)
    made = snapshot(chunk_table(list("abc"), ["t"] * 3), vectors)
    got = returned_rows(lists(["a"]), made, 1)
    tried = explain(made, Identities(made), AT_ZERO, got.rows)
    assert {name: figure.value for name, figure in tried.items()} == {
        "l2": 1.0,
        "dot": 0.0,
        "declared_search": 0.0,
        "near": 1.0,  # among the closest five, since there are three
    }


def test_a_search_that_loses_rows_explains_answers_that_lack_them() -> None:
    made = circle(lose=lambda query, row: row < 8)
    tried = explain(made, Identities(made), AT_ZERO, returned_rows(lists(IDS[8:18]), made, 10).rows)
    assert tried["declared_search"].value == 1.0
    # c08 and c09 are among the closest ten.
    assert (
        agree(made, Identities(made), AT_ZERO, returned_rows(lists(IDS[8:18]), made, 10).rows, "cosine").recall == 0.2
    )


def test_sources_that_no_answer_holds_although_they_are_nearer_are_named() -> None:
    made = circle(sources=["hidden" if i % 2 else "shown" for i in range(20)])

    def left_out(*ids: str) -> list[str | None]:
        got = returned_rows(lists(list(ids)), made, 10)
        return sources_left_out(
            made, Identities(made), got.rows, agree(made, Identities(made), AT_ZERO, got.rows, "cosine")
        )

    assert left_out("c00", "c02", "c04") == ["hidden"]
    assert left_out("c00", "c01", "c04") == []  # a row of it was returned
    assert left_out("c00", "c01") == []  # nothing was left out


def test_a_cut_off_is_seen_between_the_last_row_returned_and_the_first_left_out() -> None:
    made = circle()
    queries = on_circle(0, 3)

    def cut(*answers: list[str]) -> list[float] | None:
        got = returned_rows(lists(*answers), made, 10)
        agreement = agree(made, Identities(made), queries, got.rows, "cosine")
        return cut_between(Identities(made), agreement, got.distinct < 10, got.known)

    # All within 8 degrees: 0, 3, 6 for the first query; 3, 0, 6, 9 for the second. Next are 9 and 9 degrees away.
    found = cut(["c00", "c01", "c02"], ["c01", "c00", "c02", "c03"])
    assert found == pytest.approx([np.cos(np.deg2rad(9)), np.cos(np.deg2rad(6))])
    assert cut(["c00", "c01"], ["c01", "c00", "c02", "c03"]) is None  # one leaves out what the other returns
    assert cut(["c00", "c05"], ["c01", "c00", "c02", "c03"]) is None  # not the closest ones
    made.passes_filter = np.arange(20) % 2 == 0
    assert cut(["c00", "c01"], ["c02", "c00"]) is None  # c01 cannot be found at all
