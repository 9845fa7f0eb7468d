"""Vectors that a bad encoder left: rows with NaN under each rule of the writer, and an encoder that repeats nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import SentenceTransformerEncoder
from audit_pipeline.report.summary import exit_code
from audit_pipeline_tests.cases.planted_table import (
    ROWS,
    audited_again,
    errors,
    finding,
    findings,
    in_cell,
    rows_of_cells,
    vector_column,
)
from audit_pipeline_tests.encoder.planted import docstrings

PROMPT = "passage: "
BATCH = ("beta", "2026-01-03")
SCOPE = {"source": BATCH[0], "ingestion_date": BATCH[1]}
BAD = in_cell(*BATCH)
VECTOR_CHECKS = ("invalid_vectors", "missing_rows", "vector_drift", "not_normalised", "dimension_mismatch")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return docstrings("rich", ROWS)


@pytest.fixture(scope="module")
def vectors(fast_encoder: SentenceTransformerEncoder, texts: list[str]) -> np.ndarray:
    return fast_encoder.encode(texts, prompt=PROMPT)


class Written:
    """A table written with a rule for bad vectors, and its audit against the store of all rows."""

    def __init__(self, encoder: SentenceTransformerEncoder, texts: list[str], folder: Path) -> None:
        self.folder = folder
        self.rows = rows_of_cells(texts)
        self.settings = {"model": str(encoder.files.folder), "query_prompt": "query: ", "passage_prompt": PROMPT}

    def audit(self, vectors: np.ndarray, rule: str, *, whole: bool = True, **fill: float) -> Any:
        table = self.rows.append_column("vector", vector_column(vectors))
        lancedb.connect(str(self.folder / "db")).create_table("docs", table, on_bad_vectors=rule, **fill)
        return audited_again(self.folder, self.rows, self.settings, whole=whole)

    @property
    def states(self) -> pa.Table:
        return lancedb.connect(str(self.folder / "db")).open_table("docs").to_arrow()


@pytest.fixture
def written(fast_encoder: SentenceTransformerEncoder, texts: list[str], tmp_path: Path) -> Written:
    return Written(fast_encoder, texts, tmp_path)


def with_nan(vectors: np.ndarray, components: slice = slice(None)) -> np.ndarray:
    broken = vectors.copy()
    broken[np.ix_(BAD, np.arange(vectors.shape[1])[components])] = np.nan
    return broken


@pytest.mark.parametrize("rule", ["error", "null", "drop", "fill"])
def test_sound_vectors_are_silent_under_every_rule(written: Written, vectors: np.ndarray, rule: str) -> None:
    found = written.audit(vectors, rule, whole=False)
    assert findings(found, *VECTOR_CHECKS) == []


def test_rows_whose_bad_vector_became_null_are_invalid(written: Written, vectors: np.ndarray) -> None:
    found = written.audit(with_nan(vectors), "null")
    assert written.states["vector"].null_count == BAD.sum()
    assert errors(found) == [("invalid_vectors", SCOPE)]
    assert finding(found, "invalid_vectors")["evidence"]["states"] == {"null": BAD.sum()}
    assert found["causes"]["self"] == {"invalid_vector": BAD.sum()}
    assert exit_code(found) == 1


def test_rows_that_were_dropped_for_their_bad_vector_are_missing(written: Written, vectors: np.ndarray) -> None:
    found = written.audit(with_nan(vectors), "drop")
    assert written.states.num_rows == ROWS - BAD.sum()
    assert errors(found) == [("missing_rows", SCOPE)]
    assert found["causes"]["self"] == {"missing_row": BAD.sum()}


def test_rows_whose_bad_vector_was_filled_whole_with_zeros_are_invalid(written: Written, vectors: np.ndarray) -> None:
    found = written.audit(with_nan(vectors), "fill", fill_value=0.0)
    assert written.states["vector"].null_count == 0
    assert errors(found) == [("invalid_vectors", SCOPE)]
    assert finding(found, "invalid_vectors")["evidence"]["states"] == {"zero": BAD.sum()}


def test_rows_of_which_half_the_components_were_filled_are_drift(written: Written, vectors: np.ndarray) -> None:
    found = written.audit(with_nan(vectors, slice(None, None, 2)), "fill", fill_value=0.0)
    assert written.states["vector"].null_count == 0
    assert ("vector_drift", "error", SCOPE) in findings(found, "vector_drift")
    assert {code for code, _ in errors(found)} == {"vector_drift"}
    assert 0 < finding(found, "vector_drift")["evidence"]["stored_cos"] < 0.95


def test_an_encoder_whose_vectors_depend_on_the_batch_is_unstable_and_drift_is_not_measured(
    written: Written, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = SentenceTransformerEncoder.encode

    def padded(self: SentenceTransformerEncoder, texts: list[str], *args: Any, **more: Any) -> np.ndarray:
        fault = np.zeros(vectors.shape[1], dtype=np.float32)
        fault[0] = 0.02 * len(texts)
        return sound(self, texts, *args, **more) + fault

    monkeypatch.setattr(SentenceTransformerEncoder, "encode", padded)
    other = vectors.copy()
    other[BAD] = np.roll(other[BAD], 7, axis=1)  # real drift, which such an encoder cannot show
    found = written.audit(other, "error")
    assert findings(found, "encoder_unstable") == [("encoder_unstable", "warning", {})]
    assert findings(found, "vector_drift", "role_mismatch", "misaligned_vectors", "embedded_text_unknown") == []
    abstained = [f for f in found["findings"] if f["evidence"].get("check") == "role_fingerprint"]
    assert [(f["code"], f["n_compared"]) for f in abstained] == [("not_measured", 0)]
    assert "the encoder's vectors depend on the batch" in abstained[0]["message"]
    assert {row["role"] for row in found["roles"]} == {"not_measured"}
    assert set(found["causes"]["self"]) <= {"undetermined", "twin"}  # not the model: it may be the row's vector
    assert found["causes"]["self"]["undetermined"] >= BAD.sum()
    (said,) = [f for f in found["findings"] if f["evidence"].get("measure") == "heldout@10"]
    assert "no known prompt" not in said["message"]
    assert "of batches whose prompt was not measured, since the encoder is not reproducible" in said["message"]
    assert found["verdict"]["reading"] != "healthy"
