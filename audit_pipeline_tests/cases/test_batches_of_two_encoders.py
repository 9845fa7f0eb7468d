"""One batch of a managed index was brought to new settings and the other was not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages import ingest
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
        for change in ingest.changed_batches(made):
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
