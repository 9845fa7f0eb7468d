"""What a second ingestion path spoils, through Dagster's jobs: named, placed, and shown on the partitions it is in."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.models import Encoder
from audit_pipeline.errors import AuditInputError, BatchInputError
from audit_pipeline.orchestration import running, workspaces
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.home import prepare_home
from audit_pipeline.orchestration.naming import audit_job_name
from audit_pipeline.orchestration.running import Backfilled, backfill_plan, execute, run_audit, run_backfill
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.grid import first_day
from audit_pipeline.stages.remedies import HEALED
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import StateFolder
from audit_pipeline_tests.command import Command
from audit_pipeline_tests.encoder import planted
from audit_pipeline_tests.faults import texts as spoil_text
from audit_pipeline_tests.faults import vectors as spoil_vector
from audit_pipeline_tests.faults.index import PASSAGE, QUERY, Batch, Encoders, clean_index

DAY, LATER = "2026-01-02", "2026-01-03"
SMALL_SAMPLE = {"arms": 0, "ann_sweep": 0, "total": 200}


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))
    prepare_home(tmp_path / "state")
    workspaces._WORKSPACES.clear()
    with dg.DagsterInstance.get() as kept:
        yield kept
    workspaces._WORKSPACES.clear()


def managed(folder: Path, encoder: Encoder, **more: Any) -> IndexAuditSettings:
    attributes = {
        "name": "managed",
        "sources": [{"name": "docs", "uri": "docs.jsonl", "format": "jsonl"}],
        "encoder": {"model": str(encoder.files.folder)},
        "sample": SMALL_SAMPLE,
    }
    workspaces._WORKSPACES.clear()  # each run is a process of its own
    return parse_settings(attributes | more, "test", folder)


def write(folder: Path, rows: dict[str, tuple[str, str | None]], name: str = "docs") -> None:
    """id -> (day, text) as the whole of one source's file."""
    lines = [json.dumps({"chunk_id": i, "ingestion_date": day, "text": text}) for i, (day, text) in rows.items()]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(folder: Path, name: str = "managed") -> dict[str, str]:
    rows = lancedb.connect(str(folder / "state" / "index" / f"{name}.lance")).open_table("chunks").to_arrow()
    return dict(zip(rows["chunk_id"].to_pylist(), rows["text"].to_pylist(), strict=True))


def passed(instance: dg.DagsterInstance, index: str, asset: str, check: str) -> dict[str | None, bool]:
    """Partition -> whether the check passed when it last ran there."""
    key = dg.AssetCheckKey(dg.AssetKey([index, asset]), check)
    history = instance.event_log_storage.get_asset_check_execution_history(key, limit=1000)
    return {record.partition: record.status.value == "SUCCEEDED" for record in reversed(history)}


def told(audit: dict[str, Any], *severities: str) -> list[tuple[str, dict[str, Any]]]:
    return [(one["code"], one["scope"]) for one in audit["findings"] if one["severity"] in severities]


# A managed index


