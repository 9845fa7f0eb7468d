"""Self figures of the probes that the application's filter lets through. What is said of them is in verdict_text.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.proportions import NOT_MEASURED, Proportion, stratified
from audit_pipeline.report_settings import LimitSettings
from audit_pipeline.retrieval.tables import booleans


@dataclass(frozen=True)
class LetThrough:
    """``hidden`` probes whose rows the filter hides, and self@1 and self@10 of the ``n`` others.

    ``twins_1`` and ``twins_10`` count misses of cause twin as hits.
    """

    hidden: int
    n: int
    self_1: Proportion
    self_10: Proportion
    twins_1: Proportion
    twins_10: Proportion

    def explains(self, limits: LimitSettings) -> bool:
        """Whether the filter is all that is wrong: what it lets through, if anything, reaches the limits."""
        wanted = ((self.twins_1, limits.self_at_1), (self.twins_10, limits.self_at_10))
        return all(figure.low is None or figure.low >= limit for figure, limit in wanted)

    def as_dict(self, limits: LimitSettings) -> dict[str, Any]:
        """The part let_through of audit.json."""
        figures: dict[str, Any] = {"self@1": self.self_1.as_dict(), "self@10": self.self_10.as_dict()}
        return {"hidden": self.hidden, "n": self.n, "explains": self.explains(limits), **figures}


def hidden_by_filter(table: pa.Table) -> np.ndarray:
    """(n,) bool: misses of rows that do not pass the filter, unlike those that a filter after the search loses."""
    causes, evidence = table["cause"].to_pylist(), table["evidence"]
    hidden = np.zeros(len(causes), bool)
    for place in np.flatnonzero(np.array([cause == "filter_excluded" for cause in causes], bool)):
        hidden[place] = json.loads(evidence[int(place)].as_py() or "{}").get("row_passes") is False
    return hidden


def let_through(table: pa.Table | None) -> LetThrough | None:
    """The figures of a self-retrieval table without what the filter hides; None where it hides no probe."""
    if table is None or not table.num_rows:
        return None
    hidden = hidden_by_filter(table)
    if not hidden.any():
        return None
    kept = ~hidden
    strata, index = np.unique(table["stratum"].to_numpy(zero_copy_only=False), return_inverse=True)
    # The figures speak of the chunks that pass, whose number per stratum is itself estimated.
    share = np.bincount(index, weights=kept, minlength=len(strata)) / np.bincount(index)
    chunks = table["stratum_chunks"].to_numpy() * share[index]
    twins = np.array([cause == "twin" for cause in table["cause"].to_pylist()], bool)

    def figure(column: str, also: np.ndarray) -> Proportion:
        if table[column].null_count:
            return NOT_MEASURED
        return stratified((booleans(table[column]) | also)[kept], index[kept], chunks[kept])

    none = np.zeros(len(kept), bool)
    return LetThrough(
        int(hidden.sum()),
        int(kept.sum()),
        figure("hit_1", none),
        figure("hit_10", none),
        figure("hit_1", twins),
        figure("hit_10", twins),
    )
