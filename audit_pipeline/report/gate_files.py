"""Writes the gate's files for a CI system. What they say stands in gate_text.py and junit.py."""

from __future__ import annotations

from pathlib import Path

from audit_pipeline.errors import AuditInputError
from audit_pipeline.report.gate import Gate
from audit_pipeline.report.gate_text import gate_markdown
from audit_pipeline.report.junit import gate_junit


def write_gate(gate: Gate, markdown: Path | None, junit: Path | None) -> None:
    """Write the files that are asked for, readable for the steps after this one. Raises AuditInputError."""
    for option, path, made in (("--markdown", markdown, gate_markdown), ("--junit", junit, gate_junit)):
        if path is None:
            continue
        try:
            path.expanduser().parent.mkdir(parents=True, exist_ok=True)
            path.expanduser().write_text(made(gate), encoding="utf-8")
        except OSError as error:
            raise AuditInputError(
                f"{option}: {path} cannot be written ({error.strerror}): name another file"
            ) from error
