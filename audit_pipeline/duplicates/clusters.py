"""Clusters of duplicates: connected components, their representatives, and what may be dropped. Nothing is deleted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.config import DuplicateSettings
from audit_pipeline.duplicates.floor import TOLERANCE
from audit_pipeline.duplicates.numeric import compare_numbers
from audit_pipeline.duplicates.rows import Nodes
from audit_pipeline.duplicates.shingles import jaccard_and_containment, shingle_sets

KEEP, DROP, REVIEW = "keep", "drop", "review"


@dataclass(frozen=True)
class Clusters:
    """Clusters of two and more: nodes of all members, and beside each the node of its representative."""

    member: np.ndarray
    representative: np.ndarray


def components(nodes: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(nodes,) label of the connected component of each node under the edges (a, b)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(nodes, nodes))
    return connected_components(graph, directed=False)[1]


def redundancy(nodes: int, a: np.ndarray, b: np.ndarray) -> float | None:
    """Share of the chunks that are not the representative of their component; None without chunks."""
    if nodes == 0:
        return None
    return (nodes - int(components(nodes, a, b).max(initial=-1) + 1)) / nodes


def cluster(seniority: np.ndarray, a: np.ndarray, b: np.ndarray) -> Clusters:
    """Components of two and more under the edges; the representative is the earliest by ``seniority`` (n,)."""
    label = components(len(seniority), a, b)
    order = np.lexsort((seniority, label))
    starts = np.flatnonzero(np.r_[True, label[order][1:] != label[order][:-1]]) if len(order) else order
    sizes = np.diff(np.append(starts, len(order)))
    representative = np.empty(len(order), dtype=np.int64)
    representative[order] = np.repeat(order[starts], sizes)
    member = np.flatnonzero(np.bincount(label, minlength=len(order))[label] > 1) if len(order) else order
    return Clusters(member, representative[member])


def cluster_table(
    nodes: Nodes,
    found: Clusters,
    same_text_as: np.ndarray,
    threshold: float | None,
    settings: DuplicateSettings,
    provisional: bool = False,
) -> pa.Table:
    """One row a member (schemas.DUPLICATE_CLUSTERS), by cluster id, the representative first, then chunk id.

    ``chain_only``: the member's own similarity to the representative does not pass; it is tied through others alone.
    With a threshold that is its cosine; without one, or where the cosine is not known, equal text or the settings'
    Jaccard and containment decide. ``action``: drop only what passes directly and holds the same numbers, else review;
    with a ``provisional`` threshold, or by the text alone, the representative's text has to cover the member's.
    """
    member, centre = found.member, found.representative
    is_representative = member == centre
    cosine = nodes.cosines(member, centre)
    same_text = (same_text_as[member] == same_text_as[centre]) & (same_text_as[member] >= 0)
    by_cosine = ~np.isnan(cosine) & (threshold is not None)
    near = by_cosine & (cosine >= (threshold or 0.0) - TOLERANCE)
    direct = same_text | is_representative | near
    sure = direct & ~(near & provisional) | same_text | is_representative
    rows = np.flatnonzero(~sure & (direct | ~by_cosine))
    verified, covered = _lexically_close(nodes, member[rows], centre[rows], settings)
    direct[rows] |= verified & ~by_cosine[rows]
    sure[rows] = direct[rows] & covered
    numeric, equal_numbers = _numbers(nodes, member, centre, ~same_text & ~is_representative)
    action = np.where(is_representative, KEEP, np.where(sure & ~numeric & equal_numbers, DROP, REVIEW))
    order = np.lexsort((member, ~is_representative, centre))
    return pa.Table.from_arrays(
        [
            nodes.ids(centre[order]),
            nodes.ids(member[order]),
            pa.array(is_representative[order]),
            pa.array(cosine[order], from_pandas=True),
            pa.array(~direct[order]),
            pa.array(numeric[order]),
            pa.array(action[order].tolist(), type=pa.string()),
        ],
        schema=schemas.DUPLICATE_CLUSTERS,
    )


def _lexically_close(
    nodes: Nodes, member: np.ndarray, centre: np.ndarray, settings: DuplicateSettings
) -> tuple[np.ndarray, np.ndarray]:
    """(n,) bool each: the pair is verified; dropping the member loses nothing that the centre does not say.

    The two differ where the centre is a short text within a long member: containment holds, but only one way.
    """
    needed, place = np.unique(np.concatenate((member, centre)), return_inverse=True)
    sets = shingle_sets(nodes.texts(needed), settings.shingle_words)
    left, right = place[: len(member)], place[len(member) :]
    jaccard, containment = jaccard_and_containment(sets, left, right)
    verified = (jaccard >= settings.jaccard) | (containment >= settings.containment)
    return verified, verified & ((jaccard >= settings.jaccard) | (sets.sizes[left] <= sets.sizes[right]))


def _numbers(nodes: Nodes, a: np.ndarray, b: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) bool each: the pair differs in numbers only; the pair holds the same numbers. Read where ``wanted``."""
    numeric, equal = np.zeros(len(a), dtype=bool), np.ones(len(a), dtype=bool)
    rows = np.flatnonzero(wanted)
    for row, text, other in zip(rows.tolist(), nodes.texts(a[rows]), nodes.texts(b[rows]), strict=True):
        numeric[row], equal[row] = compare_numbers(text, other)
    return numeric, equal
