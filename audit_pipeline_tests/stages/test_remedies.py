"""Which remedies end with the command that heals, and which do not since no ingest would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.findings import WARNING_CODES, Finding, Severity
from audit_pipeline.stages.remedies import with_commands
from audit_pipeline.stages.workspace import BatchManifest, Workspace
from audit_pipeline_tests.stages.builders import workspace

DAY, OTHER = "2026-01-02", "2026-01-03"
COMMAND = "audit-pipeline backfill --source {} --again"


@pytest.fixture
def ingested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A managed index in which two batches of one source, whose name has a space, and one of another were ingested."""
    made = workspace(tmp_path)
    cells = [("the docs", DAY), ("the docs", OTHER), ("b", OTHER)]
    held = [
        BatchManifest(f"{day}|{name.replace(' ', '-')}", name, day, 1, 0, "content", "settings", "generation")
        for name, day in cells
    ]
    monkeypatch.setattr(made, "manifests", lambda: held)
    return made


def remedy(made: Workspace, code: str, scope: dict[str, Any], evidence: dict[str, Any] | None = None) -> str:
    severity: Severity = "warning" if code in WARNING_CODES else "error"
    (found,) = with_commands(made, [Finding(code, severity, "m", "Do it.", 1, 1.0, scope, evidence or {})])
    return found.remedy


@pytest.mark.parametrize(
    "code",
    [
        "missing_rows",
        "orphan_rows",
        "duplicate_ids",
        "text_drift",
        "invalid_vectors",
        "role_mismatch",
        "misaligned_vectors",
        "vector_drift",
    ],
)
def test_what_an_ingest_heals_ends_with_its_command(ingested: Workspace, code: str) -> None:
    quoted = COMMAND.format("'the docs'")
    assert remedy(ingested, code, {"source": "the docs"}) == f"Do it. Here: {quoted}"
    dated = quoted.replace(" --again", f" --since {OTHER} --again")
    assert remedy(ingested, code, {"source": "the docs", "ingestion_date": OTHER}) == f"Do it. Here: {dated}"
    assert remedy(ingested, code, {}) == f"Do it. Here: {COMMAND.format('b')} && {quoted}"
    assert remedy(ingested, code, {"source": "never ingested"}) == "Do it."


@pytest.mark.parametrize(
    ("code", "evidence"),
    [
        ("self_low", {}),
        ("missing_rows", {"rows": 1, "kinds": {"id_collision": 1}}),
        ("missing_rows", {"reason": "missing_id", "rejected": 1}),
    ],
)
def test_what_no_ingest_heals_does_not(ingested: Workspace, code: str, evidence: dict[str, Any]) -> None:
    assert remedy(ingested, code, {}, evidence) == "Do it."
    assert COMMAND.format("b") in remedy(ingested, "missing_rows", {}, {"rows": 1, "kinds": {"not_in_table": 1}})
