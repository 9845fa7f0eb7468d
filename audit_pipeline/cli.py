"""The command line: arguments, exit codes and what is printed. Everything else stands in the rooms behind it."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError, SelfCheckError, StoppedError
from audit_pipeline.plural import counted

if TYPE_CHECKING:
    from audit_pipeline.duplicates.label_files import Format

EXIT_CLEAN, EXIT_ERROR_FINDING, EXIT_INPUT, EXIT_FAILED = range(4)

app = typer.Typer(
    name="audit-pipeline",
    help="Audits vector indexes: can each chunk be found, if not why, and how redundant is the corpus.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="YAML of one index; default: every index below defs/.")
]
StateOption = Annotated[
    Path | None, typer.Option("--state", help="State folder; default: $DAGSTER_HOME, else .audit here.")
]


@app.callback()
def common() -> None:
    """Audits vector indexes: can each chunk be found, if not why, and how redundant is the corpus."""


@app.command()
def run(
    config: ConfigOption = None,
    state: StateOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print audit.json instead of the summary.")] = False,
) -> None:
    """Bring every new, changed or emptied batch up to date, audit the whole index, print a summary.

    Exit 0: no error finding. 1: at least one. 2: settings or input cannot be used. 3: the audit itself failed.
    """
    import dagster as dg

    from audit_pipeline.orchestration.home import end_dead_runs, locked, prepare_home
    from audit_pipeline.orchestration.running import dry_run_line, run_audit
    from audit_pipeline.report.summary import exit_code, terminal_summary

    indexes = _indexes(config)
    root = _root(state)
    prepare_home(root)
    code = EXIT_CLEAN
    with locked(root), dg.DagsterInstance.get() as instance:
        end_dead_runs(instance)
        for settings in indexes:
            if dry_run:
                typer.echo(dry_run_line(settings))
                continue
            outcome = run_audit(settings, instance)
            report = root / "reports" / settings.name
            typer.echo(
                json.dumps(outcome.audit, indent=1) if as_json else terminal_summary(outcome.audit, report).rstrip()
            )
            code = max(code, exit_code(outcome.audit))
    raise typer.Exit(code)


@app.command()
def backfill(
    source: Annotated[str, typer.Option("--source", help="Source to bring in: its name or its partition key.")],
    since: Annotated[
        datetime | None, typer.Option("--since", formats=["%Y-%m-%d"], help="First day; default: all of its history.")
    ] = None,
    config: ConfigOption = None,
    state: StateOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the batches, and do nothing.")] = False,
) -> None:
    """Ingest a source's batches that are not up to date, in this process; the next audit shows what came in.

    Exit 0: every batch stands in the table as in the source store. 1: one does not. 2 and 3: as of run.
    """
    import dagster as dg

    from audit_pipeline.orchestration.home import end_dead_runs, locked, prepare_home
    from audit_pipeline.orchestration.running import backfill_plan, refuse_unknown_source, run_backfill

    indexes = _indexes(config)
    root = _root(state)
    prepare_home(root)
    faulty = 0
    with locked(root), dg.DagsterInstance.get() as instance:
        end_dead_runs(instance)
        having = refuse_unknown_source(indexes, source)
        for settings in having:
            changes = backfill_plan(settings, source, since.date() if since else None)
            typer.echo(f"{settings.name}: {counted(len(changes), 'batch', 'batches')} of {source} to bring up to date")
            if dry_run:
                for change in changes:
                    typer.echo(f"  {change.key} ({change.reason}, {counted(change.rows, 'row')})")
                continue
            for key, faults in run_backfill(settings, changes, instance).items():
                faulty += 1
                typer.echo(f"  {key}: {', '.join(f'{count} {name}' for name, count in faults.items())}")
    raise typer.Exit(EXIT_ERROR_FINDING if faulty else EXIT_CLEAN)


@app.command()
def prepare(state: StateOption = None) -> None:
    """Make the state folder a Dagster home, so that the Dagster UI can be started on it."""
    from audit_pipeline.orchestration.home import prepare_home

    prepare_home(_root(state))


@app.command()
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


@app.command()
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


@app.command()
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

    judged = run_gate(baseline, candidate or last_report(_root(state), baseline), margin, alpha, errors_fail)
    write_gate(judged, markdown, junit)
    typer.echo(json.dumps(judged.as_dict(), indent=1) if as_json else gate_text(judged), nl=as_json)
    raise typer.Exit(EXIT_ERROR_FINDING if judged.failed else EXIT_CLEAN)


@app.command()
def doctor(
    config: ConfigOption = None,
    state: StateOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as JSON.")] = False,
) -> None:
    """Look at home, versions, what runs by itself, grid, runs, model, table, store, labels, alerts, disk; change none.

    Exit 0: nothing fails. 1: something does. 2: the settings cannot be used.
    """
    from audit_pipeline.orchestration.doctor import examine
    from audit_pipeline.orchestration.project import configured_indexes
    from audit_pipeline.stages.doctor import line_text

    indexes = _indexes(config) if config or configured_indexes() else []
    lines = []
    for line in examine(indexes, _root(state)):
        lines.append(line)
        if not as_json:
            typer.echo(line_text(line))
    if as_json:
        typer.echo(json.dumps([asdict(line) for line in lines], indent=1))
    raise typer.Exit(EXIT_ERROR_FINDING if any(line.state == "fail" for line in lines) else EXIT_CLEAN)


label = typer.Typer(help="Label pairs: which to read, what was answered, and handing it on.", no_args_is_help=True)
app.add_typer(label, name="label")

NameOption = Annotated[str | None, typer.Option("--name", help="Audited index; default: the only one in --state.")]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="csv, jsonl or label-studio; default: that of -o, else csv.")
]
OutputOption = Annotated[Path | None, typer.Option("-o", "--output", help="File to write; default: print.")]


@label.command("queue")
def label_queue(
    name: Annotated[str, typer.Option("--name", help="Audited index.")],
    state: StateOption = None,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="How many pairs at most.")] = 600,
    seed: Annotated[int, typer.Option("--seed", help="Another seed draws other pairs.")] = 0,
    kind: FormatOption = None,
    text: Annotated[str, typer.Option("--text", help="full, excerpt (where they differ) or none.")] = "full",
    labelled: Annotated[
        list[Path] | None, typer.Option("--labelled", help="Labels file whose pairs to leave out, beside labels.pairs.")
    ] = None,
    lowest: Annotated[
        float | None,
        typer.Option("--from-cosine", min=-1, max=1, help="Only candidates of the score bands from this cosine up."),
    ] = None,
    output: OutputOption = None,
) -> None:
    """Write the pairs worth a label, drawn from the last audit, in a random order. Stop reading wherever you like."""
    from audit_pipeline.stages import labelling

    shown, chosen = labelling.text_of(text), labelling.format_of(kind, output)
    corpus = labelling.corpus_of(_root(state), name)
    assert corpus is not None  # a name is given
    rows = labelling.label_queue(corpus, pairs, seed, labelled or [], shown, lowest)
    _write(rows, labelling.queue_columns(shown), chosen, output, f"{counted(len(rows), 'pair')} to label")


@label.command("import")
def label_import(
    file: Annotated[Path, typer.Argument(help="Filled-in queue: CSV, JSON Lines or Label Studio's JSON export.")],
    into: Annotated[Path, typer.Option("--into", help="Labels for labels.pairs: .parquet, .csv or .jsonl.")],
    labeller: Annotated[str, typer.Option("--labeller", help="Who answered, where the file does not say.")] = "",
    name: NameOption = None,
    state: StateOption = None,
) -> None:
    """Check what was answered and add it to the labels; importing a file twice changes nothing."""
    from audit_pipeline.stages import labelling

    typer.echo(labelling.import_labels(file, into, labeller, labelling.corpus_of(_root(state), name)))


@label.command("export")
def label_export(
    file: Annotated[Path, typer.Argument(help="Labels: .parquet, .csv or .jsonl.")],
    kind: FormatOption = None,
    conflicts: Annotated[bool, typer.Option("--conflicts", help="Only pairs in conflict, to be settled.")] = False,
    text: Annotated[
        str | None, typer.Option("--text", help="full, excerpt or none; default: full for tasks and conflicts.")
    ] = None,
    name: NameOption = None,
    state: StateOption = None,
    output: OutputOption = None,
) -> None:
    """Write the labels as CSV, JSON Lines or Label Studio tasks (with the labelling configuration beside them)."""
    from audit_pipeline.stages import labelling

    chosen = labelling.format_of(kind, output)
    shown = labelling.text_of(text or ("full" if conflicts or chosen == "label-studio" else "none"))
    corpus = labelling.corpus_of(_root(state), name) if shown != "none" else None
    rows = labelling.export_labels(file, conflicts, corpus, shown)
    _write(rows, labelling.export_columns(rows, shown), chosen, output, counted(len(rows), "row"))


def _write(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], kind: Format, output: Path | None, what: str
) -> None:
    from audit_pipeline.duplicates.label_files import write_rows

    written = write_rows(rows, columns, kind, output)
    if output is None:
        typer.echo(written, nl=False)
        return
    beside = f", and how Label Studio shows them to {output.with_suffix('.xml')}" if kind == "label-studio" else ""
    typer.echo(f"{what}, written to {output}{beside}")


def _root(state: Path | None) -> Path:
    return (state or Path(os.environ.get("DAGSTER_HOME") or ".audit")).expanduser().absolute()


def _indexes(config: Path | None) -> list[IndexAuditSettings]:
    from audit_pipeline.orchestration.project import configured_indexes
    from audit_pipeline.settings_file import load_settings

    indexes = [load_settings(config)] if config else [settings for _, settings in configured_indexes()]
    if not indexes:
        raise AuditInputError("no index is configured below defs/: name one with --config")
    return indexes


def show_progress() -> None:
    """Progress lines on standard error.

    The handler stands on the project's own logger and before Dagster's, which rewrites each record with ids of the run.
    """
    logger = logging.getLogger("audit_pipeline")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def stop_on_signals() -> None:
    """SIGINT and SIGTERM end the command by a StoppedError.

    Typer would end a KeyboardInterrupt with exit 1, which says that there is an error finding.
    """

    def stop(number: int, _: FrameType | None) -> None:
        raise StoppedError(signal.Signals(number).name)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def main() -> None:
    """Entry point: turns the project's exceptions into exit codes and one sentence each."""
    show_progress()
    stop_on_signals()
    try:
        app()
    except AuditInputError as error:
        print(f"audit-pipeline: {error}", file=sys.stderr)
        sys.exit(EXIT_INPUT)
    except StoppedError:
        print(
            "audit-pipeline: stopped before it was done, the last report stays: run the same command again to go on",
            file=sys.stderr,
        )
        sys.exit(EXIT_FAILED)
    except SelfCheckError as error:
        print(f"audit-pipeline: the audit's own check failed, nothing was published: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except Exception as error:
        logging.getLogger("audit_pipeline").debug("failure", exc_info=True)
        print(
            f"audit-pipeline: the audit failed, the last report stays: {type(error).__name__}: {error}", file=sys.stderr
        )
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
