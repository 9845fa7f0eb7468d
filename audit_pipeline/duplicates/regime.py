"""Which vectors a pair's cosine is taken of, and how sentences name that. No vector is made and no threshold chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from audit_pipeline.findings import Finding

STORED, QUERY = "stored", "query"
WORDS = {
    STORED: "stored vectors on both sides",
    QUERY: "the newer text of a pair in the query role against the older one's stored vector",
}
SAME = "the model gets the same prompt in both roles, so this is the same as stored vectors on both sides"
_BLOCK = 8192


@dataclass(frozen=True)
class QueryRole:
    """The table's texts encoded in the query role.

    ``vectors`` is (m, d) float32, one per distinct text; ``place`` (rows,) int64 says which of them belongs to a row of
    the snapshot, -1 where it has none.
    """

    vectors: np.ndarray
    place: np.ndarray

    @cached_property
    def norms(self) -> np.ndarray:
        """(m,) float64 norms."""
        norms = np.empty(len(self.vectors))
        for start in range(0, len(norms), _BLOCK):
            block = self.vectors[start : start + _BLOCK].astype(np.float64)
            norms[start : start + _BLOCK] = np.sqrt(np.einsum("ij,ij->i", block, block))
        return norms

    @cached_property
    def usable(self) -> np.ndarray:
        """(rows,) bool: the row has a vector with a direction."""
        sound = np.isfinite(self.norms) & (self.norms > 0)
        known = self.place >= 0
        known[known] = sound[self.place[known]]
        return known


def regime_words(regime: str, asked: QueryRole | None) -> str:
    """What is compared with what. ``asked`` is None under ``query`` where both roles have the same prompt."""
    return SAME if regime == QUERY and asked is None else WORDS[regime]


def name_regime(
    recommended: Mapping[str, Any], found: list[Finding], regime: str, asked: QueryRole | None
) -> tuple[dict[str, Any], list[Finding]]:
    """The recommendation and the findings about it with the regime they hold for, since no other one shares them."""
    words = f"Regime {regime}: {regime_words(regime, asked)}."
    named = dict(recommended) | {"regime": regime, "reason": f"{recommended['reason']} {words}"}
    told = [
        replace(one, message=f"{one.message} {words}", evidence=dict(one.evidence) | {"regime": regime})
        for one in found
    ]
    return named, told
