"""The published audit against the limits of the settings: one outcome per check. No figure is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from audit_pipeline.report.blind_spots import unmeasured
from audit_pipeline.report.wording import is_measured, unmeasured_checks
from audit_pipeline.stages.checks import FIGURES, codes_of
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_json


@dataclass(frozen=True)
class CheckOutcome:
    """Passed or not, how bad, and the figures it rests on.

    Dagster knows no third state: what was not measured passes, its text begins with "not measured", and it has no
    figure.
    """

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
    if name == "everything_measured":
        return _everything_measured(audit)
    if name not in FIGURES:
        return _of_findings(audit["findings"], codes_of(name))
    section, figure = FIGURES[name]
    measured: Any = (audit[section] or {}).get(figure)
    if name == "labelled_gap":
        breached = any(finding["code"] == "relationship_gap" for finding in audit["findings"])
        limit = f"held-out ceiling - {limits.labelled_gap}"
    else:
        # As in the findings: a limit counts as breached where the whole interval lies under it.
        breached = is_measured(measured) and measured["high"] < getattr(limits, name)
        limit = str(getattr(limits, name))
    if why := _why_not_measured(audit, name, measured):
        return CheckOutcome(True, error=False, text=f"not measured: {why}")
    return _compared(measured, not breached, figure, limit)


def _why_not_measured(audit: Mapping[str, Any], name: str, measured: Any) -> str | None:
    """Why a check has no figure to compare, None where it has one."""
    if is_measured(measured):
        unlimited = name == "labelled_gap" and not is_measured(audit["held_out"]["heldout@10"])
        return "the held-out ceiling that labelled success is compared with is unknown" if unlimited else None
    if name == "labelled_gap":
        return (
            "no labelled query was asked"
            if audit["labelled"]
            else "no labelled queries are configured (labels.queries)"
        )
    if name == "self_at_10" and is_measured(audit["self_retrieval"]["self@1"]):
        return "the application asks for fewer than 10 rows"
    if name == "ann_recall_at_10":
        return str(audit["ann_recall"].get("reason") or "no query was asked of both searches")
    return "no chunk was searched for by its own text"


def _everything_measured(audit: Mapping[str, Any]) -> CheckOutcome:
    """What the report lists as not measured, and what it found too little to decide. It never fails."""
    absent = unmeasured(audit)
    undecided = [finding["message"] for finding in audit["findings"] if finding["code"] == "undecided"]
    parts = [
        f"{what}: {len(said)} ({' '.join(said)})"
        for what, said in (("not measured", absent), ("undecided", undecided))
        if said
    ]
    figures = {"not measured": len(absent), "undecided": len(undecided)}
    return CheckOutcome(
        True, error=False, text="; ".join(parts) or "everything was measured and decided", figures=figures
    )


def _of_findings(findings: list[Mapping[str, Any]], codes: tuple[str, ...]) -> CheckOutcome:
    """Fails where one of the codes is a warning or an error; notes are counted, and so is what was not measured."""
    own = [finding for finding in findings if finding["code"] in codes]
    failing = [finding for finding in own if finding["severity"] != "info"]
    not_looked_for = {code for finding in findings for code in unmeasured_checks(finding)} & set(codes)
    errors = sum(finding["severity"] == "error" for finding in failing)
    figures = {
        "errors": errors,
        "warnings": len(failing) - errors,
        "notes": len(own) - len(failing),
        "not measured": len(not_looked_for),
    }
    text = ", ".join(sorted({finding["code"] for finding in failing})) or "no finding"
    if not_looked_for:
        text += f"; not measured: {', '.join(sorted(not_looked_for))}"
    return CheckOutcome(not failing, error=errors > 0, text=text, figures=figures)


def _compared(measured: Mapping[str, Any], passed: bool, figure: str, limit: str) -> CheckOutcome:
    interval = f"[{measured['low']:.3f}, {measured['high']:.3f}]"
    text = f"{figure} {measured['value']:.3f} {interval}, n {measured['n']}; limit {limit}"
    return CheckOutcome(passed, error=False, text=text, figures={figure: measured["value"], "n": measured["n"]})
