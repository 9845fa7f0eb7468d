"""Whether the cosine tells duplicates from others well enough for a threshold. Which threshold is decided elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.duplicates.recommend import LEAST_AUC, LEAST_LABELS, Resampled
from audit_pipeline.duplicates.sweep import Judged

LABELS, CANDIDATES = "labels", "candidates"
MOSTLY = 0.5
"""Share of duplicates in the lowest row's queue from which there is little left for a threshold to sort out."""
TRUSTED = 0.9
"""Share of duplicates in a row's queue under which its pairs must be read before anything is done with them."""


@dataclass(frozen=True)
class Auc:
    """An AUC with the lower end of its 95 % bootstrap interval and the labelled pairs it rests on."""

    value: float
    low: float
    duplicates: int
    others: int


@dataclass(frozen=True)
class Separation:
    """The AUC of the labels, each counted once, and that of the candidates from ``threshold`` upwards, None where the
    labels cannot say; ``decides`` names the one that a recommendation needs to be LEAST_AUC.
    """

    labels: Auc
    candidates: Auc | None
    threshold: float
    decides: str
    drawn_by: str  # of label_draws: what the bootstrap behind the intervals draws

    @property
    def deciding(self) -> Auc:
        return self.candidates if self.candidates is not None and self.decides == CANDIDATES else self.labels

    @property
    def suffices(self) -> bool:
        return self.deciding.low >= LEAST_AUC

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"least": LEAST_AUC}


def separation_of(resampled: Resampled, judged: Judged, sweep: pa.Table) -> Separation:
    """Both AUCs over the ``judged`` pairs and which one decides; ``resampled`` and ``sweep`` are of sweep_table.

    Labels are rarely a simple random sample: a labelling queue takes as many from a band of 100 candidates as from one
    of 35,000, and pairs are sought out by name. The AUC of such labels speaks of the draw. Where they carry bands, each
    label stands for the candidates of its band that one label was drawn for (Horvitz & Thompson 1952), and pairs
    without a band for none.

    The population is the candidates at or above the lowest threshold of the sweep, for two reasons. They are the
    pairs that the choice of a row is about; over all candidates the AUC is that of the easy ones, far under every
    threshold, and passes however badly the pairs over it are sorted. And it can be estimated there: of the band of easy
    pairs a thousandth is labelled, often without one duplicate, and a bootstrap never draws a duplicate that the labels
    do not hold, so that the lower bound over all candidates claims a certainty that nobody has.

    A restricted range lowers an AUC, so it does not decide where it would raise a false alarm: where the pairs at the
    lowest threshold are mostly duplicates already (by the precision of its queue), or where fewer than LEAST_LABELS of
    a class are labelled there. Then, as without bands, the AUC of the labels decides.
    """
    duplicate = judged.labels.duplicate
    threshold, queue_precision = (sweep[name][0].as_py() for name in ("threshold", "precision_queue"))
    labels = Auc(resampled.auc, resampled.auc_low, judged.duplicates, judged.others)
    weights = resampled.weights
    if weights is None or np.isnan(resampled.auc_weighted) or np.isnan(resampled.auc_weighted_low):
        return Separation(labels, None, threshold, LABELS, resampled.drawn_by)
    stands = weights > 0
    candidates = Auc(
        resampled.auc_weighted,
        resampled.auc_weighted_low,
        int((duplicate & stands).sum()),
        int((~duplicate & stands).sum()),
    )
    enough = min(candidates.duplicates, candidates.others) >= LEAST_LABELS
    open_question = queue_precision is not None and queue_precision <= MOSTLY
    decides = CANDIDATES if enough and open_question else LABELS
    return Separation(labels, candidates, threshold, decides, resampled.drawn_by)


def caution(threshold: float, thresholds: Sequence[float], separation: Separation | None) -> str | None:
    """Why a recommended row is not to be relied on as it stands, and what to do; None where nothing speaks against it.

    It is at an edge of the sweep, or the AUC of the labels decided though among the candidates, from the lowest row up,
    the cosine tells the classes hardly apart.
    """
    said = []
    if threshold == thresholds[0]:
        said.append(
            f"{threshold:g} is the lowest row of the sweep and a better one may lie below: extend "
            "duplicates.thresholds downwards first (scores of regime query lie lower than those of stored vectors)."
        )
    elif threshold == thresholds[-1]:
        said.append(
            f"{threshold:g} is the highest row of the sweep and a better one may lie above: extend "
            "duplicates.thresholds upwards first."
        )
    if separation is not None and separation.decides == LABELS and separation.candidates is not None:
        found = separation.candidates
        if found.value < LEAST_AUC:
            said.append(
                f"Among the candidates from {separation.threshold:g} upwards the cosine hardly tells duplicates from "
                f"others (AUC {found.value:.2f}, {found.duplicates} and {found.others} labelled): the advice rests on "
                "easy pairs below. Label more pairs above it, or begin the sweep lower."
            )
    return " ".join(said) or None


def queue_words(row: Mapping[str, Any]) -> str:
    """What share of the pairs over a row's threshold are duplicates, in a sentence that names its uncertainty."""
    share = row["precision_queue"]
    if share is None:
        words = "What share of the pairs over it are duplicates was not measured: "
        return words + "no label that passes says how many candidates it stands for."
    low, high, n = row["precision_queue_low"], row["precision_queue_high"], row["precision_queue_n"]
    words = f"Of the pairs over it that are no exact copies an estimated {100 * share:.0f} % are duplicates"
    words += f" ({100 * low:.0f} to {100 * high:.0f} %, n {n})." if low is not None else f" (n {n})."
    return words if share >= TRUSTED else words + " Read them: it is a queue for a person, not a list to delete."
