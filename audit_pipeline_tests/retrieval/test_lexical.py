import math

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.retrieval import lexical
from audit_pipeline.retrieval.lexical import LexicalSearch

TEXTS = ["The fox, the FOX.", "A fox and a hen", "hens in a barn", "", "weather over the sea"]


def test_the_rank_is_that_of_bm25_worked_out_by_hand():
    texts = pa.array(TEXTS)
    # "fox" stands twice in row 0 (4 words) and once in row 1 (5 words): row 0 first.
    search = LexicalSearch(texts, ["fox", "barn hens", "sea"])
    assert (search.rank(0, 0), search.rank(0, 1), search.rank(0, 2)) == (1, 2, None)
    assert (search.rank(1, 2), search.rank(2, 4)) == (1, 1)


def test_weights_follow_the_formula():
    search = LexicalSearch(pa.array(["fox fox hen", "hen dog", "cat"]), ["fox"])
    starts, rows, weights = search._postings
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2))
    assert (starts.tolist(), rows.tolist()) == ([0, 1], [0])
    assert weights[0] == pytest.approx(expected)


def test_equal_texts_share_the_worse_rank():
    search = LexicalSearch(pa.array(["fox", "fox", "hen"]), ["fox"])
    assert (search.rank(0, 0), search.rank(0, 1)) == (2, 2)


def test_blocks_and_chunks_of_the_column_do_not_change_ranks(monkeypatch: pytest.MonkeyPatch):
    whole = LexicalSearch(pa.array(TEXTS), ["the fox over a hen"])
    monkeypatch.setattr(lexical, "_ROWS_PER_BLOCK", 2)
    parts = LexicalSearch(pa.chunked_array([TEXTS[:1], TEXTS[1:]]), ["the fox over a hen"])
    assert [whole.rank(0, row) for row in range(5)] == [parts.rank(0, row) for row in range(5)]
    assert np.allclose(np.sort(whole._postings[2]), np.sort(parts._postings[2]))


def test_letters_of_any_script_make_words():
    search = LexicalSearch(pa.array(["Größe über Öl", "die Ölpumpe"]), ["ÖL"])
    assert search.rank(0, 0) == 1
    assert search.rank(0, 1) is None


def test_a_query_without_words_finds_nothing():
    assert LexicalSearch(pa.array(["fox"]), ["?!"]).rank(0, 0) is None


def test_rows_stand_there_with_another_text_in_whatever_block_they_lie(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lexical, "_ROWS_PER_BLOCK", 2)
    asked = LexicalSearch(pa.chunked_array([TEXTS[:3], TEXTS[3:]]), ["fox sea"], {0: "", 3: "a fox of the sea"})
    edited = LexicalSearch(pa.array(["", *TEXTS[1:3], "a fox of the sea", TEXTS[4]]), ["fox sea"])
    ranks = [asked.rank(0, row) for row in range(5)]
    assert ranks == [edited.rank(0, row) for row in range(5)]
    assert (ranks[0], ranks[3]) == (None, 1)


def test_of_several_answers_the_best_counts_and_only_the_named_others_stand_before_it():
    search = LexicalSearch(pa.array(TEXTS), ["fox hen"])
    assert [search.rank(0, row) for row in range(5)] == [2, 1, None, None, None]
    assert search.rank(0, np.array([0, 2])) == 2
    assert search.rank(0, np.array([0, 2]), np.array([False, False, False, True, True])) == 1
