"""The published audit against the limits of the settings: one outcome per check. No figure is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from audit_pipeline.report.wording import unmeasured_checks
from audit_pipeline.stages.checks import FIGURES, codes_of
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_json


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
    if name not in FIGURES:
        return _of_findings(audit["findings"], codes_of(name))
    section, figure = FIGURES[name]
    measured = (audit[section] or {}).get(figure)
    if name == "labelled_gap":
        breached = any(finding["code"] == "relationship_gap" for finding in audit["findings"])
        return _compared(measured, not breached, figure, f"held-out ceiling - {limits.labelled_gap}")
    limit = getattr(limits, name)
    # As in the findings: a limit counts as breached where the whole interval lies under it.
    breached = bool(measured and measured["n"] and measured["high"] < limit)
    return _compared(measured, not breached, figure, str(limit), (audit[section] or {}).get("reason"))


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


def _compared(
    measured: dict[str, Any] | None, passed: bool, figure: str, limit: str, reason: str | None = None
) -> CheckOutcome:
    if not measured or not measured["n"]:
        text = f"{figure}: not measured" + (f" ({reason})" if reason else "")
        return CheckOutcome(True, error=False, text=text, figures={"n": 0})
    interval = f"[{measured['low']:.3f}, {measured['high']:.3f}]"
    text = f"{figure} {measured['value']:.3f} {interval}, n {measured['n']}; limit {limit}"
    return CheckOutcome(passed, error=False, text=text, figures={figure: measured["value"], "n": measured["n"]})
