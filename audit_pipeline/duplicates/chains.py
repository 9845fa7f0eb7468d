"""Clusters that grew by chains: whether redundancy can be read off them. Clusters are made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST_TEXTS = 100
LEAST_CHAINED = 0.5
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Chains:
    """The clusters that hold together by chains: how many, their distinct texts, those tied only through others.

    ``largest`` is the node of the largest one's representative.
    """

    clusters: int
    texts: int
    chain_only: int
    largest: int


def find_chains(chunks: int, representative: np.ndarray, chain_only: np.ndarray) -> Chains | None:
    """The clusters that grew by chains, where they are too much of a corpus of ``chunks``; else None.

    ``representative`` and ``chain_only`` have one element a member of a cluster; copies of a text that stays are left
    out, as they are redundant whatever holds their cluster together. Similarity is not transitive: once a
    threshold lies below what neighbouring texts of a corpus have in common, components join at a stroke (the giant
    component of random graphs, Erdos & Renyi 1960), and a representative says nothing of most of its cluster. Such a
    cluster has at least 100 texts and half of them tied only through others; together these are at least 5 % of the
    chunks, so that the redundancy counted through them is off by as many points. Clusters under 100 texts cannot
    trip it: in a small table one family of texts is a large share of everything.
    """
    centres, place, sizes = np.unique(representative, return_inverse=True, return_counts=True)
    chained = np.bincount(place.reshape(-1), weights=chain_only, minlength=len(centres))
    grown = (sizes >= LEAST_TEXTS) & (chained >= LEAST_CHAINED * sizes)
    total = int(chained[grown].sum())
    if not grown.any() or total < LEAST_SHARE * chunks:
        return None
    largest = int(centres[grown][np.argmax(sizes[grown])])
    return Chains(int(grown.sum()), int(sizes[grown].sum()), total, largest)
