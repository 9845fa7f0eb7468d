"""Each cause is planted, and has a clean twin: the same world without the fault, in which nothing is missed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.index.snapshot import INFINITE, NAN, USABLE, ZERO, SearchHits, TableSnapshot
from audit_pipeline.retrieval.causes import CAUSE_ORDER
from audit_pipeline.retrieval.diagnosis import merge_misses
from audit_pipeline.retrieval.miss import Fidelity
from audit_pipeline.retrieval.self_retrieval import run_self_retrieval
from audit_pipeline.retrieval.vector_findings import vector_findings
from audit_pipeline_tests.retrieval.caused import IDS, TEXTS, causes_of, one, rows
from audit_pipeline_tests.retrieval.worlds import (
    axes,
    chunk_table,
    column,
    full_search,
    on_circle,
    plan,
    settings,
    snapshot,
)


def lose_b(query: int, row: int) -> bool:
    return query == 1 and row == 1


def test_a_clean_table_has_no_cause():
    assert causes_of(snapshot(rows(), axes(4)), axes(4)) == {}


def test_missing_row():
    kept = rows().take([0, 2, 3])
    chunk_id, cause, evidence = one(causes_of(snapshot(kept, axes(4)[[0, 2, 3]]), axes(4)))
    assert (chunk_id, cause, evidence["table_rows"]) == ("b", "missing_row", 3)


def test_a_row_whose_id_the_table_gave_to_another_row_of_the_store_is_missing():
    other = "another content altogether"
    vectors = axes(4)
    vectors[1] = (axes(4)[0] + axes(4)[2]) / np.sqrt(2)
    table = snapshot(rows([TEXTS[0], other, *TEXTS[2:]]), vectors)
    fresh = Fidelity({"b": ("faithful", None)}, {"b": axes(4)[1]})

    def rejected(reason: str, text: str) -> pa.Table:
        row = {"row": 4, "origin": "store", "chunk_id": "b", "reason": reason, "detail": "", "text": text}
        return pa.Table.from_pylist([row], schema=schemas.REJECTED_CHUNKS)

    chunk_id, cause, evidence = one(causes_of(table, axes(4), fidelity=fresh, rejected=rejected("id_collision", other)))
    assert (chunk_id, cause, evidence) == ("b", "missing_row", {"id_collision": True, "rows_of_store": 2})
    # Another text than either of the two is drift, as it is where the store has the id once.
    for refused in (rejected("id_collision", "a third"), rejected("undated", other), None):
        assert one(causes_of(table, axes(4), fidelity=fresh, rejected=refused))[1] == "text_drift"


def test_duplicate_id_with_different_content():
    table = rows([*TEXTS, "another content altogether"], [*IDS, "b"])
    vectors = np.vstack([axes(4), axes(4)[2]])
    vectors[1] = axes(4)[0]  # both rows of b are far from its text
    found = causes_of(snapshot(table, vectors), axes(4))
    assert found["b"][0] == "duplicate_id"
    assert found["b"][1] == {"count": 2, "rows": [1, 4]}


def test_an_id_twice_with_the_same_content_is_no_cause():
    table = rows([*TEXTS, TEXTS[1]], [*IDS, "b"])
    assert causes_of(snapshot(table, np.vstack([axes(4), axes(4)[1]])), axes(4)) == {}


@pytest.mark.parametrize(("state", "name"), [(ZERO, "zero"), (NAN, "nan")])
def test_invalid_vector(state: int, name: str):
    vectors, states = axes(4), np.full(4, USABLE, np.uint8)
    vectors[1], states[1] = 0, state
    chunk_id, cause, evidence = one(causes_of(snapshot(rows(), vectors, state=states), axes(4)))
    assert (chunk_id, cause, evidence) == ("b", "invalid_vector", {"state": name})


def test_a_broken_vector_that_the_store_puts_first_is_what_the_others_miss_by():
    states = np.full(4, USABLE, np.uint8)
    states[3] = INFINITE
    made = snapshot(rows(), axes(4), metric="dot", state=states)
    sound = made.search

    def broken_first(queries: np.ndarray, limit: int) -> SearchHits:
        hits = sound(queries, limit)
        first = np.column_stack((np.full(len(queries), 3), hits.rows[:, :-1]))
        return SearchHits(first, hits.returned + 1)

    made.search = broken_first
    before = ("invalid_vector", {"row_before": "d", "state": "infinite"})
    assert causes_of(made, axes(4)[:3], rows().slice(0, 3)) == {"a": before, "b": before, "c": before}


def variants_that_find(*names: str) -> Any:
    """Variant searches of which only the named find everything; the others find nothing."""
    clean = full_search(snapshot(rows(), axes(4)))

    def search(queries: np.ndarray, limit: int, name: str) -> SearchHits:
        hits = clean(queries, limit)
        return hits if name in names else SearchHits(np.full_like(hits.rows, -1), np.zeros_like(hits.returned))

    return search


def test_filter_excluded():
    filtered = settings(index={"filter": "source = 'x'"})
    made = snapshot(rows(), axes(4), lose=lose_b)
    found = causes_of(made, axes(4), with_settings=filtered, variants=variants_that_find("without_filter"))
    assert one(found) == ("b", "filter_excluded", {"filter": "source = 'x'"})


def test_a_filter_that_lifting_does_not_help_is_not_to_blame():
    filtered = settings(index={"filter": "source = 'x'"})
    made = snapshot(rows(), axes(4), lose=lose_b)
    assert one(causes_of(made, axes(4), with_settings=filtered, variants=variants_that_find("ef")))[1] == "ann_miss"


def test_below_cutoff():
    cut = settings(index={"search": {"min_score": 0.9}})
    made = snapshot(rows(), axes(4), lose=lose_b)
    _, cause, evidence = one(causes_of(made, axes(4), with_settings=cut, variants=variants_that_find("without_cutoff")))
    assert (cause, evidence) == ("below_cutoff", {"min_score": 0.9, "score": 1.0})


def test_unindexed():
    fast = settings(index={"search": {"fast_search": True}})
    made = snapshot(rows(), axes(4), lose=lose_b, unindexed_rows=1)
    _, cause, evidence = one(causes_of(made, axes(4), with_settings=fast, variants=variants_that_find("with_tail")))
    assert (cause, evidence) == ("unindexed", {"unindexed_rows": 1})


def test_a_restriction_that_cannot_be_lifted_leaves_the_cause_undetermined_with_what_would_settle_it():
    fast = settings(index={"search": {"fast_search": True}})
    made = snapshot(rows(), axes(4), lose=lose_b, unindexed_rows=1)
    _, cause, evidence = one(causes_of(made, axes(4), with_settings=fast))
    assert cause == "undetermined"
    assert evidence["suspected"] == "unindexed"
    assert evidence["settle"] == "search once without fast_search"


@pytest.mark.parametrize("finder", ["nprobes", "ef", "refine", "exact"])
def test_ann_miss_names_the_setting_that_finds_it(finder: str):
    made = snapshot(rows(), axes(4), lose=lose_b, index_type="IVF_PQ")
    _, cause, evidence = one(causes_of(made, axes(4), variants=variants_that_find(finder)))
    assert (cause, evidence) == ("ann_miss", {"found_by": finder, "index_type": "IVF_PQ"})


def test_a_row_returned_behind_a_worse_one_is_an_ann_miss():
    made = snapshot(rows(), axes(4))
    right = made.search

    def swapped(queries: np.ndarray, limit: int) -> SearchHits:
        hits = right(queries, limit)
        hits.rows[1, :2] = hits.rows[1, [1, 0]]
        return hits

    made.search = swapped
    chunk_id, cause, evidence = one(causes_of(made, axes(4)))
    assert (chunk_id, cause) == ("b", "ann_miss")
    assert evidence["worse_row_before"] == "a"


def test_metric_is_named_where_cosine_would_find_it():
    # Under the dot product the long row of a wins the probe of b.
    vectors = on_circle(0, 60, 120, 180)
    stretched = vectors * np.array([[4], [1], [1], [1]], np.float32)
    found = causes_of(snapshot(rows(), stretched, metric="dot"), vectors)
    assert one(found) == ("b", "metric", {"metric": "dot", "rank_min": 2, "rank_min_cosine": 1})
    assert causes_of(snapshot(rows(), vectors, metric="dot"), vectors) == {}


def copied_bare() -> tuple[TableSnapshot, np.ndarray, pa.Table]:
    """b's text stands again in d, whose vector is closer to the query than b's own, right one."""
    table = rows([*TEXTS[:3], TEXTS[1]])
    return snapshot(table, on_circle(0, 40, 90, 45)), on_circle(0, 50, 90, 45), table


def test_rows_ahead_in_another_role_are_to_blame_where_they_would_only_tie():
    made, queries, table = copied_bare()
    fidelity = Fidelity(states={"b": ("faithful", None), "d": ("role_mismatch", "none")}, fresh={"d": made.vectors[1]})
    asked: list[list[str]] = []

    def judge(ids: list[str]) -> Fidelity:
        asked.append(ids)
        return fidelity

    suspected = np.array([False, False, False, True])
    result = run_self_retrieval(made, plan(table), queries, table, settings(), fidelity=judge, suspected=suspected)
    assert asked == [["b", "d"]]
    evidence = json.loads(column(result.tables["self_retrieval"], "evidence")["b"])
    assert column(result.tables["self_retrieval"], "cause")["b"] == "role_mismatch"
    assert evidence == {"arm": "none", "rows_ahead": ["d"]}
    assert vector_findings(result.tables["self_retrieval"], []) == []  # b's own row is right


def test_a_row_whose_own_vector_has_drifted_is_not_the_fault_of_the_rows_ahead():
    made, queries, table = copied_bare()
    states = {"b": ("vector_drift", None), "d": ("role_mismatch", "none")}
    fidelity = Fidelity(states, fresh={"b": on_circle(50)[0], "d": made.vectors[1]})
    assert one(causes_of(made, queries, store=table, fidelity=fidelity))[1] == "vector_drift"


def test_rows_ahead_that_would_be_closer_in_the_right_role_as_well_are_twins():
    made, queries, table = copied_bare()
    fidelity = Fidelity(states={"d": ("role_mismatch", "none")}, fresh={"d": on_circle(50)[0]})
    assert one(causes_of(made, queries, store=table, fidelity=fidelity))[1] == "twin"
    faithful = Fidelity(states={"d": ("faithful", None)}, fresh={"d": made.vectors[1]})
    assert one(causes_of(made, queries, store=table, fidelity=faithful))[1] == "twin"


LONG = "one two three four five six "


def first_six(row: int, text: str | None, texts: list[str]) -> str | None:
    own = (texts[row] if text is None else text).split()
    return " ".join(own[:6]) if len(own) > 6 else None


@pytest.mark.parametrize(
    ("of_b", "of_d", "cause"),
    [
        (
            LONG + "of the harbour at dawn in the far north",
            LONG + "made of bread that nobody wants to buy",
            "truncated",
        ),
        (LONG + "seven", LONG + "seven", "twin"),  # equal beyond it as well
        ("one two three four five six", LONG + "made of bread that nobody wants to buy", "encoder"),  # b is read whole
        (LONG + "of the harbour at dawn", "six five four three two one made of bread", "encoder"),
    ],
)
def test_texts_that_are_equal_as_far_as_they_are_read(of_b: str, of_d: str, cause: str):
    texts = [TEXTS[0], of_b, TEXTS[2], of_d]
    table = rows(texts)
    vectors = on_circle(0, 40, 90, 40)
    # Both tie, and the one that stands first in the table is returned first.
    found = causes_of(
        snapshot(table, vectors), vectors, store=table, read_part=lambda row, text: first_six(row, text, texts)
    )
    assert {name for name, _ in found.values()} == {cause}
    if cause == "truncated":
        ((_, evidence),) = found.values()
        assert evidence["group"] == 2
        assert evidence["characters_read"] == len(LONG) - 1


def test_a_row_with_another_vector_was_not_read_alike():
    texts = [TEXTS[0], LONG + "of the harbour", TEXTS[2], LONG + "made of bread"]
    table = rows(texts)
    found = causes_of(
        snapshot(table, on_circle(0, 40, 90, 50)),
        on_circle(0, 50, 90, 50),
        store=table,
        read_part=lambda row, text: first_six(row, text, texts),
    )
    assert found["b"][0] != "truncated"


def test_twins_that_differ_in_one_number_are_numeric():
    table = rows(["error 12 of the pump", "error 13 of the pump", *TEXTS[2:]])
    vectors = on_circle(0, 0, 90, 180)
    _, cause, evidence = one(causes_of(snapshot(table, vectors), vectors, store=table))
    assert cause == "twin"
    assert evidence == {"group": 2, "kind": "one_word", "numeric": True, "twins": ["a"]}


def test_encoder_names_the_winner_and_says_that_words_find_the_answer():
    vectors = on_circle(0, 40, 90, 180)
    chunk_id, cause, evidence = one(causes_of(snapshot(rows(), vectors), on_circle(0, 10, 90, 180)))
    assert (chunk_id, cause) == ("b", "encoder")
    assert evidence["winner"] == "a"
    assert evidence["margin"] == pytest.approx(np.cos(np.deg2rad(10)) - np.cos(np.deg2rad(30)), abs=1e-6)
    assert (evidence["lexical_rank"], evidence["lexical_finds_it"]) == (1, True)


def test_where_no_stored_vector_could_be_compared_with_a_fresh_one_the_encoder_is_not_blamed():
    vectors = on_circle(0, 40, 90, 180)
    found = causes_of(snapshot(rows(), vectors), on_circle(0, 10, 90, 180), encoder_is_stable=False)
    _, cause, evidence = one(found)
    assert (cause, evidence["suspected"]) == ("undetermined", "encoder")
    assert "independent of the batch" in evidence["settle"]


def test_where_another_text_was_embedded_the_encoder_is_not_blamed():
    vectors = on_circle(0, 40, 90, 180)
    found = causes_of(snapshot(rows(), vectors), on_circle(0, 10, 90, 180), text_is_embedded=False)
    _, cause, evidence = one(found)
    assert (cause, evidence["suspected"]) == ("undetermined", "encoder")
    assert "index.embed_text" in evidence["settle"]


def test_a_row_ahead_that_is_no_twin_makes_it_the_encoders_although_twins_are_ahead_as_well():
    table = rows(["see the red car", "see the blue car", *TEXTS[2:]])
    vectors = on_circle(5, 40, 0, 180)  # a (twin) and c (no twin) are both closer to b's query than b
    found = causes_of(snapshot(table, vectors), on_circle(5, 3, 0, 180), store=table)
    assert found["b"][0] == "encoder"


def test_a_query_without_direction_is_undetermined():
    queries = axes(4)
    queries[1] = 0
    _, cause, evidence = one(causes_of(snapshot(rows(), axes(4)), queries))
    assert cause == "undetermined"
    assert "no direction" in evidence["settle"]


def test_two_hundred_copies_are_all_seen_as_one_group():
    n = 200
    table = chunk_table([f"c{i:03}" for i in range(n)], ["all the same"] * n)
    vectors = np.tile(axes(3)[0], (n, 1))
    found = causes_of(snapshot(table, vectors), vectors, store=table)
    assert len(found) == n - 1
    assert {evidence["group"] for _, evidence in found.values()} == {n}


def test_the_order_of_causes_is_the_documented_one():
    documented = (
        "missing_row duplicate_id invalid_vector filter_excluded below_cutoff unindexed ann_miss metric text_drift "
        "misaligned role_mismatch vector_drift truncated overlap twin encoder undetermined"
    )
    assert list(CAUSE_ORDER) == documented.split()


def test_merged_misses_keep_a_share_for_every_cause_of_every_run():
    many = [{"run": "self", "cause": "encoder", "probe_id": f"s{i}"} for i in range(500)]
    few = [{"run": "held_out", "cause": "twin", "probe_id": f"h{i}"} for i in range(3)]
    merged = merge_misses(many, few)
    assert len(merged) == 200
    assert [entry["probe_id"] for entry in merged[-3:]] == ["h0", "h1", "h2"]
    assert merged[0]["probe_id"] == "s0"
