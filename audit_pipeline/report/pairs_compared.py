"""Pairs that two audits flag as duplicates: which stay, go and come. What flags a pair is each audit's own rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

_TOLERANCE = 1e-6  # a cosine passes a threshold as in the sweep
_EXAMPLES = 5

Passes = Callable[[pa.Table], pa.ChunkedArray]
"""(n,) bool of a table of candidate pairs: those that are flagged beside exact copies."""


def copied_text(pairs: pa.Table) -> pa.ChunkedArray:
    """Pairs that the texts alone flag: proposed by MinHash and verified as copied."""
    return pc.and_(pairs["verified"], _in_lane(pairs, "minhash"))


def over(threshold: float) -> Passes:
    """Pairs whose cosine reaches the threshold."""
    return lambda pairs: pc.fill_null(pc.greater_equal(pairs["cosine"], threshold - _TOLERANCE), False)


def compare_pairs(
    tables: tuple[pa.Table, pa.Table], ids: tuple[pa.Array, pa.Array], passes: tuple[Passes, Passes]
) -> dict[str, Any]:
    """What became of exact copies (``copies``) and of the flagged pairs of different texts (``pairs``).

    ``tables`` are candidate pairs, ``ids`` all chunk ids of each audit. Each part has ``flagged`` in both audits, those
    of the first that ``stay`` or are ``gone``, those ``new`` in the second, ``lost_chunk`` (gone with a chunk that the
    second lacks) and ``new_chunk`` (come with a chunk that the first lacks); examples are at most 5 of each, as ids.

    Copies count one for each chunk of a text beyond the first. Of pairs, copies of one text are one member, whichever
    of them the table names: an audit names the earliest, which may be another after a change. A pair whose texts have
    become equal stays. Windows are never flagged.
    """
    edges = [_edges(table, rule) for table, rule in zip(tables, passes, strict=True)]
    names = pd.Index(pd.concat([frame[side] for frame in edges for side in "ab"], ignore_index=True).unique())
    in_both = pd.Index(ids[0].to_pandas()).intersection(pd.Index(ids[1].to_pandas()))
    known = names.isin(in_both)
    coded = [frame.assign(**{side: names.get_indexer(pd.Index(frame[side])) for side in "ab"}) for frame in edges]
    exact, near = ([frame[frame["exact"] == of] for frame in coded] for of in (True, False))
    texts = [_components(len(names), frame) for frame in exact]  # the text of each chunk in each audit
    return {
        "chunks_in_both": len(in_both),
        "copies": _copies(names, known, exact, texts),
        "pairs": _pairs(names, known, near, texts, _components(len(names), pd.concat(exact))),
    }


def _copies(names: pd.Index, known: np.ndarray, exact: list[pd.DataFrame], texts: list[np.ndarray]) -> dict[str, Any]:
    """Chunks beyond the first of each text: members of one text in both audits, less one, stay."""
    stay = int(known.sum()) - len(set(zip(texts[0][known].tolist(), texts[1][known].tolist(), strict=True)))
    flagged, without, broken, rows = [], [], [], []
    for frame, own, other in zip(exact, texts, reversed(texts), strict=True):
        size, here = np.bincount(own), np.bincount(own, weights=known)
        left = int((size - np.maximum(here, 1)).sum())
        flagged.append(len(own) - len(size))
        without.append(left)
        broken.append(flagged[-1] - stay - left)
        a, b = frame["a"].to_numpy(), frame["b"].to_numpy()
        rows.append(frame.assign(shared=known[a] & known[b], in_other=other[a] == other[b]))
    return _told(names, rows, flagged, stay, broken, without)


def _pairs(
    names: pd.Index, known: np.ndarray, near: list[pd.DataFrame], texts: list[np.ndarray], text: np.ndarray
) -> dict[str, Any]:
    """Flagged pairs of different texts; ``text`` (n,) is that of each chunk in either audit."""
    shared = np.bincount(text, weights=known) > 0
    found = []
    for frame, own in zip(near, texts, strict=True):
        a, b = frame["a"].to_numpy(), frame["b"].to_numpy()
        one, other = text[a], text[b]
        rows = frame.assign(
            **_ordered("own", own[a], own[b]),
            **_ordered("either", one, other),
            shared=shared[one] & shared[other],
            made_equal=one == other,
        )
        found.append(rows.drop_duplicates(["own one", "own other"]))
    keys = [pd.MultiIndex.from_frame(rows[["either one", "either other"]]) for rows in found]
    first, second = (
        rows.assign(in_other=key.isin(theirs) | rows["made_equal"].to_numpy())
        for rows, key, theirs in zip(found, keys, reversed(keys), strict=True)
    )
    broken = [int((rows["shared"] & ~rows["in_other"]).sum()) for rows in (first, second)]
    without = [int((~rows["shared"] & ~rows["in_other"]).sum()) for rows in (first, second)]
    stay = len(first) - broken[0] - without[0]
    return _told(names, [first, second], [len(first), len(second)], stay, broken, without)


def _told(
    names: pd.Index, rows: list[pd.DataFrame], flagged: list[int], stay: int, broken: list[int], without: list[int]
) -> dict[str, Any]:
    parts = {}
    for side, between, with_chunk in ((0, "gone", "lost_chunk"), (1, "new", "new_chunk")):
        elsewhere = rows[side][~rows[side]["in_other"]]
        for name, counts, wanted in ((between, broken, True), (with_chunk, without, False)):
            pairs = elsewhere.loc[elsewhere["shared"] == wanted, ["a", "b"]].to_numpy().tolist()
            shown = sorted(sorted([names[a], names[b]]) for a, b in pairs)[: min(counts[side], _EXAMPLES)]
            parts[name] = {"count": counts[side], "examples": shown}
    return {"flagged": {"a": flagged[0], "b": flagged[1]}, "stay": stay} | parts


def _ordered(name: str, one: np.ndarray, other: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{name} one": np.minimum(one, other), f"{name} other": np.maximum(one, other)}


def _edges(pairs: pa.Table, passes: Passes) -> pd.DataFrame:
    """Ids ``a, b`` of the flagged pairs, and whether their texts are equal."""
    exact = _in_lane(pairs, "exact")
    kept = pc.or_(exact, pc.and_(passes(pairs), pc.invert(pairs["window"])))
    columns = {"a": pairs["chunk_id_a"], "b": pairs["chunk_id_b"], "exact": exact}
    return pa.table(columns).filter(kept).to_pandas()


def _in_lane(pairs: pa.Table, lane: str) -> pa.ChunkedArray:
    lanes = pairs["lanes"].combine_chunks()
    rows = pc.list_parent_indices(lanes).filter(pc.equal(pc.list_flatten(lanes), lane))
    found = np.zeros(len(pairs), dtype=bool)
    found[rows.to_numpy()] = True
    return pa.chunked_array([pa.array(found)])


def _components(n: int, edges: pd.DataFrame) -> np.ndarray:
    ones = np.ones(len(edges), dtype=bool)
    graph = coo_matrix((ones, (edges["a"].to_numpy(), edges["b"].to_numpy())), shape=(n, n))
    return connected_components(graph, directed=False)[1] if n else np.zeros(0, dtype=np.int32)
