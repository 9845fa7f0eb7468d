"""Settings files that are none, names that collide, state folders and reports that cannot be used."""

from __future__ import annotations

import errno
import os

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from audit_pipeline.cli.options import indexes_of
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.orchestration.home import PROCESS_TAG, locked, prepare_home
from audit_pipeline.orchestration.naming import table_pool_name
from audit_pipeline.orchestration.project import configured_indexes
from audit_pipeline.orchestration.running import at_home, run_audit
from audit_pipeline.report.gate import run_gate
from audit_pipeline.report.gate_files import write_gate
from audit_pipeline.report.loading import LoadedReport, load
from audit_pipeline.report.pairing import MEASURES
from audit_pipeline.report.saved import SavedReport, last_report, open_report
from audit_pipeline.schemas import HELD_OUT_RETRIEVAL
from audit_pipeline.settings_file import load_settings
from audit_pipeline.stages.asked_again import asked_sentences
from audit_pipeline.stages.index import vector_index
from audit_pipeline.stages.ingest import ingest_chunks, ingest_probes, pending_manifest
from audit_pipeline.stages.workspace import BatchManifest
from audit_pipeline.state import StateFolder
from audit_pipeline_tests.messages.attributes import GOOD
from audit_pipeline_tests.messages.case import Case, World, settings_file
from audit_pipeline_tests.report.gate_reports import hits, write_report
from audit_pipeline_tests.stages.builders import workspace, write_rows

TYPE = "type: audit_pipeline.IndexAudit\n"
EMPTY = (
    "FOLDER/defs.yaml: no settings are in it: write 'type: audit_pipeline.IndexAudit' and a mapping under 'attributes'"
)


def report(world: World) -> SavedReport:
    return open_report(world.write("audit.json", '{"encoder": {}, "index": {}, "findings": []}'))


def probes(*ids: str) -> pa.Table:
    columns = ["source", "ingestion_date", "length_band", "cause", *MEASURES["self"].values()]
    return pa.table({"probe_id": list(ids)} | {name: pa.nulls(len(ids)) for name in columns})


def like(world: World, table: pa.Table | bytes | None) -> None:
    report(world)
    if isinstance(table, bytes):
        world.write("tables/held_out_retrieval.parquet", table)
    elif table is not None:
        (world.folder / "tables").mkdir()
        pq.write_table(table, world.folder / "tables" / "held_out_retrieval.parquet")
    asked_sentences(str(world.folder))


def no_index_below_defs(world: World) -> None:
    world.patch.setattr("audit_pipeline.orchestration.project.configured_indexes", lambda: [])
    indexes_of(None)


def two_indexes_of_one_dagster_name(world: World) -> None:
    for folder, name in (("a", "hand-book"), ("b", "hand-book")):
        world.write(f"{folder}/defs.yaml", f"{TYPE}attributes:\n{GOOD}".replace("handbook", name))
    configured_indexes(world.folder)


def state_below_a_file(world: World) -> None:
    world.write("file", "in the way")
    prepare_home(world.folder / "file" / "state")


def state_at_work(world: World) -> None:
    with FileLock(world.folder / "run.lock"), locked(world.folder):
        raise AssertionError("two commands hold one lock")


def pool_held_by_another_host(world: World) -> None:
    """A container that was killed in the step that writes the table, and the run of the one that took its place."""
    write_rows(world.folder, [("a", "s", "2026-01-02", "text")])
    settings = workspace(world.folder).settings
    world.patch.setenv("DAGSTER_HOME", str(world.folder / "state"))
    with at_home(world.folder / "state") as instance:
        pool = table_pool_name(settings)
        tags = {PROCESS_TAG: "7:1000000000.00:container-1"}
        run = instance.add_run(dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED, tags=tags))
        instance.event_log_storage.set_concurrency_slots(pool, 1)
        instance.event_log_storage.claim_concurrency_slot(pool, run.run_id, "index_rows")
        run_audit(settings, instance)


def state_lock_cannot_be_written(world: World) -> None:
    (world.folder / "run.lock").mkdir()
    with locked(world.folder):
        raise AssertionError("a folder was taken for the lock")


