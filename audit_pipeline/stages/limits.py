"""The published audit against the limits of the settings: one outcome per check. No figure is computed here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_json

REPORT_CHECKS = {
    "no_error_findings": "No finding of severity error: no rows are wrong, lost or unreachable.",
    "self_at_1": "self@1 reaches limits.self_at_1.",
    "self_at_10": "self@10 reaches limits.self_at_10.",
    "ann_recall_at_10": "ann_recall@10 reaches limits.ann_recall_at_10.",
    "labelled_gap": "Labelled success stays within limits.labelled_gap of the held-out ceiling.",
}


@dataclass(frozen=True)
class CheckOutcome:
    """Passed or not, how bad, and the figures it rests on. What was not measured passes and says so."""

    passed: bool
    error: bool
    text: str
    figures: dict[str, Any] = field(default_factory=dict)


def report_check(workspace: Workspace, name: str) -> CheckOutcome:
    """The outcome of one of REPORT_CHECKS on the last published audit."""
    audit = read_json(workspace.state.report / "audit.json")
    limits = workspace.settings.limits
    if name == "no_error_findings":
        errors = [finding for finding in audit["findings"] if finding["severity"] == "error"]
        codes = sorted({finding["code"] for finding in errors})
        text = f"error findings: {', '.join(codes)}" if errors else "no error finding"
        return CheckOutcome(not errors, error=True, text=text, figures={"errors": len(errors)})
    if name == "labelled_gap":
        breached = any(finding["code"] == "relationship_gap" for finding in audit["findings"])
        labelled = (audit["labelled"] or {}).get("labelled_success@10")
        return _compared(labelled, not breached, "labelled_success@10", f"held-out ceiling - {limits.labelled_gap}")
    section, figure, limit = {
        "self_at_1": ("self_retrieval", "self@1", limits.self_at_1),
        "self_at_10": ("self_retrieval", "self@10", limits.self_at_10),
        "ann_recall_at_10": ("ann_recall", "ann_recall@10", limits.ann_recall_at_10),
    }[name]
    measured = (audit[section] or {}).get(figure)
    # As in the findings: a limit counts as breached where the whole interval lies under it.
    breached = bool(measured and measured["n"] and measured["high"] < limit)
    return _compared(measured, not breached, figure, str(limit), (audit[section] or {}).get("reason"))


def _compared(
    measured: dict[str, Any] | None, passed: bool, figure: str, limit: str, reason: str | None = None
) -> CheckOutcome:
    if not measured or not measured["n"]:
        text = f"{figure}: not measured" + (f" ({reason})" if reason else "")
        return CheckOutcome(True, error=False, text=text, figures={"n": 0})
    interval = f"[{measured['low']:.3f}, {measured['high']:.3f}]"
    text = f"{figure} {measured['value']:.3f} {interval}, n {measured['n']}; limit {limit}"
    return CheckOutcome(passed, error=False, text=text, figures={figure: measured["value"], "n": measured["n"]})
