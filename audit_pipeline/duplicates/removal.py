"""Whether a threshold has earned that cosine alone offers chunks for removal. Clusters are made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit_pipeline.duplicates.separation import TRUSTED

_OTHERWISE = "only chunks whose text equals that of one that stays, or stands whole in it, are offered for removal"


@dataclass(frozen=True)
class CosineAlone:
    """Whether a cosine over the threshold is enough to offer a chunk for removal, and why.

    ``precision`` is that of the recommended row; None where no label stands behind it.
    """

    drops: bool
    precision: float | None
    reason: str


def cosine_alone(
    recommended: Mapping[str, Any], sweep: Sequence[Mapping[str, Any]], bands: Mapping[str, Any] | None = None
) -> CosineAlone:
    """What the parts ``recommended``, ``sweep`` and labels.``bands`` of audit.json allow.

    A threshold is recommended for the balance of precision and recall, and may be the best of a bad lot. Removal asks
    for more: of the pairs that pass, nine in ten must be duplicates, by precision in the queue (what passes among the
    candidates) where labels have bands, else among the labelled pairs.
    """
    threshold = recommended["threshold"]
    if threshold is None:
        return CosineAlone(False, None, f"No threshold is recommended: {_OTHERWISE}.")
    if recommended["provisional"]:
        return CosineAlone(False, None, f"No label stands behind the provisional threshold: {_OTHERWISE}.")
    if bands is not None and bands["banded"] and not bands["used"]:
        # Drawn by band, the labels over the threshold are no sample of the candidates over it.
        return CosineAlone(False, None, f"The score bands of the labels do not hold: {_OTHERWISE}.")
    row = next(row for row in sweep if row["threshold"] == threshold)
    in_queue = row["precision_queue"] is not None
    precision = row["precision_queue"] if in_queue else row["precision"]
    if precision is None:
        return CosineAlone(False, None, f"No labelled pair passes {threshold:g}: {_OTHERWISE}.")
    pairs = "candidate pairs (by the labels drawn from them)" if in_queue else "labelled pairs"
    share = f"Of the {pairs} that pass {threshold:g}, {precision:.1%} are duplicates"
    if precision < TRUSTED:
        return CosineAlone(False, precision, f"{share}, under {TRUSTED:.0%}: {_OTHERWISE}.")
    return CosineAlone(True, precision, f"{share}: their cosine alone is enough to offer a chunk for removal.")
