"""Another audit's sentences asked of other chunks: which chunk is asked, what is left of it, and what is counted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from audit_pipeline.corpus.asked_again import ASKED, AskedAgain, ask_again
from audit_pipeline.corpus.sentences import marks

SENTENCE = "Cats sleep on the warm stove."
BEFORE = "It rained for a week in the hills."
AFTER = "Nobody came to the door that day."
NOTHING_LOST = {"asked": 1, "asked_twice": 0, "no_document": 0, "not_whole": 0, "shared_chunk": 0}


def asked(*sentences: str, documents: list[str | None] | None = None) -> pa.Table:
    own = documents or [None] * len(sentences)
    rows = [{"doc_id": doc, **marks(sentence)} for doc, sentence in zip(own, sentences, strict=True)]
    return pa.Table.from_pylist(rows, schema=ASKED)


def population(texts: dict[str, str], **columns: Any) -> pa.Table:
    n = len(texts)
    filled = {"source": ["s"] * n, "doc_id": [None] * n, "position": [None] * n, "heading": [None] * n, **columns}
    table = {"chunk_id": list(texts), "text": list(texts.values()), **filled}
    types = {"position": pa.int32()}
    return pa.table({name: pa.array(column, types.get(name, pa.string())) for name, column in table.items()})


def only(found: AskedAgain) -> dict[str, Any]:
    (record,) = found.held.to_pylist()
    return record


def test_the_sentence_is_taken_out_of_the_chunk_that_holds_it_with_its_marks() -> None:
    chunks = {"a": BEFORE, "b": f"{BEFORE} {SENTENCE.upper()}\n\n{AFTER}"}
    found = ask_again(asked(SENTENCE), population(chunks), 5)
    record = only(found)
    assert found.counts == NOTHING_LOST
    assert (record["chunk_id"], record["eligible"], record["sentences"]) == ("b", True, 3)
    assert record["held"] == SENTENCE.upper()
    assert record["body"] == f"{BEFORE}\n\n{AFTER}"
    assert record["held_sha256"] == marks(SENTENCE)["held_sha256"]


@pytest.mark.parametrize(
    ("text", "held", "body"),
    [
        (f"{BEFORE} “{SENTENCE}” {AFTER}", SENTENCE, f"{BEFORE} “ ” {AFTER}"),  # as it was asked, without the quotes
        (f"{BEFORE} Cats sleep on the warm stove! {AFTER}", "Cats sleep on the warm stove!", f"{BEFORE} {AFTER}"),
        (
            f"I\u0307\u0130 e\u0301 {SENTENCE} {AFTER}",
            SENTENCE,
            f"\u0130\u0130 \u00e9 {AFTER}",
        ),  # composed, longer folded
    ],
)
def test_marks_beside_the_words_belong_to_them_as_they_were_asked(text: str, held: str, body: str) -> None:
    record = only(ask_again(asked(SENTENCE), population({"a": text}), 2))
    assert (record["held"], record["body"]) == (held, body)


def test_of_overlapping_windows_the_one_that_knows_most_around_it_is_asked() -> None:
    chunks = {"a": f"{BEFORE} {SENTENCE}", "b": f"{BEFORE} {SENTENCE} {AFTER}", "c": f"{SENTENCE} {AFTER}"}
    assert only(ask_again(asked(SENTENCE), population(chunks), 5))["chunk_id"] == "b"


def test_what_is_cut_is_counted_and_never_asked() -> None:
    chunks = {"a": f"{BEFORE} Cats sleep on", "b": f"the warm stove. {AFTER}"}
    found = ask_again(asked(SENTENCE), population(chunks), 5)
    assert len(found.held) == 0
    assert found.counts == NOTHING_LOST | {"not_whole": 1}


def test_a_chunk_that_is_little_more_than_the_sentence_says_so_and_so_does_one_that_holds_it_twice() -> None:
    chunks = {"a": f"So it was. {SENTENCE}", "b": f"{AFTER} {BEFORE} {AFTER}"}
    found = ask_again(asked(SENTENCE, AFTER), population(chunks), 5)
    assert [(r["chunk_id"], r["eligible"], r["reason"], r["body"]) for r in found.held.to_pylist()] == [
        ("a", False, "too_short", None),
        ("b", False, "repeated", None),
    ]


def test_a_chunk_is_asked_one_sentence_and_a_sentence_once() -> None:
    found = ask_again(asked(BEFORE, SENTENCE, SENTENCE), population({"a": f"{BEFORE} {SENTENCE} {AFTER}"}), 5)
    first = min((BEFORE, SENTENCE), key=lambda sentence: marks(sentence)["held_sha256"])
    assert only(found)["held"] == first
    assert found.counts == NOTHING_LOST | {"asked": 3, "asked_twice": 1, "shared_chunk": 1}


def test_a_sentence_is_looked_for_in_its_own_document_where_both_know_documents() -> None:
    chunks = {"a": f"{BEFORE} {SENTENCE} {AFTER}", "b": f"{BEFORE} {SENTENCE}", "c": AFTER}
    known = population(chunks, doc_id=["one", "two", "two"])
    assert only(ask_again(asked(SENTENCE, documents=["two"]), known, 5))["chunk_id"] == "b"
    both = ask_again(asked(AFTER, SENTENCE, documents=["one", "two"]), known, 5)
    assert {r["chunk_id"]: r["held"] for r in both.held.to_pylist()} == {"a": AFTER, "b": SENTENCE}
    gone = ask_again(asked(SENTENCE, AFTER, documents=["three", "two"]), known, 2)
    assert gone.counts["no_document"] == 1
    # Documents under other names altogether are no reason to look nowhere.
    assert only(ask_again(asked(SENTENCE, documents=["elsewhere"]), known, 5))["chunk_id"] == "a"


def test_a_header_that_a_documents_chunks_repeat_is_no_part_of_the_body() -> None:
    header = "Manual of the house\n"
    chunks = {"a": f"{header}{BEFORE} {SENTENCE} {AFTER}", "b": f"{header}{AFTER}", "c": f"{header}{BEFORE}"}
    known = population(chunks, doc_id=["d"] * 3, position=[0, 1, 2])
    assert only(ask_again(asked(SENTENCE), known, 5))["body"] == f"{BEFORE} {AFTER}"
    record = only(ask_again(asked("Manual of the house"), known, 5))
    assert (record["eligible"], record["reason"]) == (False, "in_header")
