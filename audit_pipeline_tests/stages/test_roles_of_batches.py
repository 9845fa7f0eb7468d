"""What later stages take from the fingerprint."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from audit_pipeline.results import StageResult
from audit_pipeline.stages.vectors import roles_of_batches
from audit_pipeline_tests.stages.builders import workspace


def test_batches_whose_arm_was_not_found_are_left_out(tmp_path: Path) -> None:
    arms = pa.table({"batch": ["2026-01-02|a", "2026-01-02|b", "2026-01-05|a"], "arm": ["passage", None, "query"]})
    work = workspace(tmp_path)
    work.save("role_fingerprint", StageResult({"batch_arms": arms}), 0.1)
    assert roles_of_batches(work) == {"2026-01-02|a": "passage", "2026-01-05|a": "query"}
