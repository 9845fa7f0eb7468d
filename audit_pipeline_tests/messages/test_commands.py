"""What the command prints for input that cannot be used: exit 2, one sentence on standard error, no report."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from audit_pipeline.cli import entry
from audit_pipeline_tests.command import Command, Printed
from audit_pipeline_tests.index.builders import foreign, unit_vectors, write
from audit_pipeline_tests.messages.attributes import GOOD, NAME

TYPE = "type: audit_pipeline.IndexAudit\nattributes:\n"
STANDS = NAME + "  encoder: {kind: none}\n  index: {uri: db, managed: false, table: doc}\n"


def missing_file(folder: Path, command: Command) -> Printed:
    return command("run", "--config", str(folder / "absent.yaml"), "--state", str(folder / "state"))


def audit(attributes: str) -> Callable[[Path, Command], Printed]:
    """A run with these attributes in a folder that holds a database with the table docs."""

    def run(folder: Path, command: Command) -> Printed:
        write(folder / "db", foreign(["a", "b"], unit_vectors(2)))
        (folder / "defs.yaml").write_text(TYPE + attributes, encoding="utf-8")
        return command("run", "--config", str(folder / "defs.yaml"), "--state", str(folder / "state"))

    return run


def locked(folder: Path, command: Command) -> Printed:
    (folder / "state").mkdir()
    with FileLock(folder / "state" / "run.lock"):
        return audit(GOOD)(folder, command)


def state_in_the_way(folder: Path, command: Command) -> Printed:
    (folder / "state").write_text("a file")
    return audit(GOOD)(folder, command)


MET = [
    (
        "no settings file",
        missing_file,
        "FOLDER/absent.yaml: the settings file cannot be read (No such file or directory): check --config",
    ),
    (
        "a mistake in the settings",
        audit(NAME + "  encoder: {kind: none}\n  index: {uri: db, managed: false, table: docs, metrik: l2}\n"),
        "FOLDER/defs.yaml: index.metrik: unknown field (did you mean 'metric'?); remove it or use one of uri, table, "
        "managed, layout, columns, …",
    ),
    (
        "a table that is not there",
        audit(STANDS),
        "index.table: no table 'doc' in FOLDER/db; did you mean 'docs'? tables are docs: "
        "correct index.table or index.uri",
    ),
    (
        "a source file that is not there",
        audit(GOOD),
        "source 'api': no jsonl file at FOLDER/api.jsonl: check the path, or the format (.jsonl, .ndjson, .json)",
    ),
    (
        "another command in the state folder",
        locked,
        "FOLDER/state: another audit-pipeline command works in this state folder: "
        "wait for it or choose another --state",
    ),
    (
        "a file in place of the state folder",
        state_in_the_way,
        "FOLDER/state: the state folder cannot be written (File exists): choose another with --state",
    ),
    (
        "inspecting a folder that is not there",
        lambda folder, command: command("inspect", str(folder / "nowhere")),
        "index.uri: there is no folder FOLDER/nowhere: name the folder that holds the LanceDB tables",
    ),
]


@pytest.mark.parametrize(("run", "sentence"), [row[1:] for row in MET], ids=[row[0] for row in MET])
def test_input_that_cannot_be_used_exits_2_with_one_sentence(
    tmp_path: Path, command: Command, run: Callable[[Path, Command], Printed], sentence: str
) -> None:
    printed = run(tmp_path, command)
    assert (printed.code, printed.out) == (2, "")
    assert "Traceback" not in printed.err
    *progress, last = printed.err.splitlines()
    expected = re.escape(sentence.replace("FOLDER", str(tmp_path))).replace(re.escape("…"), ".+")
    assert re.fullmatch(f"audit-pipeline: {expected}", last), last
    assert not any(line.startswith("audit-pipeline:") for line in progress)
    assert not (tmp_path / "state" / "reports").exists()


# What typer itself says of arguments, which this project leaves as it is.
ARGUMENTS = [
    (("run", "--confg", "x"), "No such option '--confg'. (Did you mean one of: '--config', '--json'?)"),
    (("run", "--config"), "Option '--config' requires an argument."),
    (("run", "defs.yaml"), "Got unexpected extra argument (defs.yaml)"),
    (("inspect",), "Missing argument 'URI'."),
    (("audit",), "No such command 'audit'."),
]


@pytest.mark.parametrize(("arguments", "said"), ARGUMENTS, ids=[" ".join(row[0]) for row in ARGUMENTS])
def test_unknown_and_missing_arguments_exit_2(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    printed = command(*arguments)
    assert (printed.code, printed.out) == (2, "")
    assert said in printed.err
    assert "--help" in printed.err or arguments == ("run", "--config")
    assert "Traceback" not in printed.err


def test_a_signal_that_comes_while_a_failure_is_told_makes_no_traceback(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise RuntimeError("words")

    def stopped(_: BaseException) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return "never told"

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(entry, "app", fails)
    monkeypatch.setattr(entry, "failure", stopped)
    try:
        printed = command("run")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (printed.code, printed.err) == (
        3,
        "audit-pipeline: stopped before it was done, the last report stays: run the same command again to go on\n",
    )
