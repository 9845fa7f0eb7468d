from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from audit_pipeline.report import publish as publishing
from audit_pipeline.report.loading import load
from audit_pipeline.report.publish import publish
from audit_pipeline.report_settings import ReportSettings
from audit_pipeline.schemas import TABLES
from audit_pipeline.state import StateFolder, write_json, write_table
from audit_pipeline_tests.report.sample_tables import sample_exports, sample_tables


@pytest.fixture
def state(
    tmp_path: Path, audit: dict[str, Any], probes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> StateFolder:
    monkeypatch.setattr(publishing, "render_page", lambda *_: "page")
    state = StateFolder(tmp_path, "handbook")
    tables = sample_tables(probes)
    publish(state.report, audit, tables, None, ReportSettings(), sample_exports(tables))
    batch = state.batch("2025-01-01|team-00")
    write_table(batch / "now" / "chunks.parquet", pa.table({"chunk_id": ["c00000", "c00001"], "text": ["zero", "one"]}))
    write_table(batch / "old" / "chunks.parquet", pa.table({"chunk_id": ["c00000"], "text": ["before"]}))
    write_json(batch / "batch.json", {"generation": "now"})
    return state


def test_tables_are_attributes_with_the_current_text_beside_each_id(state: StateFolder) -> None:
    report = load(state.root, "handbook")
    frame = report.self_retrieval
    assert list(frame.columns[:3]) == ["probe_id", "chunk_id", "text"]
    assert frame["text"].tolist()[:2] == ["zero", "one"]
    assert frame["text"].isna().sum() == len(frame) - 2
    assert (frame["best_other_text"] == "zero").all()
    assert report.audit["name"] == "handbook"
    assert set(TABLES) <= set(dir(report))


def test_pairs_get_both_texts(state: StateFolder) -> None:
    columns = load(str(state.root), "handbook").candidate_pairs.columns
    assert list(columns[:4]) == ["chunk_id_a", "text_a", "chunk_id_b", "text_b"]


def test_text_can_be_left_out(state: StateFolder) -> None:
    frame = load(state.root, "handbook").table("self_retrieval", text=False)
    assert list(frame.columns) == TABLES["self_retrieval"].names


def test_a_report_outlives_its_working_files(state: StateFolder) -> None:
    (state.batch("2025-01-01|team-00") / "batch.json").unlink()
    assert load(state.root, "handbook").self_retrieval["text"].isna().all()


def test_an_unknown_table_names_those_there_are(state: StateFolder) -> None:
    report = load(state.root, "handbook")
    with pytest.raises(AttributeError, match="self_retrieval"):
        _ = report.selfretrieval
