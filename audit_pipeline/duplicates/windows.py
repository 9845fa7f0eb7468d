"""Chunks of one document that overlap because the splitter made them so: a class of their own, no duplicates."""

from __future__ import annotations

import numpy as np

from audit_pipeline.duplicates.rows import Nodes
from audit_pipeline.duplicates.shingles import units

_CACHE = 20_000


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
    for skip in {0, header}:
        for tail in (earlier[skip:], earlier[skip:-1]):
            for head in (later[skip:], later[skip + 1 :]):
                overlap = _suffix_is_prefix(tail, head, least)
                if overlap:
                    return overlap
    return 0


def find_windows(nodes: Nodes, a: np.ndarray, b: np.ndarray, shared: np.ndarray, least: int) -> np.ndarray:
    """(len(a),) bool: pairs of overlapping windows of one document.

    ``shared`` (len(a),) bool tells which pairs have a shingle in common; only those of one document and known,
    different positions are read, so the loop is over overlapping neighbours and not over pairs.
    """
    window = np.zeros(len(a), dtype=bool)
    for number, overlap in _overlaps(nodes, a, b, shared, least):
        window[number] = overlap > 0
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
    overlaps = np.zeros(len(left), dtype=np.int64)
    for number, overlap in _overlaps(nodes, left, right, np.ones(len(left), dtype=bool), least):
        overlaps[number] = overlap
    return overlaps


def _overlaps(nodes: Nodes, a: np.ndarray, b: np.ndarray, shared: np.ndarray, least: int) -> list[tuple[int, int]]:
    same = shared & (nodes.document[a] >= 0) & (nodes.document[a] == nodes.document[b])
    same &= (nodes.position[a] >= 0) & (nodes.position[b] >= 0) & (nodes.position[a] != nodes.position[b])
    candidates = np.flatnonzero(same)
    # By document, so that a block of pairs needs few texts.
    candidates = candidates[np.argsort(nodes.document[a[candidates]], kind="stable")]
    found = []
    for start in range(0, len(candidates), _CACHE):
        block = candidates[start : start + _CACHE]
        needed = np.unique(np.concatenate((a[block], b[block])))
        parts = {node: units(text)[1] for node, text in zip(needed.tolist(), nodes.texts(needed), strict=True)}
        for number in block.tolist():
            first, second = int(a[number]), int(b[number])
            if nodes.position[first] > nodes.position[second]:
                first, second = second, first
            found.append((number, overlap_units(parts[first], parts[second], least)))
    return found


def _suffix_is_prefix(tail: list[str], head: list[str], least: int) -> int:
    """Length of the longest end of ``tail`` that begins ``head`` and leaves text of its own in both."""
    if not head:
        return 0
    place = 0
    while True:
        try:
            place = tail.index(head[0], place + 1)
        except ValueError:
            return 0
        length = len(tail) - place
        if length < least:
            return 0
        if length < len(head) and tail[place:] == head[:length]:
            return length
