"""The first ten documents of a query, by hand on a circle: rows of one document count once, ties in favour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.retrieval import labelled_documents as module
from audit_pipeline.retrieval.labelled import run_labelled
from audit_pipeline_tests.retrieval.test_labelled import labels
from audit_pipeline_tests.retrieval.worlds import chunk_table, on_circle, settings, snapshot

N = 30
IDS = [f"c{i:02}" for i in range(N)]
TEXTS = [f"text {'word ' * i}end" for i in range(N)]  # i + 2 words
CIRCLE = on_circle(*range(0, 2 * N, 2))  # chunk i lies at 2 i degrees


def documents_of(doc_ids: list[str | None], judged: list[str], vectors: np.ndarray = CIRCLE, **more: Any) -> Any:
    """The tables of one query at 0 degrees whose relevant chunks are these."""
    rows = chunk_table(IDS, TEXTS)
    rows = rows.set_column(rows.schema.get_field_index("doc_id"), "doc_id", pa.array(doc_ids, pa.string()))
    made = labels({"q": "what"}, [("q", chunk, 1) for chunk in judged])
    return run_labelled(snapshot(rows, vectors), made, on_circle(0), settings(), population=rows, **more).tables


def listed(tables: Any) -> list[tuple]:
    return [tuple(row.values())[1:] for row in tables["labelled_documents"].to_pylist()]


def test_documents_stand_where_their_closest_chunk_stands_and_text_is_counted_before_it() -> None:
    # c00 .. c04 are of "long", c05 of "short", c06 again of "long", the others each of its own.
    own = ["long"] * 5 + ["short", "long"] + [f"d{i:02}" for i in range(7, N)]
    tables = documents_of(own, ["c06", "c29"])
    assert listed(tables)[:3] == [
        (1, "long", 1, 0, 2, True),
        (2, "short", 6, 2 + 3 + 4 + 5 + 6, 7, False),
        (3, "d07", 8, 2 + 3 + 4 + 5 + 6 + 7 + 8, 9, False),
    ]
    assert [row[0] for row in listed(tables)[:-1]] == list(range(1, 11))
    assert listed(tables)[-1] == (None, "d29", None, None, None, True)
    assert tables["labelled_retrieval"]["words_10"].to_pylist() == [sum(range(2, 12))]


def test_a_document_level_with_the_tenth_counts_in_favour() -> None:
    level = CIRCLE.copy()
    level[10:12] = level[9]
    tables = documents_of([f"d{i:02}" for i in range(N)], ["c11"], level)
    assert [(row[1], row[0]) for row in listed(tables)[9:]] == [("d09", 10), ("d10", 10), ("d11", 10)]


@pytest.mark.parametrize("first", [1, 3, 64])
def test_however_many_chunks_a_document_has_ten_others_are_seen(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_ROWS", first)
    monkeypatch.setattr(module, "_MOST_KEPT", 8)
    tables = documents_of(["long"] * 15 + [f"d{i:02}" for i in range(15, N)], ["c23"])
    assert [(row[0], row[1], row[2]) for row in listed(tables)] == [
        (1, "long", 1),
        *((i - 13, f"d{i:02}", i + 1) for i in range(15, 24)),
    ]


def test_a_chunk_without_a_document_is_one_by_itself_and_without_any_there_is_no_table() -> None:
    some = documents_of([None, "d", "none", "d", *(f"d{i:02}" for i in range(4, N))], ["c00"])
    assert [(row[0], row[1]) for row in listed(some)[:4]] == [(1, "c00"), (2, "d"), (3, "c02"), (4, "d04")]
    none = documents_of([None] * N, ["c00"])
    assert listed(none) == []
    assert none["labelled_retrieval"]["words_10"].to_pylist() == [sum(range(2, 12))]
