"""Sentences found again by their hashes: the same places as a plain search of the words finds, whatever the block."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest

from audit_pipeline.corpus import spans
from audit_pipeline.corpus.sentences import split_sentences
from audit_pipeline.corpus.spans import find_spans, mark_of
from audit_pipeline.corpus.text import normalise, words
from audit_pipeline_tests.encoder.planted import docstrings


def test_a_mark_is_the_hash_of_the_normal_form_and_of_the_words_worked_out_here() -> None:
    def h(word: str) -> int:
        return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")

    mark = mark_of("  Two \n WORDS. ")
    assert mark.sha256 == hashlib.sha256(b"two words.").hexdigest()
    assert mark.words == 2
    assert int(mark.rolling, 16) == (h("two") + h("words") * 0x9E3779B97F4A7C15) % 2**64
    assert mark_of("Words two.").rolling != mark.rolling


@pytest.mark.parametrize("block", [1, 7, 20_000])
def test_spans_are_where_a_plain_search_finds_the_words(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_CHUNKS_PER_BLOCK", block)
    texts = docstrings("rich", 40)
    asked = [sentence for text in texts[::3] for sentence in split_sentences(text)]
    asked += ["these words stand in no text of all", "", "a"]
    found = find_spans(pa.array(texts), [mark_of(sentence) for sentence in asked])
    told = 0
    for sentence, own in zip(asked, found, strict=True):
        wanted = words(normalise(sentence))
        expected = []
        for number, text in enumerate(texts):
            there = words(normalise(text))
            for first in range(len(there) - len(wanted) + 1):
                if wanted and there[first : first + len(wanted)] == wanted:
                    expected.append((number, first, first, len(there) - first - len(wanted)))
        assert [(s.chunk, s.first, s.before, s.after) for s in own] == expected
        told += len(expected)
    assert told > len(asked) / 2


def test_words_of_two_chunks_are_no_sentence_of_either() -> None:
    assert find_spans(pa.array(["one two", "three four"]), [mark_of("two three")]) == [[]]
