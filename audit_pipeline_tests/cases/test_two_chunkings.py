"""One corpus in two chunkings, each audited whole: both are asked one set of sentences, and what one lost shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.corpus.sentences import stands_in
from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.report.by_document import AMONG_DOCUMENTS, IN_EQUAL_TEXT
from audit_pipeline.report.compare import Change, Comparison, compare
from audit_pipeline.report.compare_text import comparison_text
from audit_pipeline.report.saved import open_report
from audit_pipeline_tests.cases.conftest import Audit, AuditTable, Corpus, table_of

SOURCES = ("left", "right")
DOCUMENTS = 60
TEXTS_OF_DOCUMENT = 5
LONG, SHORT = 90, 45  # words of a chunk


def documents(corpus: Corpus) -> list[str]:
    """Documents of five texts each."""
    return ["\n\n".join(corpus.texts[n::DOCUMENTS][:TEXTS_OF_DOCUMENT]) for n in range(DOCUMENTS)]


def cut(corpus: Corpus, size: int, model: str | None = None) -> pa.Table:
    """The documents in chunks of so many words, wherever a sentence is, with their vectors; half in either source."""
    columns: dict[str, list[Any]] = {"chunk_id": [], "doc_id": [], "position": [], "source": []}
    texts = []
    for number, text in enumerate(documents(corpus)):
        words = text.split(" ")
        for position, start in enumerate(range(0, len(words), size)):
            texts.append(" ".join(words[start : start + size]))
            row = (f"d{number:02}#{position}", f"d{number:02}", position, SOURCES[number * 2 // DOCUMENTS])
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    encoder = load_encoder(EncoderSettings(model=model or corpus.model))
    assert encoder is not None
    return table_of(texts, encoder.encode(texts), **columns)


def report_of(audit: Audit) -> Path:
    return audit.folder / "state" / "reports" / "case"


def compared(a: Audit, b: Audit) -> Comparison:
    return compare(open_report(report_of(a)), open_report(report_of(b)))


def change_of(found: Comparison, measure: str) -> Change:
    (change,) = [change for change in found.changes if change.measure == measure]
    return change


@pytest.fixture
def labels(corpus: Corpus, tmp_path: Path) -> dict[str, str]:
    """The first words of a text of each document, judged by document."""
    lines = [
        {"query": " ".join(corpus.texts[n].split()[:12]), "doc_id": f"d{n:02}"}
        for n in range(DOCUMENTS)
    ]  # fmt: skip
    path = tmp_path / "queries.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return {"queries": str(path)}


def spoilt(table: pa.Table, source: str) -> pa.Table:
    """The table with the vectors of one source shuffled among its rows."""
    rows = np.flatnonzero(np.array(table["source"].to_pylist()) == source)
    places = np.arange(len(table))
    places[rows] = np.random.default_rng(0).permutation(rows)
    vectors = table["vector"].combine_chunks().take(pa.array(places))
    return table.set_column(table.schema.get_field_index("vector"), "vector", vectors)


def test_two_chunkings_are_compared_by_sentence_and_by_document(
    corpus: Corpus, audit_table: AuditTable, labels: dict[str, str]
) -> None:
    long, short = cut(corpus, LONG), cut(corpus, SHORT)
    first = audit_table(long, labels=labels)
    again = {"like": str(report_of(first)), "arms": 0}
    second = audit_table(short, labels=labels, sample=again)

    asked = first.tables().table("held_out_retrieval", text=True)
    asked = asked[asked["eligible"] & ~asked["overlap"].fillna(False).astype(bool)]
    held = second.tables().table("held_out_retrieval")
    counts = second.report["held_out"]["asked_again"]
    assert counts["asked"] == len(asked)
    # The sentences of the first, by a search of the texts that knows nothing of hashes.
    texts = dict(zip(short["chunk_id"].to_pylist(), short["text"].to_pylist(), strict=True))
    of_first = _held_sentences(asked, dict(zip(long["chunk_id"].to_pylist(), long["text"].to_pylist(), strict=True)))
    holders = {
        sha: [c for c, text in texts.items() if c.startswith(f"{doc}#") and stands_in(sentence, text)]
        for sha, (doc, sentence) in of_first.items()
    }
    whole = {sha for sha, own in holders.items() if own}
    assert counts["not_whole"] == len(asked) - len(whole) > 0
    assert counts["shared_chunk"] == len(whole) - len(held)
    assert all(row.chunk_id in holders[row.held_sha256] for row in held.itertuples())

    found = compared(first, second)
    kept = held["eligible"] & ~held["overlap"].fillna(False).astype(bool)
    assert (found.paired["held_out"]["by"], found.paired["held_out"]["n"]) == ("sentence", int(kept.sum()))
    assert found.paired["held_out"]["n"] > 40
    assert "self" in found.not_compared
    shown = {change.measure for change in found.changes}
    assert shown == {"heldout@1", "heldout@10", "labelled_success@10", AMONG_DOCUMENTS, IN_EQUAL_TEXT}
    text = comparison_text(found)
    assert "not compared: self: the chunks are others" in text
    assert f"Of {len(asked)} sentences that one audit held out" in text

    # What was lost in one source of the second shows there, and nowhere else.
    worse = audit_table(spoilt(short, "right"), labels=labels, sample=again)
    lost = compared(second, worse)
    change = change_of(lost, AMONG_DOCUMENTS)
    assert change.beyond_chance
    assert change.high < 0
    assert {c.scope["source"] for c in lost.strata if "source" in c.scope} == {"right"}
    assert change_of(compared(first, worse), AMONG_DOCUMENTS).high < 0
    assert lost.causes["self"]["a"] != lost.causes["self"]["b"]

    # The same index with itself, asked its own sentences: no difference and no significance.
    same = compared(second, second)
    assert all((c.difference, c.won, c.lost, c.p) == (0, 0, 0, 1) and not c.beyond_chance for c in same.changes)
    assert (same.strata, same.not_compared, same.cautions) == ([], {}, [])


def test_another_encoder_of_the_same_chunks_is_compared_probe_by_probe(
    corpus: Corpus, audit_table: AuditTable, tmp_path: Path
) -> None:
    other = blurred(corpus, tmp_path / "blurred")
    before = audit_table(cut(corpus, LONG))
    after = audit_table(cut(corpus, LONG, other), encoder={"model": other})
    found = compared(before, after)
    probes = before.report["self_retrieval"]["n"]
    assert found.paired["self"] == {"by": "id", "n": probes, "only_a": 0, "only_b": 0, "changed": 0}
    change = change_of(found, "heldout@10")
    assert change.beyond_chance
    assert change.difference < 0
    assert (change_of(found, "self@1").n, found.not_compared) == (probes, {})
    assert found.causes["held_out"]["b"]["encoder"] > found.causes["held_out"]["a"].get("encoder", 0)
    text = comparison_text(found)
    assert "word-means, no prompts" in text
    assert "blurred, no prompts" in text
    assert "held_out missed:" in text
    assert "The encoder's model differs" in text


def blurred(corpus: Corpus, folder: Path) -> str:
    """A worse encoder of the same size: eight of its dimensions tell anything."""
    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(corpus.model)
    with torch.no_grad():
        model[0].embedding.weight[:, 8:] = 0
    model.save(str(folder), create_model_card=False)
    return str(folder)


def _held_sentences(asked: Any, texts: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Document and text of each held sentence, by its hash: the one sentence of its chunk that has this hash."""
    import hashlib

    from audit_pipeline.corpus.sentences import split_sentences
    from audit_pipeline.corpus.text import normalise

    found = {}
    for row in asked.itertuples():
        by_hash = {
            hashlib.sha256(normalise(sentence).encode()).hexdigest(): sentence
            for sentence in split_sentences(texts[row.chunk_id])
        }
        found[row.held_sha256] = (row.doc_id, by_hash[row.held_sha256])
    return found
