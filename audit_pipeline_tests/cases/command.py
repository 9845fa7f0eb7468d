"""The command line within this process: a whole audit from a YAML file, as a user starts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from audit_pipeline.cli import app
from audit_pipeline.orchestration import workspaces


def run_command(config: Path, state: Path) -> tuple[int, dict[str, Any]]:
    """(exit code, audit.json) of ``audit-pipeline run --config``; an exception of the audit is raised as it was."""
    workspaces._WORKSPACES.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(state))
        result = CliRunner().invoke(app, ["run", "--json", "--config", str(config), "--state", str(state)])
    workspaces._WORKSPACES.clear()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, json.loads(result.stdout)


def findings(audit: dict[str, Any], *severities: str) -> set[str]:
    return {finding["code"] for finding in audit["findings"] if finding["severity"] in severities}
