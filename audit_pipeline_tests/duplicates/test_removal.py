"""What may be dropped: what a cosine has to earn first, and what is still there once every drop has gone."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.corpus.text import normalise
from audit_pipeline.duplicates.removal import cosine_alone
from audit_pipeline_tests.duplicates.snapshots import candidates_of, snapshot_of, words_of
from audit_pipeline_tests.duplicates.test_clusters import EARNED, NOT_EARNED, clustered
from audit_pipeline_tests.encoder.planted import docstrings


def verdict(precision, queue, threshold=0.96, provisional=False):
    rows = [
        {"threshold": 0.9, "precision": 0.99, "precision_queue": 0.99},
        {"threshold": 0.96, "precision": precision, "precision_queue": queue},
    ]
    return cosine_alone({"threshold": threshold, "provisional": provisional}, rows)


@pytest.mark.parametrize(
    ("precision", "queue", "drops"),
    [
        (0.9, None, True),
        (0.899, None, False),
        (0.95, 0.3, False),  # the queue's precision goes before that of the labels
        (0.5, 0.92, True),
        (None, None, False),
    ],
)
def test_cosine_alone_drops_where_nine_in_ten_of_the_recommended_row_are_duplicates(precision, queue, drops):
    found = verdict(precision, queue)
    assert (found.drops, found.precision) == (drops, precision if queue is None else queue)


def test_labels_whose_bands_do_not_hold_let_nothing_be_dropped():
    def with_bands(banded, used):
        rows = [{"threshold": 0.96, "precision": 0.95, "precision_queue": None}]
        bands = {"banded": banded, "used": used}
        return cosine_alone({"threshold": 0.96, "provisional": False}, rows, bands)

    assert with_bands(0, False).drops
    assert with_bands(9, True).drops
    assert not with_bands(9, False).drops
    assert "bands of the labels do not hold" in with_bands(9, False).reason


def test_the_reason_names_the_figure_it_rests_on():
    assert verdict(0.95, 0.304).reason == (
        "Of the candidate pairs (by the labels drawn from them) that pass 0.96, 30.4% are duplicates, under 90%: only "
        "chunks whose text equals that of one that stays, or stands whole in it, are offered for removal."
    )
    assert "Of the labelled pairs that pass 0.96, 95.0% are duplicates" in verdict(0.95, None).reason


def test_without_a_threshold_or_labels_nothing_is_dropped_by_cosine():
    assert not verdict(0.99, None, threshold=None).drops
    provisional = verdict(None, None, provisional=True)
    assert not provisional.drops
    assert provisional.reason.startswith("No label stands behind the provisional threshold")


def corpus_of(texts, generator, dimension=3):
    """Copies, edits and paraphrases of the texts, vectors near each other by family, some of them broken."""
    every, vectors = [], []
    for text in texts:
        centre = generator.standard_normal(dimension)
        for _ in range(generator.integers(1, 6)):
            kind = generator.integers(0, 4)
            every.append([text, text.upper(), text[: text.rindex(" ")], words_of(generator, 6)][kind])
            vectors.append(centre + generator.normal(0, 0.2, dimension))
    vectors = np.array(vectors)
    vectors[generator.random(len(vectors)) < 0.05] = 0
    order = generator.permutation(len(every))
    return snapshot_of([every[row] for row in order], vectors[order])


def near(text, other, cosine, threshold, cosine_suffices):
    """Whether a kept text speaks for the one that goes, by the definitions and without the code under test."""
    if cosine_suffices and cosine >= threshold - 1e-6:
        return True
    part, whole = normalise(text).split(), normalise(other).split()
    return any(whole[start : start + len(part)] == part for start in range(len(whole) - len(part) + 1))


def check_what_stays(snapshot, result, threshold, cosine_suffices):
    """Every row that goes has one that stays, of equal text or near it.

    Returns how many go for a copy's sake, how many for a near one's, and the copies beyond the first among the latter.
    """
    texts = dict(zip(*(snapshot.rows[name].to_pylist() for name in ("chunk_id", "text")), strict=True))
    vector = dict(zip(texts, snapshot.vectors.astype(float), strict=True))
    table = result.tables["duplicate_clusters"].to_pylist()
    gone = {row["chunk_id"] for row in table if row["action"] == "drop"}
    stays = set(texts) - gone
    copies, others, beyond = 0, 0, 0
    for row in table:
        if row["action"] != "drop":
            assert row["same_text_as"] is None
            continue
        for_whom = row["same_text_as"] or row["cluster_id"]
        assert for_whom in stays
        assert np.any(vector[for_whom]) or not np.any(vector[row["chunk_id"]])
        if normalise(texts[for_whom]) == normalise(texts[row["chunk_id"]]):
            copies += 1
            continue
        assert row["same_text_as"] is None
        one, two = vector[row["chunk_id"]], vector[for_whom]
        norms = np.linalg.norm(one) * np.linalg.norm(two)
        cosine = float(one @ two / norms) if norms else -1.0
        assert near(texts[row["chunk_id"]], texts[for_whom], cosine, threshold, cosine_suffices)
        others += 1
    # Of every text that several rows hold and that stays somewhere, exactly one copy stays beside the representatives.
    copies_of = {}
    for chunk, text in texts.items():
        copies_of.setdefault(normalise(text), []).append(chunk)
    representatives = {row["chunk_id"] for row in table if row["is_representative"]}
    for chunks in copies_of.values():
        left = [chunk for chunk in chunks if chunk in stays]
        if len(chunks) > 1:
            assert len([chunk for chunk in left if chunk not in representatives]) <= 1
        if not left:
            beyond += len(chunks) - 1
            assert all(row["same_text_as"] is None for row in table if row["chunk_id"] in chunks)
    return copies, others, beyond


@pytest.mark.parametrize("seed", range(12))
def test_what_stays_speaks_for_all_that_goes_on_random_graphs(seed):
    generator = np.random.default_rng(seed)
    snapshot = corpus_of([words_of(generator, 40) for _ in range(60)], generator)
    candidates = candidates_of(snapshot)
    for cosine in (EARNED, NOT_EARNED):
        result = clustered(snapshot, 0.98, candidates, cosine)
        copies, others, _ = check_what_stays(snapshot, result, 0.98, cosine.drops)
        assert copies > 10
        assert others > (5 if cosine.drops else -1)


def test_what_stays_speaks_for_all_that_goes_on_real_text(fast_encoder):
    texts = docstrings("dagster", 200)
    generator = np.random.default_rng(0)
    texts += [texts[row].upper() if row % 2 else texts[row] for row in generator.integers(0, 200, 150).tolist()]
    texts += [text[: text.rindex(" ")] for text in texts[:40]]
    snapshot = snapshot_of(texts, fast_encoder.encode(texts))
    candidates = candidates_of(snapshot)
    for threshold, cosine in ((0.9, NOT_EARNED), (0.97, EARNED), (None, NOT_EARNED)):
        result = clustered(snapshot, threshold, candidates, cosine)
        copies, others, beyond = check_what_stays(snapshot, result, threshold or 2.0, cosine.drops)
        assert copies + beyond == len(texts) - len({normalise(text) for text in texts})
        assert others > 0
