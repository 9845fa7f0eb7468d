"""What later stages take from the fingerprint."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline.results import StageResult
from audit_pipeline.stages.vectors import roles_of_batches
from audit_pipeline_tests.stages.builders import workspace


def test_batches_whose_arm_was_not_found_are_left_out(tmp_path: Path) -> None:
    arms = pa.table({"batch": ["2026-01-02|a", "2026-01-02|b", "2026-01-05|a"], "arm": ["passage", None, "query"]})
    work = workspace(tmp_path)
    work.save("role_fingerprint", StageResult({"batch_arms": arms}), 0.1)
    assert roles_of_batches(work) == {"2026-01-02|a": "passage", "2026-01-05|a": "query"}


def test_a_stage_that_never_ran_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        AuditInputError, match="small: stage 'role_fingerprint' has no result yet: materialise it first"
    ):
        roles_of_batches(workspace(tmp_path))
