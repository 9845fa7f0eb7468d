"""What a threshold would do to the user of another model: measured floors that ship with the package. None is measured.

``reference_floors.json`` is written by ``python -m benchmarks.reference_floors``.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("reference_floors.json")
STEP = 0.005


def elsewhere(threshold: float | None, chunks: int, fingerprint: str | None, model: str | None) -> list[dict[str, Any]]:
    """The share of random pairs that each reference model puts at or over the threshold, on the corpus it was measured
    on, and how many pairs that share would be of ``chunks`` chunks.

    The reference that is the user's own model is left out: by the hash of its files, or by its name. Between two steps
    of the file the share at the lower one stands, which is the larger. Empty without a threshold, or with one below 0.
    """
    if threshold is None or not 0 <= threshold <= 1:
        return []
    own = (model or "").lower().rstrip("/").rsplit("/", 1)[-1]
    document = _document()
    step = math.floor((threshold + 1e-6) / STEP)
    return [
        {
            "threshold": threshold,
            "model": floor["model"],
            "corpus": document["corpus"],
            "random_share": floor["shares"][step],
            "pairs": round(floor["shares"][step] * math.comb(chunks, 2)),
        }
        for floor in document["floors"]
        if floor["fingerprint"] != fingerprint and own not in floor["names"]
    ]


@cache
def _document() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))
