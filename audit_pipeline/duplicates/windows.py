"""Chunks of one document that overlap because the splitter made them so: a class of their own, no duplicates."""

from __future__ import annotations

import numpy as np

from audit_pipeline.duplicates.rows import Nodes
from audit_pipeline.duplicates.shingles import units

_PAIRS_PER_BLOCK = 20_000


def overlap_units(earlier: list[str], later: list[str], least: int) -> int:
    """Units that end the earlier chunk and begin the later one; 0 where they are fewer than ``least``.

    A window keeps text of its own on both sides, so equal chunks, or one inside the other, are none. A header that both
    begin with is passed over, and a word cut in two at either border does no harm.
    """
    header = 0
    for one, other in zip(earlier, later, strict=False):
        if one != other:
            break
        header += 1
    return _suffix_is_prefix(earlier, later, least) or _suffix_is_prefix(earlier[header:], later[header:], least)


def find_windows(nodes: Nodes, a: np.ndarray, b: np.ndarray, shared: np.ndarray, least: int) -> np.ndarray:
    """(len(a),) bool: pairs of overlapping windows of one document.

    ``shared`` (len(a),) bool tells which pairs have a shingle in common; only those of one document and known,
    different positions are read, so the loop is over overlapping neighbours and not over pairs. Chunks further apart
    are windows only where the earlier overlaps its direct successor by more: otherwise the document repeats itself.
    """
    window = np.zeros(len(a), dtype=bool)
    rows, overlaps = _overlaps(nodes, a, b, shared, least)
    rows, overlaps = rows[overlaps > 0], overlaps[overlaps > 0]
    later_first = nodes.position[a[rows]] > nodes.position[b[rows]]
    earlier = np.where(later_first, b[rows], a[rows])
    apart = np.abs(nodes.position[a[rows]] - nodes.position[b[rows]])
    window[rows[apart == 1]] = True
    far = np.flatnonzero(apart > 1)
    successor = _successors(nodes, earlier[far])
    far, successor = far[successor >= 0], successor[successor >= 0]
    found, beside = _overlaps(nodes, earlier[far], successor, np.ones(len(far), dtype=bool), least)
    window[rows[far[found[beside > overlaps[far[found]]]]]] = True
    return window


def adjacent_overlaps(nodes: Nodes, least: int, sample: int) -> np.ndarray:
    """Overlap in units of neighbouring chunks (positions p and p + 1), for at most ``sample`` evenly spread pairs."""
    known = np.flatnonzero((nodes.document >= 0) & (nodes.position >= 0))
    order = known[np.lexsort((nodes.position[known], nodes.document[known]))]
    left, right = order[:-1], order[1:]
    beside = (nodes.document[left] == nodes.document[right]) & (nodes.position[right] - nodes.position[left] == 1)
    left, right = left[beside], right[beside]
    if len(left) > sample:
        pick = np.linspace(0, len(left) - 1, sample).astype(np.int64)
        left, right = left[pick], right[pick]
    rows, found = _overlaps(nodes, left, right, np.ones(len(left), dtype=bool), least)
    overlaps = np.zeros(len(left), dtype=np.int64)
    overlaps[rows] = found
    return overlaps


def _successors(nodes: Nodes, of: np.ndarray) -> np.ndarray:
    """Node at the next position of the same document, -1 where there is none."""
    known = np.flatnonzero((nodes.document >= 0) & (nodes.position >= 0))
    width = int(nodes.position.max(initial=0)) + 2
    key = nodes.document[known] * width + nodes.position[known]
    order = np.argsort(key, kind="stable")
    wanted = nodes.document[of] * width + nodes.position[of] + 1
    place = np.minimum(np.searchsorted(key[order], wanted), max(len(order) - 1, 0))
    if not len(order):
        return np.full(len(of), -1, dtype=np.int64)
    return np.where(key[order][place] == wanted, known[order][place], -1)


def _overlaps(
    nodes: Nodes, a: np.ndarray, b: np.ndarray, shared: np.ndarray, least: int
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the pairs that were read, and the overlap of each in units."""
    same = shared & (nodes.document[a] >= 0) & (nodes.document[a] == nodes.document[b])
    same &= (nodes.position[a] >= 0) & (nodes.position[b] >= 0) & (nodes.position[a] != nodes.position[b])
    candidates = np.flatnonzero(same)
    # By document, so that a block of pairs needs few texts.
    candidates = candidates[np.argsort(nodes.document[a[candidates]], kind="stable")]
    overlaps = np.zeros(len(candidates), dtype=np.int64)
    for start in range(0, len(candidates), _PAIRS_PER_BLOCK):
        block = candidates[start : start + _PAIRS_PER_BLOCK]
        needed = np.unique(np.concatenate((a[block], b[block])))
        parts = {node: units(text)[1] for node, text in zip(needed.tolist(), nodes.texts(needed), strict=True)}
        for number, pair in enumerate(block.tolist(), start=start):
            first, second = int(a[pair]), int(b[pair])
            if nodes.position[first] > nodes.position[second]:
                first, second = second, first
            overlaps[number] = overlap_units(parts[first], parts[second], least)
    return candidates, overlaps


def _suffix_is_prefix(earlier: list[str], later: list[str], least: int) -> int:
    """Length of the longest end of ``earlier`` that begins ``later`` and leaves text of its own in both.

    The first unit of the one may be the rest of a cut word, the last unit of the other its beginning.
    """
    if len(later) < 2:
        return 0
    place = 1
    while True:
        try:
            place = earlier.index(later[1], place + 1)
        except ValueError:
            return 0
        start = place - 1
        length = len(earlier) - start
        if length < least:
            return 0
        if (
            length < len(later)
            and earlier[start].endswith(later[0])
            and earlier[place:-1] == later[1 : length - 1]
            and later[length - 1].startswith(earlier[-1])
        ):
            return length