def test_a_page_that_shrank_blank_rows_and_an_id_in_use_are_followed_rejected_and_missed(
    tmp_path: Path, fast_encoder: Encoder, instance: dg.DagsterInstance
) -> None:
    texts = planted.docstrings("rich", 30)
    page = {f"p{n}": (DAY, texts[n]) for n in range(5)}
    others = {f"o{n}": (LATER, texts[n]) for n in range(5, 30)}
    write(tmp_path, page | others)
    settings = managed(tmp_path, fast_encoder)
    assert run_backfill(settings, backfill_plan(settings, "docs", None), instance) == Backfilled()
    assert table(tmp_path) == {i: text for i, (_, text) in (page | others).items()}

    shrunk = {i: page[i] for i in ("p0", "p1", "p2")}
    write(tmp_path, shrunk | others | {"blank": (LATER, "   "), "none": (LATER, "")})
    write(tmp_path, {"o7": ("2026-01-04", "A later document that came with an id in use.")}, "late")
    sources = [{"name": name, "uri": f"{name}.jsonl", "format": "jsonl"} for name in ("docs", "late")]
    settings = managed(tmp_path, fast_encoder, sources=sources)
    outcome = run_audit(settings, instance)

    assert [(one.key, one.reason) for one in outcome.changes] == [
        (f"{DAY}|docs", "changed"),
        (f"{LATER}|docs", "changed"),
        ("2026-01-04|late", "new"),
    ]
    assert table(tmp_path) == {i: text for i, (_, text) in (shrunk | others).items()}
    assert told(outcome.audit, "error") == [("missing_rows", {"source": "late", "ingestion_date": "2026-01-04"})]
    assert ("empty_text", {"ingestion_date": LATER}) in [
        (code, {"ingestion_date": scope.get("ingestion_date")}) for code, scope in told(outcome.audit, "warning")
    ]
    assert passed(instance, "managed", "chunks", "no_rows_rejected") == {
        f"{DAY}|docs": True,
        f"{LATER}|docs": False,
        "2026-01-04|late": False,
    }
    assert passed(instance, "managed", "batch_integrity", "table_holds_batch") == {
        f"{DAY}|docs": True,
        f"{LATER}|docs": True,
        "2026-01-04|late": False,
    }
    assert passed(instance, "managed", "corpus_integrity", "covers_all_batches") == {None: True}
    assert passed(instance, "managed", "corpus_integrity", "no_failed_batches") == {None: False}
    rejected = Workspace(settings, tmp_path / "state").rejected().to_pylist()
    assert sorted((row["chunk_id"], row["reason"]) for row in rejected) == [
        ("blank", "empty_text"),
        ("none", "empty_text"),
        ("o7", "id_collision"),
    ]


def test_a_batch_whose_text_column_vanished_is_left_out_before_it_empties_the_table_and_the_others_go_on(
    tmp_path: Path, fast_encoder: Encoder, command: Command, instance: dg.DagsterInstance
) -> None:
    config = tmp_path / "defs.yaml"
    config.write_text(
        "type: audit_pipeline.IndexAudit\nattributes:\n  name: managed\n"
        "  sources: [{name: docs, uri: docs.jsonl, format: jsonl}]\n"
        f"  encoder: {{model: {fast_encoder.files.folder}}}\n  sample: {json.dumps(SMALL_SAMPLE)}\n",
        encoding="utf-8",
    )
    texts = planted.docstrings("rich", 6)
    rows = {f"d{n}": (DAY if n < 3 else LATER, text) for n, text in enumerate(texts)}
    write(tmp_path, rows)
    settings = managed(tmp_path, fast_encoder)
    run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    before = table(tmp_path)
    arrived = {"d6": (LATER, "A row that arrives beside the broken batch.")}
    write(tmp_path, {i: (day, None if day == DAY else text) for i, (day, text) in rows.items()} | arrived)
    why = (
        f"audit-pipeline: batch {DAY}|docs: none of its 3 rows can be used any more (3 missing_text), so the 3 rows "
        "that the table has of it stay as they were: correct the rows in the source store (was a column renamed?), or "
        "delete them there"
    )
    where = ("--config", str(config), "--state", str(tmp_path / "state"))
    printed = command("run", *where)
    assert (printed.code, printed.err.splitlines()[-1]) == (2, why)
    assert printed.err.count("audit-pipeline: ") == 1
    assert printed.out.splitlines()[-1] == "exit 2: 1 batch could not be brought in, see below"
    assert table(tmp_path) == before | {"d6": arrived["d6"][1]}  # the batch after it came in
    assert passed(instance, "managed", "chunks", "batch_keeps_rows") == {f"{DAY}|docs": False, f"{LATER}|docs": True}
    assert passed(instance, "managed", "corpus_integrity", "no_failed_batches") == {None: False}
    audit = json.loads((tmp_path / "state" / "reports" / "managed" / "audit.json").read_text(encoding="utf-8"))
    assert (
        "Not measured: 1 batch whose last ingest had not finished, which the table has as before: 2026-01-02|docs."
        in [finding["message"] for finding in audit["findings"]]
    )
    printed = command("backfill", "--source", "docs", *where)
    assert (printed.code, printed.err.splitlines()[-1]) == (2, why)
    assert printed.out.splitlines()[-1] == "managed: 0 batches brought in; 1 left out, see below"
    write(tmp_path, rows | arrived)  # as the table has it, and red until a run passes
    settings = managed(tmp_path, fast_encoder)
    changes = backfill_plan(settings, "docs", None)
    assert [(one.key, one.reason, one.rows) for one in changes] == [(f"{DAY}|docs", "restored", 3)]
    assert run_backfill(settings, changes, instance) == Backfilled()
    assert passed(instance, "managed", "chunks", "batch_keeps_rows") == {f"{DAY}|docs": True, f"{LATER}|docs": True}
    assert backfill_plan(managed(tmp_path, fast_encoder), "docs", None) == []
    write(tmp_path, {i: row for i, row in rows.items() if row[0] == LATER})  # really emptied: that is followed
    settings = managed(tmp_path, fast_encoder)
    assert run_backfill(settings, backfill_plan(settings, "docs", None), instance) == Backfilled()
    assert set(table(tmp_path)) == {"d3", "d4", "d5"}