def state_on_a_disk_that_is_read_only(world: World) -> None:
    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    prepare_home(world.folder)
    world.patch.setattr("audit_pipeline.orchestration.home.tempfile.TemporaryFile", refuse)
    prepare_home(world.folder)


def another_report(world: World) -> None:
    (world.folder / "reports" / "handbook").mkdir(parents=True)
    load(world.folder, "handbok")


def only_rows_without_text(world: World) -> None:
    write_rows(world.folder, [("a", "s", "2026-01-02", " ")])
    work = workspace(world.folder)
    ingest_chunks(work, "2026-01-02|s")
    work.write_manifest(pending_manifest(work, "2026-01-02|s"))
    vector_index(work)


def audit_before_any_batch(world: World) -> None:
    write_rows(world.folder, [("a", "s", "2026-01-02", "text")])
    vector_index(workspace(world.folder))


def audit_without_its_table(world: World) -> None:
    write_rows(world.folder, [("a", "s", "2026-01-02", "text")])
    work = workspace(world.folder)
    work.write_manifest(BatchManifest("2026-01-02|s", "s", "2026-01-02", 1, 0, "content", "settings", "generation"))
    vector_index(work)


def asset_before_its_inputs(world: World) -> None:
    write_rows(world.folder, [("a", "s", "2026-01-02", "text")])
    ingest_probes(workspace(world.folder), "2026-01-02|s")


def gate(world: World, *names: str, margin: float = 0.01, markdown: str | None = None) -> None:
    answered = {"before": hits(20, 0), "after": hits(20, 0), "unasked": hits(0, 0)}
    folders = [write_report(world.folder / name, own=answered[name]) for name in dict.fromkeys(names)]
    judged = run_gate(folders[0], folders[-1], margin, 0.05, False)
    write_gate(judged, world.folder / markdown if markdown else None, None)


