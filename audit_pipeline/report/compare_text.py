"""The comparison of two audits as plain lines for a terminal. No figure is computed here."""

from __future__ import annotations

import textwrap

from audit_pipeline.report.compare import Change, Comparison
from audit_pipeline.report.wording import number, percent, visible

COLUMNS = 100
_STRATA_SHOWN = 12
_FINDINGS_SHOWN = 10


def comparison_text(comparison: Comparison) -> str:
    """Everything that changed, whole first, then strata and findings; what could not be paired is said."""
    lines = [f"first   {comparison.a}", f"second  {comparison.b}", ""]
    lines += _wrapped(_headline(comparison))
    lines += [line for change in comparison.changes for line in _change_lines(change)]
    if comparison.changes:
        lines += _wrapped(
            "Shares are of the questions that both asked, each counted once; the corpus figures stand in each report."
        )
    lines += _pairing_lines(comparison)
    if comparison.strata:
        lines += ["", "strata that changed beyond chance:"]
        shown = sorted(comparison.strata, key=lambda change: (change.difference, change.measure))[:_STRATA_SHOWN]
        lines += [f"  {_scope(change)}: {_figures(change)}" for change in shown]
        if len(comparison.strata) > len(shown):
            lines.append(f"  ... and {len(comparison.strata) - len(shown)} more with --json")
    for title, findings in (("new findings", comparison.new_findings), ("findings gone", comparison.gone_findings)):
        if findings:
            lines += ["", f"{title}:"]
            lines += [
                line
                for finding in findings[:_FINDINGS_SHOWN]
                for line in _wrapped(f"{finding['severity'].upper()} {finding['code']}: {finding['message']}", "  ")
            ]
            if len(findings) > _FINDINGS_SHOWN:
                lines.append(f"  ... and {len(findings) - _FINDINGS_SHOWN} more with --json")
    for caution in comparison.cautions:
        lines += _wrapped(f"Mind: {caution}")
    return "\n".join(lines) + "\n"


def _headline(comparison: Comparison) -> str:
    measured = comparison.changes
    if not measured:
        return "Nothing can be compared: no question was asked by both audits."
    worse = [change.measure for change in measured if change.beyond_chance and change.difference < 0]
    better = [change.measure for change in measured if change.beyond_chance and change.difference > 0]
    parts = [f"worse: {', '.join(worse)}" if worse else "", f"better: {', '.join(better)}" if better else ""]
    said = "; ".join(part for part in parts if part)
    return f"Beyond chance {said}." if said else "No measure changed beyond chance on the questions that both asked."


def _change_lines(change: Change) -> list[str]:
    lines = [f"  {change.measure:<20} {_figures(change)}"]
    if change.lost:
        causes = ", ".join(f"{cause} {n}" for cause, n in change.causes.items())
        lines += _wrapped(f"lost to: {causes}; such as {', '.join(change.examples)}", " " * 23)
    return lines


def _figures(change: Change) -> str:
    interval = f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"
    said = "beyond chance" if change.beyond_chance else "within chance"
    return (
        f"{percent(change.a)} -> {percent(change.b)}  {100 * change.difference:+.1f} points ({interval}) "
        f"n {number(change.n)}, {number(change.won)} won, {number(change.lost)} lost: {said}"
    )


def _pairing_lines(comparison: Comparison) -> list[str]:
    lines = []
    for run, paired in comparison.paired.items():
        left = paired["only_a"] + paired["only_b"] + paired["changed"]
        if left:
            words = (
                f"{run}: {number(paired['n'])} questions in both; left out: {number(paired['only_a'])} of the first "
                f"only, {number(paired['only_b'])} of the second only, {number(paired['changed'])} whose text changed."
            )
            lines += _wrapped(words)
    return lines


def _scope(change: Change) -> str:
    return f"{change.measure}, " + ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in change.scope.items()
    )


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(visible(text), COLUMNS, initial_indent=indent, subsequent_indent=indent + "  ")
