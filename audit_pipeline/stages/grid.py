"""Which cells the grid of batches must have, from what was ingested before. No row is read, no partition made here."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import parse_batch_key, period_start, slug
from audit_pipeline.errors import AuditInputError
from audit_pipeline.plural import counted
from audit_pipeline.state import StateFolder, read_json

EMPTY = "empty"
"""The content hash of a batch that held rows once and holds none now."""


def first_day(settings: IndexAuditSettings, state: StateFolder) -> dt.date | None:
    """Where the grid begins: at the start date, or before it where a batch was ingested that has not been emptied yet.

    None where nothing is known. A start date that was set later empties the batches before it, each in its own cell.
    """
    start = state.start_date(settings.start_date)
    earlier = [key for key, day in _days(state).items() if start is None or day < start]
    days = [parse_batch_key(key)[0] for key in earlier if _is_held(settings, state, key)]
    return min(days, default=start)


def refuse_other_grain(settings: IndexAuditSettings, state: StateFolder) -> None:
    """Raise AuditInputError where batches were ingested that the settings' grain has no cells for.

    A finer grain has a cell for each of them, which is brought up to date as any other. To a coarser one they would
    never be emptied, and their rows would count twice beside those of the new batches.
    """
    grain = settings.ingestion_grain
    astray = [key for key, day in _days(state).items() if period_start(day, grain) != day]
    retired = {slug(source.name) for source in settings.sources if source.retired}  # whose batches stay as they are
    held = [key for key in astray if parse_batch_key(key)[1] not in retired and _is_held(settings, state, key)]
    if held:
        raise AuditInputError(
            f"{settings.name}: ingestion_grain: {counted(len(held), 'batch', 'batches')} ingested before, such as "
            f"{min(held)}, can be no {grain}: set it back to what it was, or give the audit another name or --state, "
            "where all is ingested anew"
        )


def _days(state: StateFolder) -> dict[str, dt.date]:
    """Key -> first day of every batch that has a folder."""
    keys = [state.key_of(folder) for folder in state.batches.glob("*%7C*")]
    return {key: parse_batch_key(key)[0] for key in keys}


def _is_held(settings: IndexAuditSettings, state: StateFolder, key: str) -> bool:
    """Whether a batch was ingested, if not to the end, and not emptied since in this table."""
    finished, begun = (state.batch(key) / name for name in ("batch.json", "unsettled.json"))
    return begun.exists() or (finished.exists() and not is_emptied(settings, read_json(finished)))


def is_emptied(settings: IndexAuditSettings, manifest: Mapping[str, Any]) -> bool:
    """Whether a batch holds nothing any more, and the table that it was emptied in is that of the settings.

    Another table that the settings named before, and name again now, may have its rows still.
    """
    return manifest["content_hash"] == EMPTY and manifest.get("place", "") in ("", place_of(settings))


def place_of(settings: IndexAuditSettings) -> str:
    """Digest of which table the settings name, wherever the state folder lies."""
    return hashlib.sha256(json.dumps([settings.index.uri, settings.index.table]).encode()).hexdigest()[:16]
