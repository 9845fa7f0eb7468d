"""Commits to the managed table that another writer's come between."""

from __future__ import annotations

import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.commits import with_retries


def test_another_writers_commit_in_between_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    calls = []

    def conflicts_twice() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise RuntimeError("lance error: Retryable commit conflict for version 7")
        return "done"

    assert with_retries(conflicts_twice) == "done"

    def always() -> str:
        raise RuntimeError("lance error: commit conflict")

    with pytest.raises(AuditInputError, match="another writer"):
        with_retries(always)
