"""One prompt on queries and passages alike: self-retrieval stays high, and the audit says what that does not show."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from audit_pipeline.corpus.sampling import hash_order
from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.cases.conftest import AuditTable, Corpus, table_of
from audit_pipeline_tests.cases.test_model_prompts import CONFIGURATION

ROWS, ASKED = 90, 30


def found_among_ten(queries: np.ndarray, passages: np.ndarray, bodies: np.ndarray, places: np.ndarray) -> np.ndarray:
    haystack = passages.astype(np.float64).copy()
    haystack[places] = bodies
    haystack /= np.linalg.norm(haystack, axis=1, keepdims=True)
    scores = queries.astype(np.float64) / np.linalg.norm(queries, axis=1, keepdims=True) @ haystack.T
    own = scores[np.arange(len(places)), places]
    return (scores > own[:, None] + 1e-6).sum(axis=1) < 10


@pytest.fixture
def model(corpus: Corpus, tmp_path: Path) -> str:
    """The model with prompts of its own that are not the configured ones."""
    folder = tmp_path / "model"
    shutil.copytree(corpus.model, folder)
    configuration = json.loads((folder / CONFIGURATION).read_text(encoding="utf-8"))
    configuration["prompts"] = {"query": "search_query: ", "document": "search_document: "}
    (folder / CONFIGURATION).write_text(json.dumps(configuration), encoding="utf-8")
    return str(folder)


def test_the_control_says_that_it_cannot_see_a_prompt_on_both_sides(
    audit_table: AuditTable, corpus: Corpus, model: str
) -> None:
    encoder = load_encoder(EncoderSettings(model=model))
    assert encoder is not None
    texts = corpus.texts[:ROWS]
    vectors = encoder.encode(texts, prompt="query: ")
    prompts = {"model": model, "query_prompt": "query: ", "passage_prompt": "query: "}
    audit = audit_table(table_of(texts, vectors), encoder=prompts, sample={"arms": ROWS})
    report = audit.report
    assert report["self_retrieval"]["self@1"]["value"] > 0.95
    assert report["verdict"]["reading"] != "healthy"
    text = report["verdict"]["text"]
    assert (
        "queries and passages carry the same prompt 'query: ', so a prompt that is wrong on both sides leaves" in text
    )
    assert "the model's own prompts differ from the configured ones (query 'search_query: ' and passage" in text
    both = report["both_sides"]
    assert both["text"] in text
    assert (both["prompt"], both["haystack"]) == ("passage: ", ROWS)
    own, held = both["measures"]
    assert own["configured"]["value"] == own["both"]["value"] == 1.0
    asked = next(arm for arm in report["formatting_arms"] if arm["configured"])["success"]
    assert held["configured"]["value"] == pytest.approx(asked["value"])  # the closed haystack is the whole table here
    plan = audit.tables().table("held_out_retrieval", text=False)
    assert held["both"]["n"] == int(plan["eligible"].sum())


def test_the_figure_with_one_prompt_on_both_sides_is_that_of_plain_arithmetic(
    audit_table: AuditTable, corpus: Corpus
) -> None:
    encoder = load_encoder(EncoderSettings(model=corpus.model))
    assert encoder is not None
    texts = corpus.texts[:ROWS]
    audit = audit_table(
        table_of(texts, encoder.encode(texts)),
        encoder={"query_prompt": "zebra volcano saxophone tundra " * 8},
        sample={"arms": ASKED},
        report={"text": "full"},
    )
    prompt = "zebra volcano saxophone tundra " * 8
    both = audit.report["both_sides"]
    assert both["prompt"] == prompt
    exported = audit.folder / "state" / "reports" / "case" / "beir" / "held_out"
    sentences = {row["_id"]: row["text"] for row in map(json.loads, (exported / "queries.jsonl").open())}
    corpus_of = {row["_id"]: row["text"] for row in map(json.loads, (exported / "corpus.jsonl").open())}
    # Few are asked, so that most of the haystack are whole texts.
    drawn = sorted(sentences, key=lambda name: hash_order(0, name.removeprefix("heldout:")))[:ASKED]
    ids = [name.removeprefix("heldout:") for name in drawn]
    places = np.array([int(name[1:]) for name in ids])
    hits = found_among_ten(
        encoder.encode([sentences[name] for name in drawn], prompt=prompt),
        encoder.encode(texts, prompt=prompt),
        encoder.encode([corpus_of[name] for name in ids], prompt=prompt),
        places,
    )
    held = both["measures"][1]
    assert held["both"]["n"] == ASKED
    assert held["both"]["value"] == pytest.approx(hits.mean())
    assert both["text"] not in audit.report["verdict"]["text"]  # the configured sides differ


def test_without_queries_to_ask_nothing_is_compared(audit_table: AuditTable, corpus: Corpus) -> None:
    assert audit_table(corpus.rows(slice(40))).report["both_sides"] is None
