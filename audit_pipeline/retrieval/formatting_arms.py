"""The same queries under every known prompt: does another formatting find more, beyond chance. It encodes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.arms import as_arm, describe_arm, split_arm
from audit_pipeline.encoder.roles import QUERY
from audit_pipeline.proportions import Proportion, holm, mcnemar, paired_difference, wilson
from audit_pipeline.results import StageResult

SIGNIFICANCE = 0.05
MEASURES = {"held_out": "heldout@10", "labelled": "exact labelled_success@10"}
"""What is compared in each run; both scored exactly, so that the ANN index has no part in it."""


@dataclass(frozen=True)
class Asked:
    """The same m queries of one run under several arms: ``hits`` (m,) bool by name of the arm, ``query`` among them."""

    run: str
    hits: dict[str, np.ndarray]


def run_formatting_arms(asked: list[Asked], arms: dict[str, str]) -> StageResult:
    """Each arm on the query side against the configured one, paired over the same queries.

    ``arms`` is the prompt (see ``arms``) of each arm by name. The exact McNemar test compares each arm with the
    configured one; Holm (1979) corrects over the arms of a run. Returns the table formatting_arms (empty where nothing
    was asked); the summary is the section formatting_arms of audit.json, one object an arm and run.
    """
    rows = [row for one in asked for row in _compared(one, arms)]
    return StageResult(
        {"formatting_arms": pa.Table.from_pylist(rows, schema=schemas.FORMATTING_ARMS)},
        {"arms": [_shown(row) for row in rows]},
    )


def arms_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """What a person should know of the comparison, in a sentence or two; empty where nothing was compared."""
    said = []
    for run, measure in MEASURES.items():
        own = [row for row in rows if row["run"] == run and not row["configured"]]
        better = [row for row in own if row["better"]]
        if better:
            best = max(better, key=lambda row: row["difference"])
            how = describe_arm(as_arm(best["prompt"], best["request"]))
            said.append(
                f"Queries {how} find more than as configured: {measure} "
                f"{100 * best['difference']:+.1f} points ({100 * best['difference_low']:+.1f} to "
                f"{100 * best['difference_high']:+.1f}, n {best['success']['n']:,}), beyond chance over "
                f"{len(own)} other prompts."
            )
    return " ".join(said)


def _compared(asked: Asked, arms: dict[str, str]) -> list[dict[str, Any]]:
    own = np.asarray(asked.hits[QUERY], bool)
    n = len(own)
    if not n:
        return []
    others = [name for name in asked.hits if name != QUERY]
    won = {name: int((~own & asked.hits[name]).sum()) for name in others}
    lost = {name: int((own & ~asked.hits[name]).sum()) for name in others}
    p = np.array([mcnemar(lost[name], won[name]) for name in others])
    rows = [_row(asked.run, QUERY, arms[QUERY], wilson(int(own.sum()), n))]
    for name, chance, adjusted in zip(others, p, holm(p), strict=True):
        hits = np.asarray(asked.hits[name], bool)
        both = int((own & hits).sum())
        difference, low, high = paired_difference(both, lost[name], won[name], n - both - lost[name] - won[name])
        rows.append(
            _row(asked.run, name, arms[name], wilson(int(hits.sum()), n))
            | {
                "configured": False,
                "won": won[name],
                "lost": lost[name],
                "difference": difference,
                "difference_low": low,
                "difference_high": high,
                "p": float(chance),
                "p_holm": float(adjusted),
                "better": bool(adjusted <= SIGNIFICANCE and difference > 0),
                "worse": bool(adjusted <= SIGNIFICANCE and difference < 0),
            }
        )
    return rows


def _row(run: str, name: str, arm: str, success: Proportion) -> dict[str, Any]:
    return {
        "run": run,
        "arm": name,
        "prompt": split_arm(arm)[0],
        "request": json.dumps(split_arm(arm)[1], sort_keys=True),
        "configured": True,
        "n": success.n,
        "value": success.value,
        "low": success.low,
        "high": success.high,
        **dict.fromkeys(("won", "lost", "difference", "difference_low", "difference_high", "p", "p_holm")),
        "better": False,
        "worse": False,
    }


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    figure = {name: row[name] for name in ("value", "low", "high", "n")}
    rest = {name: value for name, value in row.items() if name not in figure}
    return rest | {"request": json.loads(row["request"]), "success": figure}
