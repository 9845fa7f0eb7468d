"""A second ingestion path spoils three rows in a hundred among 20 sound batches; and sound corpora under ten seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from audit_pipeline_tests.faults import texts, vectors
from audit_pipeline_tests.faults.index import Audited, Batch, Encoders, Index, audit, clean_index
from audit_pipeline_tests.faults.kind import Plant

ROWS, IN_BATCH = 480, 14
LIMITS = {"self_at_1": 0.95, "self_at_10": 0.95}  # a corpus that loses 3 rows in 100 keeps these


def some_zero(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Of the batch two vectors are zeros."""
    two = batch.rows & (np.cumsum(batch.rows) <= 2)
    return vectors.zero(index, Batch(two, batch.source, batch.day), rng)


@pytest.fixture(scope="module", params=[True, False], ids=["source of its own", "known source"])
def corpus(request: pytest.FixtureRequest, real_texts: list[str], encoders: Encoders) -> tuple[Index, Batch]:
    index, batch = clean_index(real_texts[:ROWS], IN_BATCH, encoders, own_source=request.param)
    return index.with_settings("limits", **LIMITS), batch


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (vectors.prompt_dropped, "role_mismatch"),
        (some_zero, "invalid_vectors"),
        (vectors.other_model, "vector_drift"),
        (texts.section_lost_and_encoded, "text_drift"),
    ],
)
def test_three_rows_in_a_hundred_are_named_by_source_and_date_and_the_averages_stay_high(
    corpus: tuple[Index, Batch], tmp_path: Path, plant: Plant, code: str
) -> None:
    index, batch = corpus
    found = audit(plant(index, batch, np.random.default_rng(0)), tmp_path / "planted")
    assert [(one.code, one.scope) for one in found.errors] == [(code, batch.scope)]
    figures = found.summaries["self_retrieval"]
    assert figures["self@1"]["value"] >= LIMITS["self_at_1"]
    assert figures["self@10"]["value"] >= LIMITS["self_at_10"]
    assert [one.scope for one in found.findings if one.severity == "warning"] == []


@pytest.mark.parametrize("seed", range(10))
def test_a_sound_corpus_has_no_error_under_any_seed(
    real_texts: list[str], encoders: Encoders, tmp_path: Path, seed: int
) -> None:
    drawn = np.random.default_rng(seed).permutation(real_texts)[:300].tolist()
    index, _ = clean_index(drawn, 30, encoders, own_source=seed % 2 == 0)
    found: Audited = audit(index, tmp_path / "sound", seed=seed, total=200)
    assert found.errors == []
