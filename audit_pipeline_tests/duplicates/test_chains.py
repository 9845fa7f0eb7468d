"""Clusters that grew by chains: redundancy is withheld for them, and told for dense and for small ones."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.duplicates.chains import find_chains
from audit_pipeline_tests.duplicates.snapshots import snapshot_of, words_of
from audit_pipeline_tests.duplicates.test_clusters import clustered

TWO_DEGREES = float(np.cos(np.radians(2)))


def members(*sizes: int, chained: int) -> tuple[np.ndarray, np.ndarray]:
    """Clusters of these sizes, in each of them ``chained`` members tied only through others."""
    representative = np.repeat(np.arange(len(sizes)) * 1000, sizes)
    return representative, np.concatenate([np.arange(size) >= size - chained for size in sizes])


def test_a_cluster_counts_from_a_hundred_members_half_of_them_chained_and_a_twentieth_of_the_corpus():
    assert find_chains(1000, *members(100, 3, chained=3)) is None
    found = find_chains(1000, *members(60, 100, chained=50))
    assert (found.clusters, found.texts, found.chain_only, found.largest) == (1, 100, 50, 1000)
    assert find_chains(1001, *members(60, 100, chained=50)) is None
    assert find_chains(1000, *members(60, 120, chained=59)) is None
    assert find_chains(100, *members(99, chained=98)) is None
    both = find_chains(2000, *members(100, 120, chained=60))
    assert (both.clusters, both.texts, both.chain_only, both.largest) == (2, 220, 120, 1000)


def test_no_cluster_is_no_chain():
    assert find_chains(0, np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)) is None


def corpus(degrees: np.ndarray, others: int = 150):
    """One chunk at each angle of a plane, and as many others in directions of their own."""
    generator = np.random.default_rng(7)
    vectors = np.zeros((len(degrees) + others, 32))
    vectors[: len(degrees), 0], vectors[: len(degrees), 1] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    vectors[len(degrees) :, 2:] = generator.standard_normal((others, 30))
    return snapshot_of([words_of(generator, 12) for _ in vectors], vectors)


def test_where_a_chain_grew_over_half_the_corpus_redundancy_is_withheld_and_said_so():
    result = clustered(corpus(np.arange(150.0)), TWO_DEGREES)
    assert result.summary["redundancy"] == {"exact": 0.0, "lexical": 0.0, "embedding": None}
    [finding] = result.findings
    assert (finding.code, finding.severity, finding.n_compared) == ("chained_clusters", "info", 300)
    # Those at 1 and 2 degrees are near the one at 0; the 147 after them are not.
    assert finding.share == 147 / 300
    assert finding.evidence["redundancy_with_chains"] == 149 / 300
    assert (finding.evidence["texts"], finding.evidence["chain_only"]) == (150, 147)
    assert finding.examples == ["c00000"]
    assert result.summary["clusters"]["withheld"] == finding.message


@pytest.mark.parametrize(
    "degrees",
    [
        np.linspace(0, 1.9, 150),  # one dense family, half of the corpus
        np.concatenate([10 * family + np.arange(5.0) for family in range(30)]),  # chains, each of five
        np.arange(99.0),  # a long chain in a small table
    ],
    ids=["dense", "short", "small"],
)
def test_dense_short_and_small_clusters_are_told_as_redundancy(degrees):
    result = clustered(corpus(degrees), TWO_DEGREES)
    chunks = len(degrees) + 150
    clusters = 30 if len(degrees) == 150 and degrees[-1] > 2 else 1
    assert result.summary["redundancy"]["embedding"] == (len(degrees) - clusters) / chunks
    assert result.findings == []
    assert result.summary["clusters"]["withheld"] is None
