"""The commands that read two reports: compare, gate. What they say is made in report/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from audit_pipeline.cli.options import EXIT_CLEAN, EXIT_ERROR_FINDING, StateOption, root_of


def compare(
    first: Annotated[Path, typer.Argument(help="Report folder of the earlier audit, such as a copy of reports/NAME.")],
    second: Annotated[Path, typer.Argument(help="Report folder of the later audit.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Say what got better or worse between two audits, on the questions that both asked. Decides nothing: exit 0."""
    from audit_pipeline.report.compare import compare as compared
    from audit_pipeline.report.compare_text import comparison_text
    from audit_pipeline.report.saved import open_report

    comparison = compared(open_report(first), open_report(second))
    typer.echo(json.dumps(comparison.as_dict(), indent=1) if as_json else comparison_text(comparison), nl=as_json)


def gate(
    baseline: Annotated[
        Path, typer.Option("--baseline", help="Report folder of before the change, or its audit.json.")
    ],
    candidate: Annotated[
        Path | None, typer.Option("--candidate", help="Report to judge; default: the last one of the index in --state.")
    ] = None,
    state: StateOption = None,
    margin: Annotated[
        float, typer.Option("--margin", help="Loss that is let pass, as a share of the questions.")
    ] = 0.01,
    alpha: Annotated[float, typer.Option("--alpha", help="Chance of a false alarm over all measures.")] = 0.05,
    errors_fail: Annotated[
        bool, typer.Option("--fail-on-new-errors", help="Fail on error findings that the baseline does not have, too.")
    ] = False,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="File for a pull-request comment.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="File of JUnit XML.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Fail where a measure fell, on the questions that both audits asked, beyond chance and by more than the margin.

    Exit 0: none did, or too few questions to see it, which is said. 1: one did. 2: a report cannot be used.
    """
    from audit_pipeline.report.gate import run_gate
    from audit_pipeline.report.gate_files import write_gate
    from audit_pipeline.report.gate_text import gate_text
    from audit_pipeline.report.saved import last_report

    judged = run_gate(baseline, candidate or last_report(root_of(state), baseline), margin, alpha, errors_fail)
    write_gate(judged, markdown, junit)
    typer.echo(json.dumps(judged.as_dict(), indent=1) if as_json else gate_text(judged), nl=as_json)
    raise typer.Exit(EXIT_ERROR_FINDING if judged.failed else EXIT_CLEAN)
