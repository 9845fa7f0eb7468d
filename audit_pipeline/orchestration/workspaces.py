"""One workspace per index and process, so that a model is loaded once for all steps of a run. No stage runs here."""

from __future__ import annotations

import os
from pathlib import Path

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.stages.workspace import Workspace

_WORKSPACES: dict[tuple[Path, str], Workspace] = {}


def state_root() -> Path:
    """DIR: $DAGSTER_HOME, else .audit in the current folder."""
    return Path(os.environ.get("DAGSTER_HOME") or ".audit").absolute()


def workspace_for(settings: IndexAuditSettings) -> Workspace:
    """The process's workspace of these settings. A run is a process, so caches live as long as one."""
    key = (state_root(), settings.model_dump_json())
    if key not in _WORKSPACES:
        _WORKSPACES[key] = Workspace(settings, key[0])
    return _WORKSPACES[key]


def new_workspace(settings: IndexAuditSettings) -> Workspace:
    """A workspace that nobody else has: a sensor's process lives for days, and must see the store as it is today."""
    return Workspace(settings, state_root())
