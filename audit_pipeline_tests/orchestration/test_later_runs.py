"""Runs after the first one: nothing new, a changed text, an emptied batch, a batch that fails, a process that dies."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import lancedb
import numpy as np
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.encoder.segments import open_segments
from audit_pipeline.encoder.vector_store import VectorStore, text_keys
from audit_pipeline.errors import AuditInputError, SelfCheckError
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.naming import ingest_job_name
from audit_pipeline.orchestration.running import execute
from audit_pipeline.report.loading import load
from audit_pipeline.stages import duplicates, ingest
from audit_pipeline_tests.orchestration.test_both_jobs import metadata_of
from audit_pipeline_tests.small_audit import (
    CELLS,
    COPIED_CELL,
    COPY,
    PER_CELL,
    PREFIX,
    ROWS,
    SmallAudit,
    assert_table_equals,
    cli_environment,
    rows_of_corpus,
)


def contents(folder: Path) -> dict[str, str]:
    """Relative path -> hash of the bytes, of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def stored_keys(audit: SmallAudit, encoder: Encoder) -> set[bytes]:
    """The keys of all encodings that the state folder keeps."""
    folder = VectorStore(audit.state / "vectors").folder_of(encoder.identity)
    return {key.tobytes() for segment in open_segments(folder, encoder.identity.dimension) for key in segment.keys}


def test_a_batch_that_is_run_again_finds_the_same_rows_and_encodes_nothing(changeable: SmallAudit) -> None:
    before, version = changeable.table(), changeable.table_version()
    with changeable.instance() as instance:
        settings = changeable.settings
        finished = execute(build_defs(settings), ingest_job_name(settings), instance, partition_key=COPIED_CELL)
        assert finished.success
        vectors = metadata_of(instance, "passage_vectors", COPIED_CELL)
        rows = metadata_of(instance, "index_rows", COPIED_CELL)
    assert (vectors["texts"], vectors["encoded"], vectors["from_cache"]) == (PER_CELL + 1, 0, PER_CELL + 1)
    assert (rows["table_inserted"], rows["table_updated"], rows["table_deleted"]) == (0, 0, 0)
    assert changeable.table_version() == version
    after = changeable.table()
    assert after.drop(columns="vector").equals(before.drop(columns="vector"))
    assert np.array_equal(np.stack(after["vector"]), np.stack(before["vector"]))


def test_a_second_run_with_nothing_changed_ingests_and_encodes_nothing_and_finds_the_same(
    changeable: SmallAudit,
) -> None:
    before, tables, version = changeable.audit(), contents(changeable.report / "tables"), changeable.table_version()
    outcome = changeable.run()
    assert outcome.changes == []
    assert outcome.audit["encoded"]["texts"] == 0
    assert outcome.audit["encoded"]["tokens"] == 0
    assert changeable.table_version() == version
    for section in ("self_retrieval", "held_out", "causes", "misses", "duplicates", "verdict", "findings", "roles"):
        assert outcome.audit[section] == before[section], section
    assert contents(changeable.report / "tables") == tables


def test_a_changed_text_is_the_only_one_encoded_again(changeable: SmallAudit, encoder: Encoder) -> None:
    rows = rows_of_corpus()
    changed = next(row for row in rows if row["chunk_id"] == "beta-1-07")
    changed["text"] = "Parchment kept in a dry cellar stays legible."
    before, known = changeable.table(), stored_keys(changeable, encoder)
    changeable.write_corpus(rows)
    outcome = changeable.run()
    assert [(change.key, change.reason) for change in outcome.changes] == [("2024-01-02|beta", "changed")]
    with changeable.instance() as instance:
        vectors = metadata_of(instance, "passage_vectors", "2024-01-02|beta")
        table = metadata_of(instance, "index_rows", "2024-01-02|beta")
    assert (vectors["texts"], vectors["encoded"], vectors["from_cache"]) == (PER_CELL, 1, PER_CELL - 1)
    assert (table["table_inserted"], table["table_updated"], table["table_deleted"]) == (0, 1, 0)
    assert_table_equals(changeable, rows)
    after = changeable.table()
    fresh = encoder.encode([changed["text"]])[0]
    assert np.stack(after.loc[["beta-1-07"], "vector"])[0] == pytest.approx(fresh, abs=1e-6)
    others = after.index.drop("beta-1-07")
    assert np.array_equal(np.stack(after.loc[others, "vector"]), np.stack(before.loc[others, "vector"]))
    # The audit may encode the new text under other prompts as well, to tell them apart, but no other text.
    prompts = {"", *(arm["prompt"] for arm in outcome.audit["encoder"]["calibration"]["arms"])}
    expected = {text_keys([changed["text"]], prompt).tobytes() for prompt in prompts}
    new = stored_keys(changeable, encoder) - known
    assert text_keys([changed["text"]], "").tobytes() in new
    assert new <= expected
    assert outcome.audit["encoded"]["texts"] == len(new)


