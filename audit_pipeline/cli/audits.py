"""The commands that look at sources, tables and the state folder, or bring them up to date. Nothing is judged here."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from audit_pipeline.cli.options import (
    EXIT_CLEAN,
    EXIT_ERROR_FINDING,
    EXIT_INPUT,
    ConfigOption,
    StateOption,
    indexes_of,
    root_of,
    tell,
)
from audit_pipeline.errors import AuditInputError
from audit_pipeline.plural import counted


def run(
    config: ConfigOption = None,
    state: StateOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print audit.json instead of the summary.")] = False,
) -> None:
    """Bring every new, changed or emptied batch up to date, audit the whole index, print a summary.

    A batch that cannot be brought in is left out, and the audit is of the others and of what the table had of it.

    Exit 0: no error finding. 1: at least one. 2: settings, input or a batch cannot be used. 3: the audit itself failed.
    """
    from audit_pipeline.orchestration.running import at_home, dry_run_line, run_audit
    from audit_pipeline.report.summary import exit_code, terminal_summary

    indexes = indexes_of(config)
    root = root_of(state)
    code, left_out = EXIT_CLEAN, list[AuditInputError]()
    with at_home(root) as instance:
        for settings in indexes:
            if dry_run:
                typer.echo(dry_run_line(settings))
                continue
            outcome = run_audit(settings, instance)
            report = root / "reports" / settings.name
            summary = terminal_summary(outcome.audit, report, len(outcome.left_out)).rstrip()
            typer.echo(json.dumps(outcome.audit, indent=1) if as_json else summary)
            code = max(code, exit_code(outcome.audit, len(outcome.left_out)))
            left_out += outcome.left_out.values()
    tell(left_out)
    raise typer.Exit(code)


def backfill(
    source: Annotated[str, typer.Option("--source", help="Source to bring in: its name or its partition key.")],
    since: Annotated[
        datetime | None, typer.Option("--since", formats=["%Y-%m-%d"], help="First day; default: all of its history.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Its batches that are up to date too: heals a table that was damaged.")
    ] = False,
    config: ConfigOption = None,
    state: StateOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the batches, and do nothing.")] = False,
) -> None:
    """Ingest a source's batches that are not up to date (with --again all), here; the next audit shows what came in.

    Exit 0: every batch stands in the table as in the source store. 1: one does not. 2: one could not be brought in, the
    others are. Else 2 and 3 as of run.
    """
    from audit_pipeline.orchestration.running import (
        at_home,
        backfill_plan,
        refuse_unknown_source,
        run_backfill,
        up_to_date,
    )

    indexes = indexes_of(config)
    faulty, left_out = 0, list[AuditInputError]()
    with at_home(root_of(state)) as instance:
        having = refuse_unknown_source(indexes, source)
        for settings in having:
            changes = backfill_plan(settings, source, since.date() if since else None, again=again)
            if not changes:
                typer.echo(up_to_date(settings, source, since.date() if since else None))
                continue
            to_do = "write again" if again else "bring up to date"
            typer.echo(f"{settings.name}: {counted(len(changes), 'batch', 'batches')} of {source} to {to_do}")
            if dry_run:
                for change in changes:
                    typer.echo(f"  {change.key} ({change.reason}, {counted(change.rows, 'row')})")
                continue
            found = run_backfill(settings, changes, instance)
            faulty += len(found.faults)
            left_out += found.left_out.values()
            for key, faults in found.faults.items():
                typer.echo(f"  {key}: {', '.join(f'{count} {name}' for name, count in faults.items())}")
            typer.echo(f"{settings.name}: {found.as_text(len(changes))}")
    tell(left_out)
    raise typer.Exit(EXIT_INPUT if left_out else EXIT_ERROR_FINDING if faulty else EXIT_CLEAN)


def prepare(state: StateOption = None) -> None:
    """Make the state folder a Dagster home, and find the first day of each index below defs/ that knows none yet.

    Called before the Dagster UI starts: definitions read no data, so the grid of batches would begin today.
    """
    from audit_pipeline.orchestration.home import prepare_home
    from audit_pipeline.orchestration.project import configured_indexes
    from audit_pipeline.orchestration.workspaces import workspace_for
    from audit_pipeline.stages.sources import find_first_day, first_day_words

    root = root_of(state)
    prepare_home(root)
    words = []
    for _, settings in configured_indexes():
        workspace = workspace_for(settings)
        for error in find_first_day(workspace).values():
            typer.echo(f"not read: {error}", err=True)
        words.append(first_day_words(workspace))
    typer.echo(f"{root} is a Dagster home; {'; '.join(words) or 'no index is configured below defs/'}")


def inspect(
    uri: Annotated[str, typer.Argument(help="LanceDB folder or object store URI.")],
    table: Annotated[
        str | None, typer.Option("--table", help="Table, or '*' for all of one shape; default: the largest.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Encoder of the application: its role is looked for.")
    ] = None,
) -> None:
    """Print settings for a table that something else wrote, with what each guess rests on. Nothing is changed."""
    from audit_pipeline.stages.inspection import proposal

    typer.echo(proposal(uri, table, model), nl=False)


def doctor(
    config: ConfigOption = None,
    state: StateOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as JSON.")] = False,
) -> None:
    """Look at home, versions, what runs by itself, runs, model, table, sources, batches, labels, disk; change none.

    Exit 0: nothing fails. 1: something does. 2: the settings cannot be used.
    """
    from audit_pipeline.orchestration.doctor import examine
    from audit_pipeline.orchestration.project import configured_indexes
    from audit_pipeline.stages.doctor import line_text

    indexes = indexes_of(config) if config or configured_indexes() else []
    lines = []
    for line in examine(indexes, root_of(state)):
        lines.append(line)
        if not as_json:
            typer.echo(line_text(line))
    if as_json:
        typer.echo(json.dumps([asdict(line) for line in lines], indent=1))
    raise typer.Exit(EXIT_ERROR_FINDING if any(line.state == "fail" for line in lines) else EXIT_CLEAN)
