"""Clusters of duplicates: connected components, their representatives, and what may be dropped. Nothing is deleted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.corpus.text import normalise
from audit_pipeline.duplicate_settings import DuplicateSettings
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


def in_numbers_only(nodes: Nodes, a: np.ndarray, b: np.ndarray, same_text_as: np.ndarray) -> int:
    """How many chunks that are not the representative of their component differ from it in numbers only.

    Of equal texts one counts, the one that stands for the text in ``same_text_as`` (n,): the others repeat it.
    """
    found = cluster(nodes.seniority, a, b)
    own = (same_text_as[found.member] == found.member) & (same_text_as[found.representative] != found.member)
    texts = (nodes.texts(side[own]) for side in (found.member, found.representative))
    return sum(compare_numbers(text, other)[0] for text, other in zip(*texts, strict=True))


def cluster_table(
    nodes: Nodes,
    found: Clusters,
    same_text_as: np.ndarray,
    threshold: float | None,
    settings: DuplicateSettings,
    cosine_suffices: bool = True,
) -> pa.Table:
    """One row a member (schemas.DUPLICATE_CLUSTERS), by cluster id, the representative first, then chunk id.

    ``same_text_as`` (n,) is the node that stands for each node's text (ExactGroups.representative). ``chain_only``: the
    member's own similarity to the representative does not pass; it is tied through others alone. With a threshold that
    is its cosine; without one, or where the cosine is not known, equal text or the settings' Jaccard and containment
    decide. ``action``: drop only what passes directly and whose text stands whole in the representative's; where
    ``cosine_suffices`` also what passes by cosine and holds the same numbers; else review. Jaccard and containment are
    not enough: chunks that share a long boilerplate and differ in the one sentence of their own reach both. Of equal
    texts that do not all go one stays, and the others are drop for its sake, however the representative looks.
    """
    member, centre = found.member, found.representative
    is_representative = member == centre
    cosine = nodes.cosines(member, centre)
    same_text = (same_text_as[member] == same_text_as[centre]) & (same_text_as[member] >= 0)
    by_cosine = ~np.isnan(cosine) & (threshold is not None)
    near = by_cosine & (cosine >= (threshold or 0.0) - TOLERANCE)
    direct = same_text | is_representative | near
    rows = np.flatnonzero(~direct & ~by_cosine)
    direct[rows] = _verified(nodes, member[rows], centre[rows], settings)
    numeric, equal_numbers, covered = _compared(nodes, member, centre, ~same_text & ~is_representative)
    sure = same_text | (direct & covered) | (near & cosine_suffices & ~numeric & equal_numbers)
    # A representative whose vector is broken can be found by no search: it replaces no row that can.
    findable = nodes.usable[centre] | ~nodes.usable[member]
    action = np.where(is_representative, KEEP, np.where(sure & findable, DROP, REVIEW))
    action, stays = _one_copy_stays(member, same_text_as[member], is_representative, action)
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
            nodes.chunk_ids.take(pa.array(stays[order], mask=stays[order] < 0)),
        ],
        schema=schemas.DUPLICATE_CLUSTERS,
    )


def _one_copy_stays(
    member: np.ndarray, text: np.ndarray, is_representative: np.ndarray, action: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The actions once copies are settled, and the node of the same text that stays for each row dropped so, else -1.

    ``text`` (members,) is the node that stands for the member's text, -1 for none: the earliest copy whose vector can
    be found. Where a copy of a text stays, that node does, and its other copies go. Where all of them are near the
    representative, all go, for the representative's sake.
    """
    known = np.maximum(text, 0)
    stays = (text >= 0) & (action != DROP)
    copies = np.bincount(known, weights=text >= 0)[known] > 1
    settled = (text >= 0) & copies & (np.bincount(known, weights=stays)[known] > 0) & ~is_representative
    stands = member == text
    action = np.where(settled, np.where(stands, REVIEW, DROP), action)
    return action, np.where(settled & ~stands, text, -1)


def _verified(nodes: Nodes, member: np.ndarray, centre: np.ndarray, settings: DuplicateSettings) -> np.ndarray:
    """(n,) bool: the texts of the pair reach the settings' Jaccard or containment."""
    needed, place = np.unique(np.concatenate((member, centre)), return_inverse=True)
    sets = shingle_sets(nodes.texts(needed), settings.shingle_words)
    jaccard, containment = jaccard_and_containment(sets, place[: len(member)], place[len(member) :])
    return (jaccard >= settings.jaccard) | (containment >= settings.containment)


def _compared(
    nodes: Nodes, member: np.ndarray, centre: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) bool each: the pair differs in numbers only; it holds the same numbers; the member's text, normalised,
    stands whole in the centre's. Read where ``wanted``, else False, True and False.
    """
    numeric, covered = np.zeros((2, len(member)), dtype=bool)
    equal = np.ones(len(member), dtype=bool)
    rows = np.flatnonzero(wanted)
    texts = zip(nodes.texts(member[rows]), nodes.texts(centre[rows]), strict=True)
    for row, (text, other) in zip(rows.tolist(), texts, strict=True):
        numeric[row], equal[row] = compare_numbers(text, other)
        covered[row] = f" {normalise(text)} " in f" {normalise(other)} "
    return numeric, equal, covered
