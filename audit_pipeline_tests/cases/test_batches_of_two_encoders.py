"""Vectors of a managed index that are not what the settings make of their texts: by the record, and by the ingest."""

from __future__ import annotations

import json
from pathlib import Path

import lancedb
import pytest

from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages import changes, ingest
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.conftest import Corpus
from audit_pipeline_tests.cases.managed import BATCH_STAGES

OLD, NEW = "2026-01-02", "2026-01-03"


@pytest.mark.parametrize("whole", [False, True])
def test_the_batch_left_behind_is_named(tmp_path: Path, corpus: Corpus, whole: bool) -> None:
    rows = [
        {"chunk_id": f"c{n:03}", "text": text, "ingestion_date": (OLD, NEW)[n % 2]}
        for n, text in enumerate(corpus.texts[:60])
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    def workspace(prompt: str) -> Workspace:
        attributes = {
            "name": "managed",
            "sources": [{"name": "docs", "uri": "rows.jsonl", "format": "jsonl"}],
            "encoder": {"model": corpus.model, "passage_prompt": prompt},
            "sample": {"arms": 0},
        }
        return Workspace(parse_settings(attributes, "test", tmp_path), tmp_path / "state")

    def ingest_all(made: Workspace, *days: str) -> None:
        for change in changes.changed_batches(made):
            if change.key.startswith(days):
                for stage in BATCH_STAGES:
                    stage(made, change.key)

    ingest_all(workspace(""), OLD, NEW)
    later = workspace("a prompt of the new version: ")
    ingest_all(later, *((OLD, NEW) if whole else (NEW,)))
    for asset in CORPUS_ASSETS[:2]:
        asset.stage(later)
    found = [finding for finding in later.findings("corpus_integrity") if finding.code == "provenance_mixed"]
    if whole:
        assert found == []
        return
    (mixed,) = found
    assert (mixed.scope, mixed.n_compared, mixed.share) == ({"source": "docs", "ingestion_date": OLD}, 30, 1.0)
    assert mixed.evidence["unlike"] == {"passage_prompt": ["", "a prompt of the new version: "]}
    assert f"{OLD}|docs" in mixed.remedy


def test_an_ingest_compares_each_vector_it_wrote_with_its_text(tmp_path: Path, corpus: Corpus) -> None:
    rows = [{"chunk_id": f"c{n}", "text": text} for n, text in enumerate(corpus.texts[:12])]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    source = {"name": "docs", "uri": "rows.jsonl", "format": "jsonl", "ingestion_date": OLD}
    attributes = {"name": "managed", "sources": [source], "encoder": {"model": corpus.model}}
    made = Workspace(parse_settings(attributes, "test", tmp_path), tmp_path / "state")
    (change,) = changes.changed_batches(made)
    written, check = BATCH_STAGES[:-2], ingest.check_batch_integrity
    for stage in (*written, check):
        stage(made, change.key)
    assert ingest.integrity_faults(made, change.key) == {}
    table = lancedb.connect(made.index_uri).open_table("chunks")
    for own, other in (("c3", 4), ("c7", 8)):
        table.update(where=f"chunk_id = '{own}'", values={"vector": corpus.vectors[other].tolist()})
    check(made, change.key)
    assert ingest.integrity_faults(made, change.key) == {"vector_drift": 2}
