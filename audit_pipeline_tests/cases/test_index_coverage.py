"""Indexes that do not hold the table's rows: stale, empty, built over a stand-in; vectors no index can hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lancedb.index import FTS, IvfFlat, IvfPq

from audit_pipeline_tests.cases.conftest import AuditTable, Corpus, table_of

ROWS = 120
LATER = 20
FLAT = IvfFlat(distance_type="cosine", num_partitions=1)


def test_rows_that_came_after_the_index_are_not_found_by_a_fast_search(audit_table: AuditTable, corpus: Corpus) -> None:
    rows = corpus.rows(slice(ROWS))

    def index_then_add(table: Any) -> None:
        table.create_index("vector", config=FLAT)
        table.add(rows.slice(ROWS - LATER))

    first = rows.slice(0, ROWS - LATER)
    found = audit_table(first, after=index_then_add, search={"fast_search": True})
    stale = found.finding("index_stale")
    assert (stale["severity"], stale["evidence"]["unindexed_rows"], stale["n_compared"]) == ("error", LATER, ROWS)
    assert found.causes == {"unindexed": LATER}
    missed = {miss["chunk_id"] for miss in found.report["misses"] if miss["run"] == "self"}
    assert missed == set(rows["chunk_id"].slice(ROWS - LATER).to_pylist())

    slow = audit_table(first, after=index_then_add)
    assert (slow.finding("index_stale")["severity"], slow.causes) == ("warning", {})

    def index_then_add_then_optimise(table: Any) -> None:
        index_then_add(table)
        table.optimize()

    whole = audit_table(first, after=index_then_add_then_optimise, search={"fast_search": True})
    assert (whole.causes, whole.codes("error", "warning")) == ({}, set())


def test_an_index_that_was_too_small_to_train_is_listed_and_empty(audit_table: AuditTable, corpus: Corpus) -> None:
    def product_codes(table: Any) -> None:
        table.create_index("vector", config=IvfPq(distance_type="cosine", num_partitions=1, num_sub_vectors=8))

    found = audit_table(corpus.rows(slice(100)), after=product_codes, search={"fast_search": True})
    empty = found.finding("index_empty")
    assert (empty["severity"], empty["evidence"]["indexed_rows"]) == ("error", 0)
    assert empty["evidence"]["index_type"] == "IVF_PQ"
    assert found.report["self_retrieval"]["self@1"]["value"] == 0
    assert found.causes == {"unindexed": 100}
    clean = audit_table(corpus.rows(slice(100)), after=lambda table: table.create_index("vector", config=FLAT))
    assert clean.codes("error", "warning") == set()


def test_an_index_built_over_a_stand_in_before_the_rows_came(audit_table: AuditTable, corpus: Corpus) -> None:
    rows = corpus.rows(slice(ROWS))
    stand_in = table_of([""], np.full((1, corpus.vectors.shape[1]), 0.5), chunk_id=["__DUMMY__"])

    def index_then_add(table: Any) -> None:
        table.create_index("vector", config=FLAT)
        table.add(rows)

    found = audit_table(stand_in, after=index_then_add)
    assert found.finding("index_empty")["severity"] == "error"
    assert found.finding("index_empty")["evidence"]["indexed_rows"] == 1
    stand_ins = found.finding("placeholder_rows")
    assert (stand_ins["severity"], stand_ins["examples"]) == ("info", ["__DUMMY__"])
    assert found.causes == {}  # the tail is scanned: found, but one by one
    both = pa.concat_tables([stand_in, rows])
    after = audit_table(both, after=lambda table: table.create_index("vector", config=FLAT))
    assert after.codes("error") == set()
    assert "index_empty" not in after.codes()
    assert "placeholder_rows" in after.codes("info")


def test_a_full_text_index_that_was_made_on_an_empty_table(audit_table: AuditTable, corpus: Corpus) -> None:
    rows = corpus.rows(slice(ROWS))

    def words(table: Any) -> None:
        table.create_index("text", config=FTS())

    def words_then_add(table: Any) -> None:
        words(table)
        table.add(rows)

    found = audit_table(rows.slice(0, 0), after=words_then_add)
    stale = found.finding("fts_index_stale")
    assert (stale["severity"], stale["share"], stale["n_compared"]) == ("warning", 1.0, ROWS)
    assert (stale["evidence"]["column"], stale["evidence"]["indexed_rows"]) == ("text", 0)
    assert found.causes == {}
    clean = audit_table(rows, after=words)
    assert clean.codes("error", "warning") == set()


def test_one_zero_vector_under_cosine(audit_table: AuditTable, corpus: Corpus) -> None:
    vectors = corpus.vectors[:ROWS].copy()
    vectors[41] = 0
    found = audit_table(table_of(corpus.texts[:ROWS], vectors))
    invalid = found.finding("invalid_vectors")
    assert (invalid["severity"], invalid["examples"]) == ("error", ["c0041"])
    assert invalid["evidence"]["states"] == {"zero": 1}
    assert found.causes == {"invalid_vector": 1}
    assert found.report["self_retrieval"]["self@1"]["value"] == pytest.approx(1 - 1 / ROWS)
    assert found.codes("error") == {"invalid_vectors"}
    clean = audit_table(corpus.rows(slice(ROWS)))
    assert (clean.causes, clean.codes("error", "warning")) == ({}, set())