def test_a_batch_whose_rows_move_to_one_that_is_left_out_is_left_out_too(
    tmp_path: Path, fast_encoder: Encoder, instance: dg.DagsterInstance
) -> None:
    texts = planted.docstrings("rich", 6)
    rows = {f"d{n}": (DAY if n < 3 else LATER, text) for n, text in enumerate(texts)}
    write(tmp_path, rows)
    settings = managed(tmp_path, fast_encoder)
    run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    moved = rows | {"d0": (LATER, texts[0]), "d1": ("2026-01-20", texts[1])}
    write(tmp_path, moved | {"d5": ("no day", texts[5])})  # the guard holds the batch that d5 would go from
    settings = managed(tmp_path, fast_encoder)
    done = run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    assert list(done.left_out) == [f"{LATER}|docs", f"{DAY}|docs"]
    assert f"rows of it now stand in batch {LATER}|docs" in str(done.left_out[f"{DAY}|docs"])
    assert table(tmp_path) == {i: text for i, (_, text) in rows.items()}
    write(tmp_path, moved)
    settings = managed(tmp_path, fast_encoder)
    assert run_backfill(settings, backfill_plan(settings, "docs", None), instance) == Backfilled()
    assert table(tmp_path) == {i: text for i, (_, text) in moved.items()}


def test_a_start_date_set_later_empties_what_is_before_it_and_shortens_the_grid(
    tmp_path: Path, fast_encoder: Encoder, instance: dg.DagsterInstance
) -> None:
    texts = planted.docstrings("rich", 4)
    write(tmp_path, {"d0": (DAY, texts[0]), "d1": (LATER, texts[1]), "d2": (LATER, texts[2])})
    settings = managed(tmp_path, fast_encoder)
    run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    state = StateFolder(tmp_path / "state", "managed")
    settings = managed(tmp_path, fast_encoder, start_date=LATER)
    assert first_day(settings, state) == dt.date.fromisoformat(DAY)
    changes = backfill_plan(settings, "docs", None)
    assert [(one.key, one.reason) for one in changes] == [(f"{DAY}|docs", "emptied")]
    assert run_backfill(settings, changes, instance) == Backfilled()
    assert set(table(tmp_path)) == {"d1", "d2"}
    assert backfill_plan(managed(tmp_path, fast_encoder, start_date=LATER), "docs", None) == []
    assert first_day(settings, state) == dt.date.fromisoformat(LATER)


def test_a_finer_grain_brings_the_old_cells_up_to_date_with_the_new(
    tmp_path: Path, fast_encoder: Encoder, instance: dg.DagsterInstance
) -> None:
    texts = planted.docstrings("rich", 3)
    write(tmp_path, {"d0": (DAY, texts[0]), "d1": (LATER, texts[1]), "d2": ("2026-02-01", texts[2])})
    settings = managed(tmp_path, fast_encoder, ingestion_grain="month")
    run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    settings = managed(tmp_path, fast_encoder)
    changes = backfill_plan(settings, "docs", None)
    assert [(one.key[:10], one.reason) for one in changes] == [("2026-01-01", "emptied"), (DAY, "new"), (LATER, "new")]
    assert run_backfill(settings, changes, instance) == Backfilled()
    workspace = Workspace(settings, tmp_path / "state")
    assert sorted(workspace.population()["chunk_id"].to_pylist()) == sorted(table(tmp_path)) == ["d0", "d1", "d2"]
    with pytest.raises(AuditInputError, match="can be no month"):
        backfill_plan(managed(tmp_path, fast_encoder, ingestion_grain="month"), "docs", None)


