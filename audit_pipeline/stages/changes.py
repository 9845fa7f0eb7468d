"""Which batches an ingest would change, or can write again, and why. None is brought in here."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass

from audit_pipeline.corpus.batches import parse_batch_key, period_start
from audit_pipeline.corpus.scans import StoreScan
from audit_pipeline.stages.grid import first_day, is_emptied, refuse_other_grain
from audit_pipeline.stages.retired import last_read, retired_slugs
from audit_pipeline.stages.unsettled import is_settled, unsettled_keys
from audit_pipeline.stages.waiting import waits_in_vain
from audit_pipeline.stages.workspace import BatchManifest, Workspace


@dataclass(frozen=True)
class BatchChange:
    """One batch that is not up to date.

    ``reason`` is new, changed, resettled (ingested under other settings), lost (the table itself is gone), unfinished
    (its rows in the table may not be those of its last ingest: one that died, or another batch took some over and the
    store has them here again), emptied, restored (up to date, though its last ingest was stopped), or again (up to
    date, and asked for all the same).
    """

    key: str
    reason: str
    rows: int


def changed_batches(workspace: Workspace, scan: StoreScan | None = None) -> list[BatchChange]:
    """The batches that an ingest would change, by key, from content hashes alone.

    ``scan`` is the store as it is (default: the workspace's scan). Batches of a source that it could not read are left
    out: of them is not known that they hold nothing any more. Those of a retired source never change, and are written
    anew where the table or the settings have. A batch dated after today, since the clock or the time zone has changed,
    is left as it is until its day comes. Raises AuditInputError where batches were ingested by a finer grain.
    """
    from audit_pipeline.index.connection import holds_table

    refuse_other_grain(workspace.settings, workspace.state)
    scan = scan or workspace.scan()
    found = {key: info for key, info in scan.batches.items() if scan.unread_for(info.slug) is None}
    retired = retired_slugs(workspace)
    known = {manifest.key: manifest for manifest in workspace.manifests()}
    unsettled = unsettled_keys(workspace)
    settings = workspace.settings.index
    table_is_gone = bool(known) and not holds_table(workspace.index_uri, settings.table, settings.storage_options)
    changes = []
    for key, info in found.items():
        manifest = known.get(key)
        if manifest is None:
            changes.append(BatchChange(key, "new", info.rows))
        elif manifest.content_hash != info.content_hash or _others_have_changed(workspace, manifest, retired, scan):
            changes.append(BatchChange(key, "changed", info.rows))
        elif manifest.settings_hash != workspace.settings_hash:
            changes.append(BatchChange(key, "resettled", info.rows))
        elif table_is_gone and info.rows:
            changes.append(BatchChange(key, "lost", info.rows))
        elif key in unsettled and not is_settled(workspace, manifest):
            changes.append(BatchChange(key, "unfinished", info.rows))
    for key in known.keys() | unsettled:
        (period, source), manifest = parse_batch_key(key), known.get(key)
        gone = key not in found and source not in retired and scan.unread_for(source) is None
        emptied = manifest is not None and is_emptied(workspace.settings, asdict(manifest))
        held = manifest is None or not emptied or not is_settled(workspace, manifest)
        held = held or (manifest is not None and _others_have_changed(workspace, manifest, retired, scan))
        if gone and period <= workspace.today and held:
            changes.append(BatchChange(key, "emptied", 0))
        elif source in retired and _has_cell(workspace, period):
            changes += _of_retired(workspace, key, manifest, table_is_gone)
    return sorted(changes, key=lambda change: change.key)


def _others_have_changed(workspace: Workspace, manifest: BatchManifest, retired: set[str], scan: StoreScan) -> bool:
    """Whether a source that the batch yields ids to is retired no more, or it keeps rows for a batch that is in now."""
    return not retired.issuperset(manifest.yields_to) or waits_in_vain(workspace, manifest, scan)


def _of_retired(
    workspace: Workspace, key: str, manifest: BatchManifest | None, table_is_gone: bool
) -> list[BatchChange]:
    """What an ingest would change about a batch of a retired source, from the rows that were last read of it."""
    rows = manifest.rows if manifest else 0
    if manifest is not None and rows and manifest.settings_hash != workspace.settings_hash:
        return [BatchChange(key, "resettled", rows)]
    if table_is_gone and rows:
        return [BatchChange(key, "lost", rows)]
    unfinished = manifest is None or not is_settled(workspace, manifest)
    return [BatchChange(key, "unfinished", rows)] if unfinished and last_read(workspace, key) is not None else []


def kept_beside_the_store(workspace: Workspace) -> dict[str, int]:
    """Key -> rows of the batches that the store says nothing of and an ingest can write again all the same: those of
    retired sources, and emptied ones (0 rows) that the table has rows of, since it was set back to an older version.
    """
    from audit_pipeline.index.batch_rows import batches_in_table

    settings, retired = workspace.settings, retired_slugs(workspace)
    start = period_start(first_day(settings, workspace.state) or workspace.today, settings.ingestion_grain)
    index = settings.index
    present = batches_in_table(workspace.index_uri, index.table, storage_options=index.storage_options)
    kept = {}
    for manifest in workspace.manifests():
        period, source = parse_batch_key(manifest.key)
        if period >= start and _has_cell(workspace, period):
            if source in retired and manifest.rows:
                kept[manifest.key] = manifest.rows
            elif source not in retired and manifest.key in present:
                kept[manifest.key] = 0
    return kept


def _has_cell(workspace: Workspace, period: dt.date) -> bool:
    """Whether the grid has a cell for the period, whose grain may have been another one."""
    return period <= workspace.today and period_start(period, workspace.settings.ingestion_grain) == period
