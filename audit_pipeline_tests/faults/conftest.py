"""The small index that the tests spoil, and audits of it that are made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.encoder.planted import docstrings, static_model
from audit_pipeline_tests.faults.index import Audited, Batch, Encoders, Index, audit, clean_index
from audit_pipeline_tests.faults.kind import Kind, Plant

SEED = 1
IN_BATCH = 32
DAYS = 2  # of four sources: eight sound batches, each large enough to be compared with the rest


@pytest.fixture(scope="session")
def real_texts() -> list[str]:
    """Distinct docstrings in a random order: batches that are alike."""
    texts = sorted({*docstrings("rich", 300), *docstrings("lancedb", 300)})
    return [texts[place] for place in np.random.default_rng(0).permutation(len(texts))]


@pytest.fixture(scope="session")
def encoders(encoder: Encoder, fast_encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Encoders:
    """The fast model as the application's own; the transformer as the other of equal dimension."""
    return Encoders(fast_encoder, encoder, tmp_path_factory.mktemp("vectors of faults"))


class Audits:
    """Audits of the small index as each function plants it, made once."""

    def __init__(self, index: Index, batch: Batch, folder: Path) -> None:
        self.index, self.batch, self.folder = index, batch, folder
        self.made: dict[str, Audited] = {}

    def __call__(self, plant: Plant) -> Audited:
        name = plant.__name__
        if name not in self.made:
            planted = plant(self.index, self.batch, np.random.default_rng(SEED))
            self.made[name] = audit(planted, self.folder / name)
        return self.made[name]


AuditsOf = Callable[[Kind], Audits]


@pytest.fixture(scope="session")
def audits_of(
    real_texts: list[str], encoder: Encoder, encoders: Encoders, tmp_path_factory: pytest.TempPathFactory
) -> AuditsOf:
    """The audits of the index that a kind is planted in: encoded by a model that reads all, or that much, of a text."""
    made: dict[int | None, Audits] = {}

    def of(kind: Kind) -> Audits:
        if kind.reads not in made:
            own = encoders if kind.reads is None else limited(kind.reads)
            index, batch = clean_index(real_texts[:272], IN_BATCH, own, days=DAYS)
            made[kind.reads] = Audits(index, batch, tmp_path_factory.mktemp("faults"))
        return made[kind.reads]

    def limited(reads: int) -> Encoders:
        folder = static_model(encoder, tmp_path_factory.mktemp("limited") / "model", normalised=True, reads=reads)
        loaded = load_encoder(EncoderSettings(model=folder))
        assert loaded is not None
        return Encoders(loaded, encoder, encoders.vectors)

    return of
