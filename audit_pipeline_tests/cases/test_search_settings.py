"""Searches that do not fit their table: the metric, a filter after the search, a cut-off. Each with its sound twin."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from lancedb.index import HnswSq, IvfFlat

from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.cases.conftest import AuditTable, Corpus, table_of

ROWS = 150


def of_uneven_length(vectors: np.ndarray) -> np.ndarray:
    """The vectors at lengths uniform in 0.2 to 5."""
    return vectors * np.random.default_rng(7).uniform(0.2, 5, size=(len(vectors), 1))


def with_cosine_index(table: Any) -> None:
    table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=1))


def test_l2_over_vectors_of_uneven_length_beside_a_cosine_index(audit_table: AuditTable, corpus: Corpus) -> None:
    vectors = of_uneven_length(corpus.vectors[:ROWS])
    found = audit_table(table_of(corpus.texts[:ROWS], vectors), after=with_cosine_index, metric="l2")
    mismatch = found.finding("metric_mismatch")
    assert (mismatch["severity"], mismatch["scope"]) == ("error", {})
    assert mismatch["evidence"]["index_metric"] == "cosine"
    assert set(found.causes) == {"metric"}
    assert found.causes["metric"] == ROWS - round(found.report["self_retrieval"]["self@1"]["value"] * ROWS)
    assert found.causes["metric"] > ROWS / 4
    assert found.report["verdict"]["reading"] == "vectors_or_index"


def test_l2_over_unit_vectors_beside_a_cosine_index_ranks_alike(audit_table: AuditTable, corpus: Corpus) -> None:
    found = audit_table(corpus.rows(slice(ROWS)), after=with_cosine_index, metric="l2")
    assert (found.causes, found.codes("error", "warning")) == ({}, set())


def test_the_dot_product_of_vectors_of_uneven_length(audit_table: AuditTable, corpus: Corpus) -> None:
    vectors = of_uneven_length(corpus.vectors[:ROWS])
    found = audit_table(table_of(corpus.texts[:ROWS], vectors), metric="dot")
    off = found.finding("not_normalised")
    lengths = np.linalg.norm(vectors, axis=1)
    assert (off["severity"], off["evidence"]["rows"]) == ("error", int((np.abs(lengths - 1) > 1e-3).sum()))
    assert set(found.causes) == {"metric"}
    # Found by the dot product over the arrays, without the project's search.
    encoder = load_encoder(EncoderSettings(model=corpus.model))
    assert encoder is not None
    first = (encoder.encode(corpus.texts[:ROWS]).astype(float) @ vectors.T).argmax(axis=1)
    assert found.causes["metric"] == int((first != np.arange(ROWS)).sum()) > ROWS / 4
    clean = audit_table(corpus.rows(slice(ROWS)), metric="dot")
    assert (clean.causes, clean.codes("error", "warning")) == ({}, set())


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_vectors_of_one_other_length_rank_as_they_would_at_length_1(
    audit_table: AuditTable, corpus: Corpus, metric: str
) -> None:
    """Held-out bodies and fresh vectors that stand in for rows are as long as those."""
    texts, vectors = corpus.texts[:ROWS], corpus.vectors[:ROWS].copy()
    at_1 = audit_table(table_of(texts, vectors), metric="cosine")
    scaled = audit_table(table_of(texts, 2.5 * vectors), metric=metric)
    assert (scaled.causes, scaled.codes("error"), scaled.codes("warning")) == ({}, set(), {"not_normalised"})
    held_out, held_out_1 = scaled.report["held_out"], at_1.report["held_out"]
    assert [held_out[k] for k in ("heldout@1", "heldout@10")] == [held_out_1[k] for k in ("heldout@1", "heldout@10")]
    assert held_out["heldout@10"]["value"] > 0
    assert (held_out["scaled_bodies"], held_out_1["scaled_bodies"]) == (held_out["eligible"], 0)
    turned = 2.5 * vectors
    turned[7] = np.roll(turned[7], 1)
    drifted = audit_table(table_of(texts, turned), metric=metric)
    assert drifted.causes == {"vector_drift": 1}


def test_a_filter_that_few_rows_pass_applied_after_the_search(audit_table: AuditTable, corpus: Corpus) -> None:
    kinds = ["kept" if n % 50 == 0 else "other" for n in range(ROWS)]
    table = corpus.rows(slice(ROWS), kind=kinds)
    found = audit_table(table, filter="kind = 'kept'", search={"prefilter": False})
    short = found.finding("short_results")
    assert (short["severity"], short["n_compared"]) == ("warning", ROWS)
    assert short["evidence"]["expected"] == 3 * short["evidence"]["short"]  # three rows pass
    assert found.causes == {"filter_excluded": ROWS - 3}
    before = audit_table(table, filter="kind = 'kept'", search={"prefilter": True})
    assert "short_results" not in before.codes()
    assert before.finding("filter_excludes")["severity"] == "info"
    assert before.causes == {"filter_excluded": ROWS - 3}  # told, not hidden: nobody can find these rows


@pytest.mark.parametrize(("indexed", "by_score"), [(False, True), (False, False), (True, True)])
def test_a_cut_off_above_most_true_matches(
    audit_table: AuditTable, corpus: Corpus, indexed: bool, by_score: bool
) -> None:
    def index(table: Any) -> None:
        if indexed:
            table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=1))

    prompt = {"query_prompt": "Represent this sentence for searching relevant passages: "}
    encoder = load_encoder(EncoderSettings(model=corpus.model))
    assert encoder is not None
    queries = encoder.encode(corpus.texts[:ROWS], prompt=prompt["query_prompt"]).astype(float)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    own = 1 - (queries * corpus.vectors[:ROWS]).sum(axis=1)
    cutoff = float(np.percentile(own, 20))
    asked = {"min_score": 1 - cutoff} if by_score else {"max_distance": cutoff}
    found = audit_table(corpus.rows(slice(ROWS)), after=index, encoder=prompt, search=asked)
    below = found.finding("below_cutoff")
    assert below["severity"] == "warning"
    # The store's scale is its own: of a quantised index about twice the exact distance.
    scale = 2.0 if indexed else 1.0
    dropped = own[scale * own > cutoff]
    assert found.causes["below_cutoff"] == pytest.approx(len(dropped), abs=3)
    # Codes of eight bits a component lose a little of it.
    assert below["evidence"]["distance"]["p50"] == pytest.approx(
        scale * np.median(dropped), rel=0.1 if indexed else 1e-3
    )
    assert 1 - below["evidence"]["score"]["p50"] == pytest.approx(np.median(dropped), rel=0.02)
    middle = scale * np.median(dropped)
    told = re.search(r"Their (score|_distance) is ([\d.]+) at the median", below["message"])
    assert told is not None
    assert told[1] == ("score" if by_score else "_distance")
    assert float(told[2]) == pytest.approx(1 - middle if by_score else middle, rel=0.1 if indexed else 1e-2)
    assert "short_results" not in found.codes()


def test_a_cut_off_that_lets_true_matches_through(audit_table: AuditTable, corpus: Corpus) -> None:
    found = audit_table(corpus.rows(slice(ROWS)), search={"min_score": 0.9})
    assert (found.causes, found.codes("error", "warning")) == ({}, set())


def test_a_cut_off_does_not_hide_that_a_filter_comes_too_late(audit_table: AuditTable, corpus: Corpus) -> None:
    table = corpus.rows(slice(ROWS), kind=["kept" if n % 50 == 0 else "other" for n in range(ROWS)])
    cut = {"min_score": -0.5}  # everything but opposite vectors
    found = audit_table(table, filter="kind = 'kept'", search={"prefilter": False, **cut})
    assert found.finding("short_results")["share"] > 0.5
    assert "short_results" not in audit_table(table, filter="kind = 'kept'", search=cut).codes()
