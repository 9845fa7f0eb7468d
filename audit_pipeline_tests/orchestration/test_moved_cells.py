"""Batches whose cells are others since the settings changed: they are emptied, and what they held comes in anew."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import dagster as dg
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.errors import AuditInputError
from audit_pipeline.orchestration.running import Backfilled, backfill_plan, run_backfill
from audit_pipeline.stages.grid import first_day
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import StateFolder
from audit_pipeline_tests.encoder import planted
from audit_pipeline_tests.orchestration.managed_index import DAY, LATER, instance, managed, table, write

__all__ = ["instance"]


def test_a_start_date_set_later_empties_what_is_before_it_and_shortens_the_grid(
    tmp_path: Path, fast_encoder: Encoder, instance: dg.DagsterInstance
) -> None:
    texts = planted.docstrings("rich", 4)
    write(tmp_path, {"d0": (DAY, texts[0]), "d1": (LATER, texts[1]), "d2": (LATER, texts[2])})
    settings = managed(tmp_path, fast_encoder)
    run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    state = StateFolder(tmp_path / "state", "managed")
    settings = managed(tmp_path, fast_encoder, start_date=LATER)
    assert first_day(settings, state) == dt.date.fromisoformat(DAY)
    changes = backfill_plan(settings, "docs", None)
    assert [(one.key, one.reason) for one in changes] == [(f"{DAY}|docs", "emptied")]
    assert run_backfill(settings, changes, instance) == Backfilled()
    assert set(table(tmp_path)) == {"d1", "d2"}
    assert backfill_plan(managed(tmp_path, fast_encoder, start_date=LATER), "docs", None) == []
    assert first_day(settings, state) == dt.date.fromisoformat(LATER)


def test_a_finer_grain_brings_the_old_cells_up_to_date_with_the_new(
    tmp_path: Path, fast_encoder: Encoder, instance: dg.DagsterInstance
) -> None:
    texts = planted.docstrings("rich", 3)
    write(tmp_path, {"d0": (DAY, texts[0]), "d1": (LATER, texts[1]), "d2": ("2026-02-01", texts[2])})
    settings = managed(tmp_path, fast_encoder, ingestion_grain="month")
    run_backfill(settings, backfill_plan(settings, "docs", None), instance)
    settings = managed(tmp_path, fast_encoder)
    changes = backfill_plan(settings, "docs", None)
    assert [(one.key[:10], one.reason) for one in changes] == [("2026-01-01", "emptied"), (DAY, "new"), (LATER, "new")]
    assert run_backfill(settings, changes, instance) == Backfilled()
    workspace = Workspace(settings, tmp_path / "state")
    assert sorted(workspace.population()["chunk_id"].to_pylist()) == sorted(table(tmp_path)) == ["d0", "d1", "d2"]
    with pytest.raises(AuditInputError, match="can be no month"):
        backfill_plan(managed(tmp_path, fast_encoder, ingestion_grain="month"), "docs", None)
