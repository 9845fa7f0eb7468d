"""What a second ingestion path spoils, through Dagster's jobs: named, placed, and shown on the partitions it is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import lancedb
import numpy as np
import pyarrow.parquet as pq

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration import workspaces
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.naming import audit_job_name
from audit_pipeline.orchestration.running import Backfilled, backfill_plan, execute, run_audit, run_backfill
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.encoder import planted
from audit_pipeline_tests.faults import texts as spoil_text
from audit_pipeline_tests.faults import vectors as spoil_vector
from audit_pipeline_tests.faults.index import PASSAGE, QUERY, Batch, Encoders, clean_index
from audit_pipeline_tests.orchestration.managed_index import (
    DAY,
    LATER,
    SMALL_SAMPLE,
    instance,
    managed,
    passed,
    table,
    told,
    write,
)

__all__ = ["instance"]


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