CASES = [
    Case(
        "a pool that a run of another host holds",
        pool_held_by_another_host,
        "pool …__table: run … of host container-1, which cannot be seen from here, holds it: call this again "
        "once that run is over, or, where its process is gone, give it back with DAGSTER_HOME=FOLDER/state dagster run "
        "delete --force …",
    ),
    Case(
        "a state folder whose lock cannot be written",
        state_lock_cannot_be_written,
        "FOLDER: the state folder cannot be written (run.lock: Is a directory): choose another with --state",
    ),
    Case(
        "a state folder of before on a disk that is read-only",
        state_on_a_disk_that_is_read_only,
        "FOLDER: the state folder cannot be written (Read-only file system): choose another with --state",
    ),
    Case("no index at all", no_index_below_defs, "no index is configured below defs/: name one with --config"),
    Case(
        "a file that does not exist",
        lambda world: load_settings(world.folder / "absent.yaml"),
        "FOLDER/absent.yaml: the settings file cannot be read (No such file or directory): check --config",
    ),
    Case(
        "a folder in place of a file",
        lambda world: load_settings(world.folder),
        "FOLDER: the settings file cannot be read (Is a directory): check --config",
    ),
    Case(
        "a file in another encoding",
        settings_file(f"{TYPE}attributes: {{name: caf\xe9}}\n".encode("latin-1")),
        "FOLDER/defs.yaml: not UTF-8 text: save the settings file as UTF-8",
    ),
    Case(
        "an open bracket",
        settings_file(f"{TYPE}attributes: {{name: [}}\n"),
        "FOLDER/defs.yaml: not valid YAML in line 2: correct the syntax there",
    ),
    Case(
        "a tab",
        settings_file(f"{TYPE}attributes:\n\tname: x\n"),
        "FOLDER/defs.yaml: not valid YAML in line 3: correct the syntax there",
    ),
    Case(
        "no such day",
        settings_file(f"{TYPE}attributes:\n{GOOD}  start_date: 2026-13-01\n"),
        "FOLDER/defs.yaml: a date in it is none (month must be in 1..12): correct it",
    ),
    Case(
        "another type",
        settings_file("type: audit_pipeline.Index\nattributes: {name: x}\n"),
        "FOLDER/defs.yaml: type is 'audit_pipeline.Index': write 'audit_pipeline.IndexAudit'",
    ),
    Case(
        "no type",
        settings_file("attributes: {name: x}\n"),
        "FOLDER/defs.yaml: type is None: write 'audit_pipeline.IndexAudit'",
    ),
    Case("no attributes", settings_file(TYPE), EMPTY),
    Case("a list of attributes", settings_file(f"{TYPE}attributes: [a]\n"), EMPTY),
    Case("no mapping", settings_file("just words\n"), EMPTY),
    Case("an empty file", settings_file(""), EMPTY),
    Case(
        "two indexes of one name",
        two_indexes_of_one_dagster_name,
        "FOLDER/b/defs.yaml: index name 'hand-book' collides with 'hand-book' of FOLDER/a/defs.yaml "
        "(in Dagster's names '-' and '_' are one): rename one of them",
    ),
    Case(
        "a state folder that cannot be made",
        state_below_a_file,
        "FOLDER/file/state: the state folder cannot be written (Not a directory): choose another with --state",
    ),
    Case(
        "a state folder at work",
        state_at_work,
        "FOLDER: another audit-pipeline command works in this state folder: wait for it or choose another --state",
    ),
    Case(
        "a report that is not there yet",
        lambda world: load(world.folder, "handbook"),
        "FOLDER/reports: no report of 'handbook': run audit-pipeline first",
    ),
    Case(
        "a report of another name",
        another_report,
        "FOLDER/reports: no report of 'handbok': name one of handbook",
    ),
    Case(
        "a table that no report has",
        lambda world: LoadedReport(StateFolder(world.folder, "handbook"), {}).table("chunks"),
        "FOLDER/reports/handbook: no table 'chunks' in it: use one of self_retrieval, …",
    ),
    *(
        Case(
            f"a partition key typed by hand: {key}",
            lambda world, key=key: parse_batch_key(key),
            f"{key!r} is no batch key: write the day and the source's slug as '2026-01-02|handbook'",
        )
        for key in ("2026-01-02", "2026-13-02|a", "a|2026-01-02", "2026-01-02|Hand Book", "2026-01-02|")
    ),
    Case(
        "sources without a usable row",
        only_rows_without_text,
        "small: the sources hold no usable row: check their uri, columns and dates",
    ),
    Case(
        "an audit before any batch came in",
        audit_before_any_batch,
        "small: no batch has been brought in yet, so there is no table to audit: run audit-pipeline run, or backfill "
        "of one source",
    ),
    Case(
        "an audit of a table that is gone",
        audit_without_its_table,
        "small: the table is gone that had its batches: run audit-pipeline run, which makes it anew",
    ),
    Case(
        "a batch's asset before its chunks",
        asset_before_its_inputs,
        "small: batch 2026-01-02|s has no chunks yet: materialise 'chunks' first",
    ),
    Case(
        "a corpus-wide asset before its inputs",
        lambda world: workspace(world.folder).summary("role_fingerprint"),
        "small: stage 'role_fingerprint' has no result yet: materialise it first",
    ),
    Case(
        "a folder without a report",
        lambda world: open_report(world.folder),
        "FOLDER: there is no audit.json: name the folder of a report, such as .audit/reports/NAME",
    ),
    Case(
        "an audit.json that is cut",
        lambda world: open_report(world.write("audit.json", "{")),
        "FOLDER/audit.json: not valid JSON (…): run the audit again",
    ),
    Case(
        "an audit.json of something else",
        lambda world: open_report(world.write("audit.json", "{}")),
        "FOLDER/audit.json: this is no audit of audit_pipeline: name the folder of a report",
    ),
    Case(
        "a report whose table is cut",
        lambda world: (world.write("tables/self_retrieval.parquet", "PAR1"), report(world).table("self")),
        "FOLDER/tables/self_retrieval.parquet: this table cannot be read: run the audit again, or use a whole copy",
    ),
    Case(
        "a report whose table has a probe twice",
        lambda world: (
            (world.folder / "tables").mkdir()
            or pq.write_table(probes("self:a", "self:a"), world.folder / "tables" / "self_retrieval.parquet")
            or report(world).table("self")
        ),
        "FOLDER/tables/self_retrieval.parquet: 'self:a' stands on two rows: run the audit again, or use a whole copy",
    ),
    Case(
        "a report whose list of chunks is cut",
        lambda world: (world.write("beir/self/corpus.jsonl", '{"_id": "a"}\n{"_i'), report(world).chunk_ids()),
        "FOLDER/beir/self/corpus.jsonl: this file cannot be read: run the audit again, or use a whole copy",
    ),
    Case(
        "a report of a table without the columns of today",
        lambda world: (
            (world.folder / "tables").mkdir()
            or pq.write_table(pa.table({"x": [1]}), world.folder / "tables" / "self_retrieval.parquet")
            or report(world).table("self")
        ),
        "FOLDER/tables/self_retrieval.parquet: no column '…': run the audit again with this version",
    ),
    Case(
        "another audit's questions from a folder that is no report",
        lambda world: asked_sentences(str(world.folder / "before")),
        "sample.like: FOLDER/before: there is no audit.json: name the folder of a report, such as .audit/reports/NAME",
    ),
    Case(
        "another audit's questions from a report without its tables",
        lambda world: like(world, None),
        "sample.like: FOLDER/tables/held_out_retrieval.parquet: this table is missing or cannot be read: name the "
        "whole folder of a report",
    ),
    Case(
        "another audit's questions from a table that is cut",
        lambda world: like(world, b"PAR1"),
        "sample.like: FOLDER/tables/held_out_retrieval.parquet: this table is missing or cannot be read: name the "
        "whole folder of a report",
    ),
    Case(
        "another audit's questions from a report of before they were named",
        lambda world: like(
            world, HELD_OUT_RETRIEVAL.remove(HELD_OUT_RETRIEVAL.get_field_index("held_sha256")).empty_table()
        ),
        "sample.like: FOLDER/tables/held_out_retrieval.parquet: no column 'held_sha256': run that audit again with "
        "this version, then this one",
    ),
    Case(
        "another audit's questions where none were asked",
        lambda world: like(world, HELD_OUT_RETRIEVAL.empty_table()),
        "sample.like: FOLDER: no sentence was held out in that audit: name another report, or remove the field",
    ),
    Case(
        "a report without its tables",
        lambda world: report(world).table("self"),
        "FOLDER/tables/self_retrieval.parquet: this table of the report is missing: use the whole folder of a report",
    ),
    Case(
        "a gate with a baseline by another file's name",
        lambda world: open_report(world.write("main.json", "{}")),
        "FOLDER/main.json: a report is its whole folder, whose tables are read: name the folder, or the audit.json "
        "in it",
    ),
    Case(
        "a gate of a report against itself",
        lambda world: gate(world, "before"),
        "FOLDER/before: baseline and candidate are one report: keep a copy of its folder before the change, and name "
        "that with --baseline",
    ),
    Case(
        "a gate without a margin",
        lambda world: gate(world, "before", "after", margin=0.0),
        "--margin: 0.0 is no share between 0 and 1: write 0.01 for one question in a hundred, say, and not 0 or 1",
    ),
    Case(
        "a gate of audits that asked nothing in common",
        lambda world: gate(world, "before", "unasked"),
        "FOLDER/before and FOLDER/unasked: no question was asked by both audits (self: the second audit asked no such "
        "question): name two audits of one corpus with an encoder",
    ),
    Case(
        "a gate whose comment cannot be written",
        lambda world: gate(world, "before", "after", markdown="before/audit.json/gate.md"),
        "--markdown: FOLDER/before/audit.json/gate.md cannot be written (File exists): name another file",
    ),
    Case(
        "a gate before the audit has run",
        lambda world: last_report(world.folder / "state", write_report(world.folder / "before", own=hits(1, 0))),
        "FOLDER/state: no report of 'handbook', which FOLDER/before is of: run the audit first, or name a report with "
        "--candidate",
    ),
]
