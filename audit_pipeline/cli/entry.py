"""The program: its commands by name, its progress lines, and how it ends on signals and errors."""

from __future__ import annotations

import errno
import logging
import re
import signal
import sys
from types import FrameType

import typer

from audit_pipeline.cli import audits, labels, reports
from audit_pipeline.cli.options import EXIT_CLEAN, EXIT_FAILED, EXIT_INPUT, tell
from audit_pipeline.errors import AuditInputError, SelfCheckError, StoppedError, reason_of

# What SQLite, LanceDB and the operating system say of a full disk.
_FULL = re.compile("database or disk is full|No space left on device|Disk quota exceeded")

app = typer.Typer(
    name="audit-pipeline",
    help="Audits vector indexes: can each chunk be found, if not why, and how redundant is the corpus.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def common() -> None:
    """Audits vector indexes: can each chunk be found, if not why, and how redundant is the corpus."""


for command in (
    audits.run,
    audits.backfill,
    audits.prepare,
    audits.inspect,
    reports.compare,
    reports.gate,
    audits.doctor,
):
    app.command()(command)
app.add_typer(labels.label, name="label")


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


def failure(error: BaseException) -> str:
    """What ended the command, in one line: a full disk by its name, whatever library met it; else the error's own."""
    cause: BaseException | None = error
    while cause is not None:
        full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
        if full or _FULL.search(str(cause)):
            return "no room is left on a disk: make room, or choose another folder with --state, and run again"
        cause = cause.__cause__ or cause.__context__
    return f"{type(error).__name__}: {reason_of(error)}"


def main() -> None:
    """Entry point: turns the project's exceptions into exit codes and one sentence each."""
    show_progress()
    stop_on_signals()
    try:
        sys.exit(_told())
    except StoppedError:  # also one that came while the sentence on another error was made
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        print(
            "audit-pipeline: stopped before it was done, the last report stays: run the same command again to go on",
            file=sys.stderr,
        )
        sys.exit(EXIT_FAILED)


def _told() -> int:
    """Run the command, which leaves by itself; the exit code of an error that ended it, told in one sentence."""
    try:
        app()
    except AuditInputError as error:
        tell([error])
        return EXIT_INPUT
    except SelfCheckError as error:
        print(f"audit-pipeline: the audit's own check failed, nothing was published: {error}", file=sys.stderr)
    except Exception as error:
        logging.getLogger("audit_pipeline").debug("failure", exc_info=True)
        print(f"audit-pipeline: the audit failed, the last report stays: {failure(error)}", file=sys.stderr)
    else:
        return EXIT_CLEAN
    return EXIT_FAILED