def test_an_emptied_batch_loses_its_rows_and_the_others_keep_theirs(changeable: SmallAudit) -> None:
    rows = [row for row in rows_of_corpus() if (row["source"], row["ingestion_date"]) != ("Alpha", "2024-01-02")]
    changeable.write_corpus(rows)
    for file in (changeable.folder / "corpus" / "alpha").glob("2024-01-02*"):
        file.unlink()  # the rejected rows of the day go as well
    outcome = changeable.run()
    assert [(change.key, change.reason, change.rows) for change in outcome.changes] == [(CELLS[0], "emptied", 0)]
    with changeable.instance() as instance:
        table = metadata_of(instance, "index_rows", CELLS[0])
    assert (table["table_inserted"], table["table_updated"], table["table_deleted"]) == (0, 0, PER_CELL)
    assert_table_equals(changeable, rows)
    audit = outcome.audit
    counts = {"chunks": ROWS - PER_CELL, "batches": 3, "sources": 2}
    assert audit["corpus"] == counts
    assert audit["encoded"]["texts"] == 0
    # The copy has lost its original: nothing is redundant, and it is first for its own text.
    assert audit["duplicates"]["exact"] == {"groups": 0, "redundant_rows": 0, "implied_pairs": 0}
    assert audit["self_retrieval"]["self@1"]["value"] == 1.0
    assert changeable.run().changes == []  # an empty batch is up to date


def test_a_copy_whose_text_was_changed_in_the_table_is_a_copy_no_more(changeable: SmallAudit) -> None:
    changed = (
        "Only this row says so: of all that the table holds, nobody else has a word about the ferry's last crossing."
    )
    uri = str(changeable.state / "index" / f"{changeable.settings.name}.lance")
    lancedb.connect(uri).open_table("chunks").update(where=f"chunk_id = '{COPY}'", values={"text": changed})
    audit = changeable.run().audit
    assert "text_drift" in {finding["code"] for finding in audit["findings"]}
    assert audit["duplicates"]["exact"] == {"groups": 0, "redundant_rows": 0, "implied_pairs": 0}
    clusters = load(changeable.state, changeable.settings.name).duplicate_clusters
    assert COPY not in clusters.loc[clusters["action"] == "drop", "chunk_id"].tolist()


def test_a_source_file_that_cannot_be_read_leaves_report_and_table(changeable: SmallAudit) -> None:
    report, version = contents(changeable.report), changeable.table_version()
    damaged = changeable.folder / "corpus" / "alpha" / "2024-01-05.parquet"
    damaged.write_bytes(b"PAR1 this is no table")
    with pytest.raises(AuditInputError, match=r"2024-01-05\.parquet"):
        changeable.run()
    assert contents(changeable.report) == report
    assert changeable.table_version() == version


