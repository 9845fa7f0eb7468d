"""Which lane earns its place: what only copied text finds, what only vectors find. No lane runs here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from audit_pipeline.duplicates.floor import TOLERANCE
from audit_pipeline.duplicates.pair_table import EXACT, MINHASH, NEIGHBOUR, Pairs
from audit_pipeline.duplicates.sweep import Judged
from audit_pipeline.plural import counted
from audit_pipeline.proportions import NOT_MEASURED, Proportion, wilson

MINHASH_ONLY, BOTH, EMBEDDING_ONLY = "minhash_only", "both", "embedding_only"


def lane_worth(
    pairs: Pairs, same_text: np.ndarray, judged: Judged, threshold: float | None, searched: int
) -> dict[str, Any]:
    """The part ``lane_worth`` of audit.json.

    A pair is found by MinHash where that lane proposed it and it was verified as copied text, and by the embedding
    where the neighbour lane proposed it and its cosine reaches ``threshold`` (None: nothing is found by cosine alone,
    and that part is not measured). ``minhash_only`` are found pairs that no neighbour list holds, ``both`` those that
    one holds as well, ``embedding_only`` those that MinHash did not find. Copies and windows are no part of it.

    ``labelled`` is the share of duplicates among a part's labelled pairs, ``found`` the share of the labelled
    duplicates that each lane finds; intervals are Wilson's and take the labels as independent. ``searched`` texts had
    their neighbours looked up: where there is none, vectors were not compared at all.
    """
    kept = ~pairs.window & ~pairs.in_lane(EXACT)
    text = kept & pairs.in_lane(MINHASH) & pairs.verified
    listed = kept & pairs.in_lane(NEIGHBOUR)
    over = None if threshold is None or not searched else listed & (pairs.cosine >= threshold - TOLERANCE)
    parts: dict[str, np.ndarray | None] = {
        MINHASH_ONLY: text & ~listed if searched else None,
        BOTH: text & listed if searched else None,
        EMBEDDING_ONLY: None if over is None else over & ~text,
    }
    in_part = _Labelled(pairs, same_text, judged)
    duplicate = in_part.duplicate
    of_text, of_vectors = in_part.within(text), None if over is None else in_part.within(over)

    def found(within: np.ndarray | None) -> dict[str, Any]:
        measured = NOT_MEASURED if within is None else wilson(int((within & duplicate).sum()), int(duplicate.sum()))
        return measured.as_dict()

    worth = {
        "threshold": threshold,
        **{
            name: {
                "pairs": None if part is None else int(part.sum()),
                "labelled": in_part.share(part).as_dict(),
            }
            for name, part in parts.items()
        },
        "found": {
            "minhash": found(of_text),
            "embedding": found(of_vectors),
            "either": found(None if of_vectors is None else of_text | of_vectors),
        },
    }
    return worth | {"advice": advice(worth)}


class _Labelled:
    """Labelled pairs of different texts, each tied to the candidate pair of its two texts."""

    def __init__(self, pairs: Pairs, same_text: np.ndarray, judged: Judged) -> None:
        left, right = same_text[judged.labels.a], same_text[judged.labels.b]
        self._own = left != right
        self._count = int(same_text.max(initial=0)) + 1
        self._code = self._codes(left, right)
        self._pairs = self._codes(same_text[pairs.a], same_text[pairs.b])
        self.duplicate = judged.labels.duplicate & self._own

    def within(self, part: np.ndarray) -> np.ndarray:
        """(labels,) bool: a pair of the label's two texts is in this part (pairs,) of the candidates."""
        return self._own & np.isin(self._code, self._pairs[part])

    def share(self, part: np.ndarray | None) -> Proportion:
        if part is None:
            return NOT_MEASURED
        within = self.within(part)
        return wilson(int((within & self.duplicate).sum()), int(within.sum()))

    def _codes(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        low, high = np.minimum(left, right).astype(np.int64), np.maximum(left, right).astype(np.int64)
        return low * self._count + high


def advice(worth: Mapping[str, Any]) -> str:
    """One or two plain sentences; what was not compared is said to be."""
    alone, both, vectors = (worth[name]["pairs"] for name in (MINHASH_ONLY, BOTH, EMBEDDING_ONLY))
    if alone is None:
        return "Not measured: no vectors were compared, so only copied text was looked for."
    copied = (
        f"MinHash alone finds {counted(alone, 'pair')} of copied text that no neighbour list holds: keep it."
        if alone
        else f"The neighbour lists hold all {both:,} pairs of copied text that MinHash finds."
        if both
        else "MinHash finds no copied text beyond exact copies."
    )
    if vectors is None:
        return f"{copied} What embeddings find beyond that is not measured: there is no threshold for their cosine."
    if not vectors:
        return (
            f"{copied} Embeddings find nothing beyond it at {worth['threshold']:g}: here they do not earn their place."
        )
    start = f"{copied} Embeddings alone find {vectors:,} more from {worth['threshold']:g}"
    share = worth[EMBEDDING_ONLY]["labelled"]
    if not share["n"]:
        return f"{start}; how many of these are duplicates is not measured: none is labelled."
    judged = f"of {share['n']:,} labelled {100 * share['value']:.0f} % are duplicates"
    if share["low"] > 0.5:
        return f"{start}; {judged}: they earn their place."
    if share["high"] < 0.5:
        return f"{start}; {judged}: a list to read, and no source of duplicates by itself."
    return f"{start}; {judged} ({100 * share['low']:.0f} to {100 * share['high']:.0f} %): too few to decide."
