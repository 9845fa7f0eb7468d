"""The commands below `label`: queue, import, export. What they do stands in stages/labelling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit_pipeline.cli.options import StateOption, root_of
from audit_pipeline.plural import counted

if TYPE_CHECKING:
    from audit_pipeline.duplicates.label_files import Format

label = typer.Typer(help="Label pairs: which to read, what was answered, and handing it on.", no_args_is_help=True)

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
    from audit_pipeline.stages.labelled_corpus import corpus_of

    shown, chosen = labelling.text_of(text), labelling.format_of(kind, output)
    corpus = corpus_of(root_of(state), name)
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
    from audit_pipeline.stages.labelled_corpus import corpus_of

    typer.echo(labelling.import_labels(file, into, labeller, corpus_of(root_of(state), name)))


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
    from audit_pipeline.stages.labelled_corpus import corpus_of

    chosen = labelling.format_of(kind, output)
    shown = labelling.text_of(text or ("full" if conflicts or chosen == "label-studio" else "none"))
    corpus = corpus_of(root_of(state), name) if shown != "none" else None
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
