"""What every stage of the audit hands over: tables, its part of audit.json, findings. No stage logic belongs here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from audit_pipeline.findings import Finding

Progress = Callable[[str, int, int], None]
"""Called as progress(what, done, total) by stages that can take long; it must be cheap and must not raise."""


def no_progress(what: str, done: int, total: int) -> None:
    """The progress callback of callers that show none."""


@dataclass
class StageResult:
    """Output of one stage.

    ``tables`` are keyed by the names in ``audit_pipeline.schemas`` and conform to the schemas there. ``summary`` is
    JSON-ready and already in the shape of the stage's section of audit.json.
    """

    tables: dict[str, pa.Table] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
