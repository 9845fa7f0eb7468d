"""Labelled queries judged by document, by hand: what is relevant in one is in the other, and equal text is equal."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from audit_pipeline.report.by_document import AMONG_DOCUMENTS, IN_EQUAL_TEXT, pair_documents
from audit_pipeline.report.pairing import Pairs


def pairs(*queries: str) -> Pairs:
    frame = pd.DataFrame(
        {"id_a": queries, "id_b": [f"{query}'" for query in queries], "cause_a": None, "cause_b": None}
    )
    return Pairs("labelled", "text", frame, 0, 0, 0, ("labelled_success@10",))


def documents(*rows: tuple[str, int | None, str, int | None, int | None, bool]) -> pd.DataFrame:
    """(query, rank, document, words before, words, relevant)"""
    return pd.DataFrame(rows, columns=["query_id", "rank", "document", "words_before", "words", "relevant"])


def words(**of_ten: int) -> pd.DataFrame:
    return pd.DataFrame({"query_id": list(of_ten), "words_10": list(of_ten.values())})


def judged(measure: str, a: pd.DataFrame, b: pd.DataFrame, words_a: pd.DataFrame, words_b: pd.DataFrame) -> Any:
    found = pair_documents(pairs("q", "r"), (a, b), (words_a, words_b))
    assert measure in found.measures
    return [found.frame[f"{measure} {side}"].tolist() for side in "ab"]


EQUAL = words(q=100, r=100), words(**{"q'": 100, "r'": 110})


def test_a_document_that_is_relevant_in_one_audit_is_in_the_other() -> None:
    a = documents(("q", 3, "x", 0, 9, False), ("q", None, "y", None, None, True), ("r", 1, "z", 0, 9, True))
    b = documents(("q'", 10, "x", 0, 9, True), ("r'", 1, "x", 0, 9, False), ("r'", 11, "z", 0, 9, False))
    assert judged(AMONG_DOCUMENTS, a, b, *EQUAL) == [[True, True], [True, False]]


def test_equal_text_is_that_of_the_shorter_ten_rows_of_each_query_and_half_a_chunk_counts() -> None:
    # Of q the budget is 100 words: in a the third chunk (80 to 120) lies half within it, in b all ten do.
    a = documents(("q", 3, "x", 80, 40, True), ("r", 3, "x", 80, 42, True))
    b = documents(("q'", 9, "x", 90, 10, True), ("r'", 9, "x", 90, 10, True))
    assert judged(IN_EQUAL_TEXT, a, b, words(q=400, r=400), words(**{"q'": 100, "r'": 100})) == [
        [True, False],
        [True, True],
    ]


@pytest.mark.parametrize(("more", "measured"), [(120, False), (121, True)])
def test_equal_text_is_measured_where_ten_rows_are_another_reading(more: int, measured: bool) -> None:
    a, b = documents(("q", 1, "x", 0, 9, True)), documents(("q'", 1, "x", 0, 9, True))
    lengths = words(q=100, r=100), words(**{"q'": more, "r'": more})
    assert (IN_EQUAL_TEXT in pair_documents(pairs("q", "r"), (a, b), lengths).measures) is measured
