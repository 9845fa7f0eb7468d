"""How far people agree on the pairs that more than one of them judged. Reading labels is elsewhere."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np

from audit_pipeline.proportions import wilson

ADJUDICATED = "adjudicated"
"""The labeller whose judgement of a pair settles what others disagree on; it is no second opinion itself."""


def is_adjudicated(labellers: list[str]) -> np.ndarray:
    """(n,) bool: judgements that settle a pair."""
    return np.array([name.strip().casefold() == ADJUDICATED for name in labellers], dtype=bool)


def agreement(pair: np.ndarray, labellers: list[str], duplicate: np.ndarray) -> dict[str, Any] | None:
    """Agreement over the pairs that two or more named labellers judged; None where there are none.

    ``pair`` (n,) numbers the pair of each judgement, ``duplicate`` (n,) bool is what was answered. Judgements without a
    name, those that settle a pair, and both of a labeller who answered one pair both ways are left out: nobody knows
    whose they are, or what was meant. ``agreed`` is the share of pairs on which all labellers agree (Wilson interval),
    ``kappa`` is Cohen's (1960) of two labellers, null with more of them; ``by_labellers`` has each two.
    """
    named = np.array([bool(name.strip()) for name in labellers], dtype=bool) & ~is_adjudicated(labellers)
    answers: dict[int, dict[str, set[bool]]] = defaultdict(lambda: defaultdict(set))
    for row in np.flatnonzero(named).tolist():
        answers[int(pair[row])][labellers[row].strip()].add(bool(duplicate[row]))
    by_pair = [
        {name: next(iter(given)) for name, given in of_pair.items() if len(given) == 1} for of_pair in answers.values()
    ]
    double = [given for given in by_pair if len(given) > 1]
    if not double:
        return None
    both: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    for given in double:
        for one, other in itertools.combinations(sorted(given), 2):
            both[one, other].append((given[one], given[other]))
    rows = []
    for (one, other), given_by in sorted(both.items()):
        first, second = (np.array(side) for side in zip(*given_by, strict=True))
        rows.append(
            {
                "labellers": [one, other],
                "agreed": wilson(int((first == second).sum()), len(first)).as_dict(),
                "kappa": cohens_kappa(first, second),
            }
        )
    unanimous = sum(len(set(given.values())) == 1 for given in double)
    return {
        "labellers": len({name for given in double for name in given}),
        "agreed": wilson(unanimous, len(double)).as_dict(),
        "kappa": rows[0]["kappa"] if len(rows) == 1 else None,
        "by_labellers": rows,
    }


def cohens_kappa(first: np.ndarray, second: np.ndarray) -> float | None:
    """Cohen's kappa of two labellers' answers (n,) bool each; None where chance alone must agree (one class)."""
    observed = float(np.mean(first == second))
    yes = float(first.mean()) * float(second.mean())
    chance = yes + (1 - float(first.mean())) * (1 - float(second.mean()))
    return (observed - chance) / (1 - chance) if chance < 1 else None
