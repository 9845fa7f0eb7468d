"""Whether an index as it stands has changed since the last look, and is to be audited. No row of it is read.

Nothing is known of Dagster but that it keeps a cursor between two looks.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from audit_pipeline.stages.workspace import Workspace

RESTLESS_LOOKS = 30
"""Looks, one after the other, that found a table changed again and put its audit off."""


@dataclass(frozen=True)
class TableLook:
    """Outcome of one look at an index as it stands: the key of the audit it asks for, None for none."""

    run_key: str | None
    notes: list[str]
    cursor: str


def look_at_table(workspace: Workspace, cursor: str | None) -> TableLook:
    """Whether an index as it stands, or its source store, has changed since the audit that was last asked for.

    A table that is still being written is waited for: its audit is asked for when two looks saw the same, or at the
    latest after ``RESTLESS_LOOKS``, since some tables are written all day. An audit reads one version in any case.
    """
    from audit_pipeline.index.database import newest_versions

    settings = workspace.settings.index
    versions = newest_versions(workspace.index_uri, settings.table, settings.storage_options)
    seen: dict[str, Any] = {"versions": versions}
    if workspace.settings.sources:
        scan = workspace.scan(again=True)
        for error in scan.unread.values():
            raise error
        seen["batches"] = {key: info.content_hash for key, info in scan.batches.items()}
    state = hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:16]
    before = json.loads(cursor) if cursor else {}
    words = ", ".join(f"{name} at version {version}" for name, (version, _) in versions.items())
    if before.get("asked") == state:
        return TableLook(None, [f"no change since the last audit: {words}"], cursor or "")
    restless = int(before.get("restless", 0)) + 1
    if before.get("seen") != state and restless < RESTLESS_LOOKS:
        note = f"changed: {words}; the audit is asked for when the next look sees the same"
        return TableLook(None, [note], json.dumps({**before, "seen": state, "restless": restless}))
    count = int(before.get("count", 0)) + 1
    return TableLook(f"{count} {state}", [words], json.dumps({"asked": state, "seen": state, "count": count}))
