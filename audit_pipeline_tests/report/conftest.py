from __future__ import annotations

from typing import Any

import pytest

from audit_pipeline_tests.report import sample_audit as sample


@pytest.fixture
def _page_where_it_is_looked_at() -> None:
    """Here it is, in every test."""


@pytest.fixture(scope="session")
def probes() -> dict[str, Any]:
    return sample.probes(300)


@pytest.fixture(scope="session")
def audit(probes: dict[str, Any]) -> dict[str, Any]:
    """Shared by all tests of the room: copy before changing."""
    return sample.sample_audit(p=probes)
