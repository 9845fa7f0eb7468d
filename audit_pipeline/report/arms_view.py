"""The page's rows on queries asked under other prompts, put into words. No figure is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit_pipeline.report.wording import RUNS

_CONFIGURED = "as configured"


def arms_view(audit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One entry a run with its arms, the configured one first and then the best; empty where nothing was compared."""
    runs = []
    for run in ("held_out", "labelled"):
        rows = [row for row in audit["formatting_arms"] if row["run"] == run]
        if rows:
            ordered = sorted(rows, key=lambda row: (not row["configured"], -(row["difference"] or 0.0), row["arm"]))
            runs.append({"run": RUNS[run], "n": rows[0]["success"]["n"], "rows": [_row(row) for row in ordered]})
    return runs


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["configured"]:
        return {**row, "name": _CONFIGURED, "change": "", "meaning": ""}
    interval = f"{100 * row['difference_low']:+.1f} to {100 * row['difference_high']:+.1f}"
    meaning = "better beyond chance" if row["better"] else "worse beyond chance" if row["worse"] else "within chance"
    return {
        **row,
        "name": row["arm"] if row["arm"] != "none" else "no prompt",
        "change": f"{100 * row['difference']:+.1f} points ({interval})",
        "meaning": f"{meaning}: {row['won']} won, {row['lost']} lost",
    }