@pytest.mark.parametrize("broken", [0.0, np.nan])
def test_vectors_that_no_search_finds_are_stopped_before_they_are_written(
    tmp_path: Path,
    fast_encoder: Encoder,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    broken: float,
) -> None:
    write(tmp_path, {f"d{n}": (DAY, text) for n, text in enumerate(planted.docstrings("rich", 3))})
    settings = managed(tmp_path, fast_encoder)
    workspace = workspaces.workspace_for(settings)
    encode = type(workspace.encoder).encode
    monkeypatch.setattr(type(workspace.encoder), "encode", lambda *given, **more: encode(*given, **more) * broken)
    found = run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    assert list(found.left_out) == [f"{DAY}|docs"]
    assert "check encoder.model" in str(found.left_out[f"{DAY}|docs"])
    assert not (tmp_path / "state" / "index").exists()
    assert passed(instance, "managed", "passage_vectors", "vectors_can_be_written") == {f"{DAY}|docs": False}


def test_what_concerns_one_batch_leaves_it_out_and_what_would_meet_every_batch_ends_the_command_at_once(
    tmp_path: Path, fast_encoder: Encoder, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = (DAY, LATER, "2026-01-04")
    write(tmp_path, {f"d{n}": (day, f"a text of {day}") for n, day in enumerate(days)})
    settings = managed(tmp_path, fast_encoder)
    asked = []

    def refuse(*_: object, partition_key: str, **__: object) -> None:
        asked.append(partition_key)
        raise errors.pop(0)

    monkeypatch.setattr(running, "execute", refuse)
    errors = [BatchInputError("one"), BatchInputError("two"), BatchInputError("three")]
    found = run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    assert {key: str(error) for key, error in found.left_out.items()} == {
        f"{DAY}|docs": "one",
        f"{LATER}|docs": "two",
        "2026-01-04|docs": "three",
    }
    asked.clear()
    errors = [BatchInputError("one"), AuditInputError("encoder.model: it cannot be loaded"), BatchInputError("three")]
    with pytest.raises(AuditInputError, match="cannot be loaded"):
        run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    assert asked == [f"{DAY}|docs", f"{LATER}|docs"]


# The backfill command


def test_the_command_lists_then_brings_in_one_source_from_a_day_on(
    tmp_path: Path, fast_encoder: Encoder, command: Command
) -> None:
    texts = planted.docstrings("rich", 6)
    for name, part in (("docs", texts[:3]), ("late", texts[3:])):
        days = (DAY, LATER, "2026-01-05")
        write(tmp_path, {f"{name}{n}": (days[n], text) for n, text in enumerate(part)}, name)
    config, state = tmp_path / "defs.yaml", tmp_path / "state"
    config.write_text(
        "type: audit_pipeline.IndexAudit\nattributes:\n  name: managed\n  sources:\n"
        "    - {name: docs, uri: docs.jsonl, format: jsonl}\n    - {name: late, uri: late.jsonl, format: jsonl}\n"
        f"  encoder: {{model: {fast_encoder.files.folder}}}\n",
        encoding="utf-8",
    )

    def backfill(*more: str) -> tuple[int, list[str]]:
        printed = command("backfill", "--config", str(config), "--state", str(state), "--source", "late", *more)
        return printed.code, printed.out.splitlines()

    listed = [f"  {LATER}|late (new, 1 row)", "  2026-01-05|late (new, 1 row)"]
    assert backfill("--since", LATER, "--dry-run") == (
        0,
        ["managed: 2 batches of late to bring up to date", *listed],
    )
    assert not (state / "index").exists()
    done = ["managed: 2 batches of late to bring up to date", "managed: 2 batches brought in"]
    assert backfill("--since", LATER) == (0, done)
    assert set(table(tmp_path)) == {"late1", "late2"}
    up_to_date = [f"managed: nothing to do: the 2 batches of late from {LATER} on are up to date"]
    assert backfill("--since", LATER) == (0, up_to_date)
    nothing = ["managed: nothing to do: the source store has no batch of late from 2027-01-01 on"]
    assert backfill("--since", "2027-01-01", "--again") == (0, nothing)
    write(tmp_path, {"docs0": (DAY, texts[0]), "late0": (DAY, "an id in use")})  # now of docs, which comes first
    faulty = [
        "managed: 1 batch of late to bring up to date",
        f"  {DAY}|late: 1 missing_rows",
        "managed: 1 batch brought in, 1 of them not in the table as in the source store",
    ]
    assert backfill() == (1, faulty)
    (tmp_path / "docs.jsonl").write_text("{broken\n", encoding="utf-8")  # another source's fault
    assert backfill()[0] == 0
    (tmp_path / "late.jsonl").write_text("{broken\n", encoding="utf-8")
    assert backfill()[0] == 2


# An index as it stands


def test_defects_of_second_paths_in_a_table_of_others_are_placed_and_new_rows_are_seen(
    tmp_path: Path, encoder: Encoder, fast_encoder: Encoder, instance: dg.DagsterInstance
) -> None:
    texts = sorted({*planted.docstrings("rich", 300), *planted.docstrings("lancedb", 300)})
    texts = [texts[place] for place in np.random.default_rng(0).permutation(len(texts))]
    encoders = Encoders(fast_encoder, encoder, tmp_path / "state" / "vectors")
    index, late = clean_index(texts[:480], 14, encoders, days=5)
    sources, days = index.rows["source"].to_pylist(), index.rows["ingestion_date"].to_pylist()

    def cell(source: str, day: str) -> Batch:
        here = np.array([pair == (source, day) for pair in zip(sources, days, strict=True)])
        return Batch(here & (np.cumsum(here) <= 14), source, day)

    plants = {
        "role_mismatch": (spoil_vector.prompt_dropped, cell("source-1", "2026-01-06")),
        "invalid_vectors": (spoil_vector.zero, cell("source-2", "2026-01-07")),
        "vector_drift": (spoil_vector.other_model, late),
        "text_drift": (spoil_text.section_lost_and_encoded, cell("source-3", "2026-01-08")),
    }
    for plant, batch in plants.values():
        index = plant(index, batch, np.random.default_rng(0))
    written = lancedb.connect(str(tmp_path / "db")).create_table("docs", index.table(), on_bad_vectors="fill")
    assert index.store is not None
    pq.write_table(index.store, tmp_path / "store.parquet")

    def settings() -> IndexAuditSettings:
        workspaces._WORKSPACES.clear()
        attributes = {
            "name": "stands",
            "sources": [{"name": "*", "uri": "store.parquet", "format": "parquet"}],
            "encoder": {
                "model": str(fast_encoder.files.folder),
                "query_prompt": QUERY,
                "passage_prompt": PASSAGE,
            },
            "index": {"uri": "db", "table": "docs", "managed": False},
            "sample": SMALL_SAMPLE,
            "automation": {"mode": "sensors"},
        }
        return parse_settings(attributes, "test", tmp_path)

    def audit() -> dict[str, Any]:
        current = settings()
        execute(build_defs(current), audit_job_name(current), instance)
        return json.loads((tmp_path / "state" / "reports" / "stands" / "audit.json").read_text(encoding="utf-8"))

    def asked(cursor: str | None) -> tuple[bool, str | None]:
        sensor = build_defs(settings()).resolve_sensor_def("stands__discovery")
        found = sensor(dg.build_sensor_context(instance=instance, cursor=cursor, sensor_name="stands__discovery"))
        return bool(found.run_requests), found.cursor

    _, cursor = asked(None)
    wanted, cursor = asked(cursor)
    assert wanted
    expected = {code: batch.scope for code, (_, batch) in plants.items()}
    assert dict(told(audit(), "error")) == expected
    faulty = {f"{batch.day}|{batch.source}" for _, batch in plants.values()}
    found = passed(instance, "stands", "batch_integrity", "table_holds_batch")
    assert len(found) == 21
    assert {key for key, well in found.items() if not well} == faulty
    assert set(instance.get_dynamic_partitions("stands__source")) == {*sources}
    version = written.version

    assert asked(cursor) == (False, cursor)
    written.add(index.table().slice(0, 1).set_column(0, "chunk_id", [["stray"]]))  # a row that no store knows
    _, cursor = asked(cursor)
    wanted, cursor = asked(cursor)
    assert wanted
    later = audit()
    assert later["index"]["version"] > version
    assert dict(told(later, "error")) == expected
    assert ("orphan_rows", {"source": sources[0], "ingestion_date": days[0]}) in told(later, "warning")
    own = f"{days[0]}|{sources[0]}"
    rows = {
        event.partition_key: len(
            instance.fetch_materializations(
                dg.AssetRecordsFilter(
                    asset_key=dg.AssetKey(["stands", "index_rows"]), asset_partitions=[event.partition_key]
                ),
                limit=9,
            ).records
        )
        for event in instance.fetch_materializations(dg.AssetKey(["stands", "index_rows"]), limit=100).records
    }
    assert rows == {key: 2 if key == own else 1 for key in found}
    assert not passed(instance, "stands", "batch_integrity", "table_holds_batch")[own]


# A table that was damaged behind the pipeline's back


def test_backfill_again_heals_what_the_remedies_say_it_heals(
    tmp_path: Path, fast_encoder: Encoder, command: Command
) -> None:
    """Rotated vectors, another text, a row that is gone and one too many; then another prompt in one batch, and in the
    other noise, zeros and a repeated id. No batch has changed in its source.
    """
    texts = planted.docstrings("rich", 60)
    write(tmp_path, {f"d{n:02}": (DAY if n < 30 else LATER, text) for n, text in enumerate(texts)})
    (tmp_path / "defs.yaml").write_text(
        json.dumps(
            {
                "type": "audit_pipeline.IndexAudit",
                "attributes": {
                    "name": "managed",
                    "sources": [{"name": "docs", "uri": "docs.jsonl", "format": "jsonl"}],
                    "encoder": {"model": str(fast_encoder.files.folder)},
                    "sample": SMALL_SAMPLE,
                },
            }
        )
    )
    usual = ("--config", str(tmp_path / "defs.yaml"), "--state", str(tmp_path / "state"))
    report = tmp_path / "state" / "reports" / "managed" / "audit.json"

    def errors() -> dict[str, str]:
        workspaces._WORKSPACES.clear()
        command("run", *usual)
        found = json.loads(report.read_text())["findings"]
        return {one["code"]: one["remedy"] for one in found if one["code"] in HEALED}

    assert errors() == {}
    target = lancedb.connect(str(tmp_path / "state" / "index" / "managed.lance")).open_table("chunks")
    rows = target.to_arrow().sort_by("chunk_id").to_pylist()
    stored = [row["vector"] for row in rows]
    damaged = [{**row, "vector": stored[n - 1]} for n, row in enumerate(rows)]
    damaged[40]["text"] += " Words that the source store never had."
    damaged[50]["chunk_id"] = "never-in-the-store"
    target.delete("true")
    target.add(pa.Table.from_pylist(damaged, schema=target.schema))

    remedies = errors()
    assert {"misaligned_vectors", "text_drift", "missing_rows", "orphan_rows"} <= set(remedies)
    heals = "audit-pipeline backfill --source docs --again"
    assert remedies["misaligned_vectors"].endswith(heals)
    assert remedies["text_drift"].endswith(f"audit-pipeline backfill --source docs --since {LATER} --again")
    assert "the 2 batches of docs are up to date" in command("backfill", "--source", "docs", *usual).out
    listed = command("backfill", "--source", "docs", "--again", "--dry-run", *usual).out
    assert listed.splitlines()[1:] == [f"  {DAY}|docs (again, 30 rows)", f"  {LATER}|docs (again, 30 rows)"]
    assert command("backfill", "--source", "docs", "--again", *usual).code == 0
    assert errors() == {}

    prompted = fast_encoder.encode([row["text"] for row in rows[:30]], prompt=QUERY)
    noise = np.random.default_rng(0).normal(size=prompted.shape).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    noise[:3] = 0
    damaged = [{**row, "vector": [*prompted, *noise][n]} for n, row in enumerate(rows)]
    target.delete("true")
    target.add(pa.Table.from_pylist([*damaged, damaged[45]], schema=target.schema))
    remedies = errors()
    assert {"role_mismatch", "vector_drift", "invalid_vectors", "duplicate_ids"} <= set(remedies)
    for code, day in (("role_mismatch", DAY), ("vector_drift", LATER), ("duplicate_ids", LATER)):
        assert remedies[code].endswith(f"audit-pipeline backfill --source docs --since {day} --again"), remedies[code]
    assert command("backfill", "--source", "docs", "--again", *usual).code == 0
    assert errors() == {}
