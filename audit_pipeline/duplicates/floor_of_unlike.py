"""How alike random pairs are that are no copies by their text. Floors of all random pairs are elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit_pipeline.corpus.text import normalise
from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.rows import Nodes
from audit_pipeline.duplicates.shingles import jaccard_and_containment, shingle_sets

LEAST_PAIRS = 3000  # so that three of them lie over the quantile
LEFT_OUT = "left_out"
_SHARE = 0.999
_FIRST_READ = 4000


@dataclass(frozen=True)
class Unlike:
    """``limit``: what one in 1,000 of ``n`` distinct pairs reaches, None without any; ``left_out`` are the copies."""

    limit: float | None
    n: int
    left_out: int

    def rows(self, scope: str) -> list[tuple[str, str, float, int]]:
        """Rows of schemas.SIMILARITY_FLOOR: the limit with the pairs behind it, the copies with all pairs."""
        limit = [] if self.limit is None else [(scope, "p99.9", self.limit, self.n)]
        return [*limit, (scope, LEFT_OUT, float(self.left_out), self.n + self.left_out)]


def unlike(nodes: Nodes, a: np.ndarray, b: np.ndarray, cosine: np.ndarray, settings: DuplicateSettings) -> Unlike:
    """The p99.9 of the distinct pairs (a, b) with their known cosines, all (m,), once the copies are left out.

    A copy is a pair of equal normalised texts, or one that reaches the settings' Jaccard or containment. Texts are read
    from the most similar pair downwards, and only as far as the quantile needs: a copy below it would shift it by
    nothing but its own count.
    """
    code = np.minimum(a, b) * len(nodes) + np.maximum(a, b)
    first = np.unique(code, return_index=True)[1]
    order = first[np.argsort(-cosine[first], kind="stable")]
    copied = np.zeros(len(order), dtype=bool)
    read, wanted = 0, min(len(order), _FIRST_READ)
    while read < wanted:
        part = order[read:wanted]
        copied[read:wanted] = _copies(nodes, a[part], b[part], settings)
        read = wanted
        kept = len(order) - int(copied.sum())
        if read - int(copied.sum()) < math.ceil((1 - _SHARE) * kept) + 1:
            wanted = min(len(order), 4 * read)
    others = cosine[order[~copied]]
    limit = float(np.quantile(others, _SHARE)) if len(others) else None
    return Unlike(limit, len(others), int(copied.sum()))


def _copies(nodes: Nodes, a: np.ndarray, b: np.ndarray, settings: DuplicateSettings) -> np.ndarray:
    needed, place = np.unique(np.concatenate((a, b)), return_inverse=True)
    left, right = place[: len(a)], place[len(a) :]
    sets = shingle_sets(nodes.texts(needed), settings.shingle_words)
    jaccard, containment = jaccard_and_containment(sets, left, right)
    known: dict[str, int] = {}
    text = np.array([known.setdefault(normalise(one), len(known)) for one in nodes.texts(needed)])
    return (text[left] == text[right]) | (jaccard >= settings.jaccard) | (containment >= settings.containment)
