"""The command that heals a finding, at the end of its remedy. What a defect means stands where it is detected."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.corpus.reasons import ID_COLLISION
from audit_pipeline.findings import Finding
from audit_pipeline.stages.workspace import Workspace

HEALED = frozenset(
    "missing_rows orphan_rows duplicate_ids text_drift invalid_vectors role_mismatch misaligned_vectors "
    "vector_drift".split()
)
"""Findings that go away where the batch is written once more as the source store and the settings have it."""


def with_commands(workspace: Workspace, findings: Sequence[Finding]) -> list[Finding]:
    """The findings; of a managed index those that an ingest heals end with the command that makes it."""
    if not workspace.settings.index.managed:
        return list(findings)
    sources = {
        (one.source, one.ingestion_date): one.source or parse_batch_key(one.key)[1] for one in workspace.manifests()
    }
    return [_with_command(finding, sources) for finding in findings]


def _with_command(finding: Finding, sources: Mapping[tuple[str | None, str], str]) -> Finding:
    if finding.code not in HEALED or _is_of_the_store(finding):
        return finding
    names = sorted({name for cell, name in sources.items() if _lies_in(finding.scope, *cell)})
    if not names:  # rows of batches that no ingest ever made: none can be asked for
        return finding
    day = finding.scope.get("ingestion_date")
    since = f" --since {day}" if day else ""
    commands = [f"audit-pipeline backfill --source {shlex.quote(name)}{since} --again" for name in names]
    return replace(finding, remedy=f"{finding.remedy} Here: {' && '.join(commands)}")


def _is_of_the_store(finding: Finding) -> bool:
    """Whether the rows are missing for what they are in the source store: each ingest leaves them out anew."""
    return "reason" in finding.evidence or finding.evidence.get("kinds", {}).keys() == {ID_COLLISION}


def _lies_in(scope: Mapping[str, Any], source: str | None, date: str) -> bool:
    return scope.get("source", source) == source and scope.get("ingestion_date", date) == date
