"""A table without dates and sources: a defect in some rows is named with these rows; the clean twin is silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.findings import Finding
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.encoder.planted import docstrings, static_model
from audit_pipeline_tests.index.builders import lists

ROWS, FIRST = 2000, 1200
STAGES = [asset.stage for asset in CORPUS_ASSETS]
RETRIEVAL = next(number for number, stage in enumerate(STAGES) if stage.__name__ == "retrieval_verdict") + 1


@pytest.fixture(scope="module")
def model(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that is fast: this is about rows, not about meaning."""
    return static_model(encoder, tmp_path_factory.mktemp("static") / "model")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Three sentences each of words of real text, all different."""
    words = np.array(sorted({word for text in docstrings("rich", 300) for word in text.split() if word.isalpha()}))
    drawn = np.random.default_rng(0).choice(words, size=(ROWS, 3, 9))
    return [" ".join(f"{' '.join(sentence).capitalize()}." for sentence in text) for text in drawn]


@pytest.fixture(scope="module")
def encoded(model: str, texts: list[str]) -> dict[str, np.ndarray]:
    loaded = load_encoder(EncoderSettings(model=model))
    assert loaded is not None
    return {role: loaded.encode(texts, prompt=f"{role}: ") for role in ("passage", "query")}


def audit(folder: Path, model: str, texts: list[str], vectors: np.ndarray, stages: int) -> list[Finding]:
    rows = pa.table({"id": [f"r{i:04}" for i in range(ROWS)], "text": texts, "vector": lists(vectors)})
    lancedb.connect(str(folder / "db")).create_table("docs", rows)
    attributes: dict[str, Any] = {
        "name": "stretch",
        "encoder": {"model": model, "query_prompt": "query: ", "passage_prompt": "passage: "},
        "index": {"uri": "db", "table": "docs", "managed": False, "columns": {"chunk_id": "id"}},
        "sample": {"total": 600, "arms": 0},
    }
    workspace = Workspace(parse_settings(attributes, "test", folder), folder / "state")
    for stage in STAGES[:stages]:
        stage(workspace)
    return [finding for stage in STAGES[:stages] for finding in workspace.findings(stage.__name__)]


def serious(findings: list[Finding]) -> list[tuple[str, dict[str, Any]]]:
    return [(finding.code, finding.scope) for finding in findings if finding.severity != "info"]


def test_a_clean_table_is_silent(tmp_path: Path, model: str, texts: list[str], encoded: dict[str, np.ndarray]) -> None:
    assert serious(audit(tmp_path, model, texts, encoded["passage"], RETRIEVAL)) == []


def test_another_role_from_a_row_on_is_named_with_its_rows(
    tmp_path: Path, model: str, texts: list[str], encoded: dict[str, np.ndarray]
) -> None:
    vectors = np.concatenate([encoded["passage"][:FIRST], encoded["query"][FIRST:]])
    found = audit(tmp_path, model, texts, vectors, 3)
    assert serious(found) == [("role_mismatch", {"rows": [FIRST, ROWS - 1]})]
    (finding,) = [f for f in found if f.code == "role_mismatch"]
    assert finding.share == 1.0  # of the stretch, as its scope says
    assert 0 < finding.n_compared < ROWS - FIRST


def test_vectors_of_no_known_text_in_the_middle_are_named_and_their_probes_stand_out(
    tmp_path: Path, model: str, texts: list[str], encoded: dict[str, np.ndarray]
) -> None:
    vectors = encoded["passage"].copy()
    vectors[700:1100] = vectors[700:1100, np.random.default_rng(1).permutation(384)]
    found = audit(tmp_path, model, texts, vectors, RETRIEVAL)
    assert ("vector_drift", {"rows": [700, 1099]}) in serious(found)
    (anomaly,) = [f for f in found if f.code == "stratum_anomaly" and f.evidence["measure"] == "self@1"]
    first, last = anomaly.scope["rows"]
    assert abs(first - 700) < 30
    assert abs(last - 1099) < 30
    assert anomaly.share is not None
    assert anomaly.share > 0.95


def test_vectors_out_of_step_from_row_20_on_are_named_with_shift_and_first_row(
    tmp_path: Path, model: str, texts: list[str], encoded: dict[str, np.ndarray]
) -> None:
    vectors = encoded["passage"].copy()
    vectors[20:] = np.roll(encoded["passage"], 5, axis=0)[20:]
    (finding,) = [f for f in audit(tmp_path, model, texts, vectors, 3) if f.severity == "error"]
    assert finding.code == "misaligned_vectors"
    assert (finding.evidence["shift"], finding.evidence["first_row"]) == (-5, 20)
