"""Chunks that overlap by most of their text, and chunks that win the searches of others; the clean twins are silent."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa

from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.cases.conftest import Audit, AuditTable, Corpus, table_of

DOCUMENTS, WINDOW, WINDOWS = 5, 256, 10


def windows(corpus: Corpus, step: int) -> pa.Table:
    """Documents of joined texts in windows of 256 tokens, each ``step`` tokens after the one before."""
    encoder = model_of(corpus)
    texts, documents, positions = [], [], []
    for document in range(DOCUMENTS):
        # A document has its share of the texts, which is enough for windows that do not overlap at all.
        whole = "\n".join(corpus.texts[document::DOCUMENTS])
        spans = encoder.token_spans(whole)
        assert spans is not None
        for position in range(WINDOWS):
            tokens = spans[position * step : position * step + WINDOW]
            assert len(tokens) == WINDOW
            texts.append(whole[tokens[0, 0] : tokens[-1, 1]])
            documents.append(f"page {document}")
            positions.append(position)
    return table_of(texts, encoder.encode(texts), doc_id=documents, position=positions)


def model_of(corpus: Corpus) -> Encoder:
    encoder = load_encoder(EncoderSettings(model=corpus.model))
    assert encoder is not None
    return encoder


def in_clusters(audit: Audit) -> set[frozenset[str]]:
    """Pairs of one document and neighbouring positions that stand in one cluster."""
    members = audit.tables().table("duplicate_clusters")
    pairs = set()
    for _, cluster in members.groupby("cluster_id"):
        numbers = sorted(int(name[1:]) for name in cluster["chunk_id"])
        pairs |= {frozenset((f"c{a:04}", f"c{b:04}")) for a, b in pairwise(numbers) if a // WINDOWS == b // WINDOWS}
    return pairs


def test_windows_that_overlap_by_200_tokens_are_a_class_of_their_own_and_give_no_ceiling(
    audit_table: AuditTable, corpus: Corpus
) -> None:
    audit = audit_table(windows(corpus, step=WINDOW - 200))
    found = audit.finding("chunk_windows")
    assert found["severity"] == "info"
    assert found["share"] > 0.9
    assert in_clusters(audit) == set()
    pairs = audit.tables().table("candidate_pairs")
    a, b = (pairs[f"chunk_id_{side}"].str[1:].astype(int) for side in "ab")
    overlapping = (a // WINDOWS == b // WINDOWS) & ((a - b).abs() <= 4)
    assert overlapping.sum() > DOCUMENTS * WINDOWS
    assert pairs["window"][overlapping].all()
    for row in audit.report["duplicates"]["sweep"]:
        assert row["flagged"] == (~pairs["window"] & (pairs["cosine"] >= row["threshold"] - 1e-6)).sum()
    held = audit.report["held_out"]
    assert held["overlap"] > 0.9 * held["eligible"]
    assert held["heldout@10"]["n"] == 0
    (why,) = [f for f in audit.report["findings"] if f["evidence"].get("measure") == "heldout@10"]
    assert (why["code"], why["n_compared"]) == ("not_measured", 0)
    assert "stand in another chunk too, as in overlapping windows" in why["message"]
    assert audit.codes("error") == set()


def test_windows_side_by_side_are_held_out_and_give_no_finding(audit_table: AuditTable, corpus: Corpus) -> None:
    audit = audit_table(windows(corpus, step=WINDOW))
    assert "chunk_windows" not in audit.codes()
    assert audit.report["held_out"]["heldout@10"]["n"] > 20
    assert audit.codes("error", "warning") == set()


MENU = "Home Products Pricing Docs Blog Contact"


def navigation_among(corpus: Corpus, n: int = 240, hubs: int = 30) -> pa.Table:
    """The texts and the menus of 30 pages, which differ in the page's number only."""
    menus = [f"{MENU} {MENU} page {number}" for number in range(hubs)]
    encoded = model_of(corpus).encode(menus)
    encoded /= np.linalg.norm(encoded, axis=1, keepdims=True)
    vectors = np.concatenate([corpus.vectors[:n], encoded])
    ids = [f"c{number:04}" for number in range(n)] + [f"menu-{number:02}" for number in range(hubs)]
    return table_of(corpus.texts[:n] + menus, vectors, chunk_id=ids)


def test_navigation_chunks_that_win_the_probes_of_others_are_hubs_with_their_counts(
    audit_table: AuditTable, corpus: Corpus
) -> None:
    # What the application puts before its queries draws them all towards the menus.
    audit = audit_table(navigation_among(corpus), encoder={"query_prompt": f"{MENU} " * 12})
    found = audit.finding("hubs")
    assert found["severity"] == "info"
    hubs = found["evidence"]["hubs"]
    assert hubs
    assert all(name.startswith("menu-") for name in hubs)
    winners = [miss["evidence"]["winner"] for miss in audit.report["misses"] if miss["cause"] == "encoder"]
    table = audit.tables().table("self_retrieval")
    lost = table["evidence"][table["cause"] == "encoder"].map(lambda notes: json.loads(notes)["winner"])
    assert set(winners) & set(hubs)
    assert all(hubs[name] >= (lost == name).sum() for name in hubs)
    assert found["examples"] == list(hubs)[:5]


def test_the_same_menus_win_nothing_where_nothing_draws_queries_to_them(
    audit_table: AuditTable, corpus: Corpus
) -> None:
    audit = audit_table(navigation_among(corpus))
    # A model of word means has hubs of its own among held-out sentences, which is no matter of the menus.
    hubs = [name for f in audit.report["findings"] if f["code"] == "hubs" for name in f["evidence"]["hubs"]]
    assert not [name for name in hubs if name.startswith("menu-")]
