from __future__ import annotations

import pytest

from audit_pipeline.encoder.vector_store import VectorStore
from audit_pipeline_tests.encoder import planted


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> VectorStore:
    """One vector store for all tests that only read the same encodings."""
    return VectorStore(tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="session")
def texts() -> list[str]:
    wanted = len(planted.SOURCES) * len(planted.DAYS) * planted.ROWS_PER_BATCH
    found = planted.docstrings("rich", wanted)
    assert len(found) == wanted
    return found