def test_a_batch_that_fails_leaves_the_last_report_and_is_made_by_the_next_run(
    changeable: SmallAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of_corpus()
    next(row for row in rows if row["chunk_id"] == "beta-2-03")["text"] = "A lighthouse keeper counts the ships."
    changeable.write_corpus(rows)
    report = contents(changeable.report)
    with monkeypatch.context() as patch:
        patch.setattr(ingest, "ingest_signatures", failing(RuntimeError("the disk is full")))
        with pytest.raises(Exception, match="disk is full"):
            changeable.run()
    assert contents(changeable.report) == report
    outcome = changeable.run()
    assert [change.key for change in outcome.changes] == [COPIED_CELL]
    assert_table_equals(changeable, rows)


def test_a_failed_self_check_is_raised_as_such_and_publishes_nothing(
    changeable: SmallAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = contents(changeable.report)
    monkeypatch.setattr(duplicates, "check_lanes", failing(SelfCheckError("the exact lane lost a planted copy")))
    with pytest.raises(SelfCheckError, match="lost a planted copy"):
        changeable.run()
    assert contents(changeable.report) == report


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


KILLED = """\
import os, signal
from audit_pipeline.index import managed
replace, calls = managed.replace_batch, []
def replace_and_die(*arguments, **options):
    calls.append(1)
    if len(calls) == 2 and {when!r} == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    report = replace(*arguments, **options)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return report
managed.replace_batch = replace_and_die
import sys
sys.argv = ["audit-pipeline", "run", "--config", {config!r}, "--state", {state!r}]
from audit_pipeline.cli import main
main()
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_is_killed_around_the_commit_of_a_batch_does_not_block_the_next(
    changeable: SmallAudit, when: str
) -> None:
    rows = rows_of_corpus()
    for chunk_id, text in (("Alpha-2-04", "Salt is mined below the hill."), ("beta-1-02", "Foxes den in the quarry.")):
        next(row for row in rows if row["chunk_id"] == chunk_id)["text"] = text
    changeable.write_corpus(rows)
    report = contents(changeable.report)
    code = KILLED.format(when=when, config=str(changeable.config), state=str(changeable.state))
    killed = subprocess.run([sys.executable, "-c", code], env=cli_environment(), capture_output=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    assert contents(changeable.report) == report
    with changeable.instance() as instance:
        unfinished = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        assert len(unfinished) == 1
    outcome = changeable.run()
    assert [change.key for change in outcome.changes] == ["2024-01-05|alpha"]  # the first batch was finished
    assert_table_equals(changeable, rows)
    assert outcome.audit["corpus"]["chunks"] == ROWS
    with changeable.instance() as instance:
        ended = instance.get_run_by_id(unfinished[0].run_id)
        assert ended is not None
        assert ended.status == dg.DagsterRunStatus.FAILURE
        assert instance.event_log_storage.get_concurrency_info(f"{PREFIX}__table").active_slot_count == 0


STOPPED = """\
import os, signal, sys
from audit_pipeline.index import managed
from audit_pipeline.orchestration import running
module, name = {{"step": (managed, "replace_batch"), "plan": (running, "batches_to_bring_in")}}[{where!r}]
usual = getattr(module, name)
def stopped(*arguments, **options):
    os.kill(os.getpid(), getattr(signal, {sent!r}))
    return usual(*arguments, **options)
setattr(module, name, stopped)
sys.argv = ["audit-pipeline", "run", "--config", {config!r}, "--state", {state!r}]
from audit_pipeline.cli import main
main()
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("sent", "where"), [("SIGTERM", "step"), ("SIGINT", "plan")])
def test_a_run_that_a_signal_stops_says_so_in_one_sentence_and_keeps_the_last_report(
    changeable: SmallAudit, sent: str, where: str
) -> None:
    rows = rows_of_corpus()
    next(row for row in rows if row["chunk_id"] == "Alpha-2-04")["text"] = "Salt is mined below the hill."
    changeable.write_corpus(rows)
    report, table = contents(changeable.report), changeable.table_version()
    code = STOPPED.format(where=where, sent=sent, config=str(changeable.config), state=str(changeable.state))
    ended = subprocess.run(
        [sys.executable, "-c", code], env=cli_environment(), capture_output=True, text=True, timeout=60
    )
    told = [line for line in ended.stderr.splitlines() if line.startswith("audit-pipeline:")]
    assert told == [
        "audit-pipeline: stopped before it was done, the last report stays: run the same command again to go on"
    ]
    assert "Traceback" not in ended.stderr
    assert (ended.returncode, ended.stdout) == (3, "")  # 1 would say that there is an error finding
    assert (contents(changeable.report), changeable.table_version()) == (report, table)
    with changeable.instance() as instance:
        assert instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])) == []
    assert [change.key for change in changeable.run().changes] == ["2024-01-05|alpha"]
    assert_table_equals(changeable, rows)
