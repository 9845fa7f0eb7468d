"""The sources of an index: names, batches, first day. What is new since a last look is told in discovery.py."""

from __future__ import annotations

import datetime as dt

from audit_pipeline.corpus.batches import display_source, parse_batch_key, period_start, slug
from audit_pipeline.errors import AuditInputError
from audit_pipeline.stages.batches import batches_to_bring_in
from audit_pipeline.stages.changes import BatchChange, kept_beside_the_store
from audit_pipeline.stages.workspace import Workspace


def find_first_day(workspace: Workspace) -> dict[str, AuditInputError]:
    """Remember the earliest date of a managed index's sources where no start is known, so that the grid has them all
    from the first load on; the entries that could not be read, by name.

    Loading definitions never reads data, so without this the first look would only find where the grid begins.
    """
    settings, state = workspace.settings, workspace.state
    if not settings.index.managed or state.start_date(settings.start_date) is not None:
        return {}
    scan = workspace.scan()
    if scan.earliest is not None:
        state.extend_back_to(scan.earliest)
    return scan.unread


def first_day_words(workspace: Workspace) -> str:
    """Since when an index has batches, in words."""
    settings = workspace.settings
    if not settings.index.managed:
        return f"{settings.name} is audited as it stands"
    first = workspace.state.start_date(settings.start_date)
    if first is None:
        return f"{settings.name} has no first day yet, for no dated row was found"
    return f"{settings.name} begins on {first.isoformat()}"


def batches_of_source(
    workspace: Workspace, source: str, since: dt.date | None, *, again: bool = False
) -> list[BatchChange]:
    """The batches of one source, by its name or its partition key, that are not up to date, from ``since`` on, by key.

    ``again`` asks for those that are up to date as well, with the reason again: for where the table was damaged.
    Raises AuditInputError where the source cannot be read, whatever is wrong with the others.
    """
    key = slug(source)
    scan = workspace.scan(fresh=True)
    error = scan.unread_for(key)
    if error is not None:
        raise error
    grain = workspace.settings.ingestion_grain
    first = period_start(since, grain) if since is not None else dt.date.min
    changes = {change.key: change for change in batches_to_bring_in(workspace, scan)}
    if again:
        held = kept_beside_the_store(workspace) | {each: info.rows for each, info in scan.batches.items()}
        changes = {each: BatchChange(each, "again", rows) for each, rows in held.items()} | changes
    cells = [(changes[each], *parse_batch_key(each)) for each in sorted(changes)]
    return [change for change, period, of in cells if of == key and period >= first]


def held_of_source(workspace: Workspace, source: str, since: dt.date | None) -> int:
    """How many batches the store holds of one source, from the period of ``since`` on."""
    first = period_start(since, workspace.settings.ingestion_grain) if since is not None else dt.date.min
    key = slug(source)
    return sum(info.slug == key and info.period >= first for info in workspace.scan().batches.values())


def known_sources(workspace: Workspace) -> dict[str, str]:
    """Partition key -> name of every source of the settings, the store and earlier ingests."""
    named = {slug(source.name): source.name for source in workspace.settings.sources if source.name != "*"}
    ingested = {parse_batch_key(one.key)[1]: display_source(one.source) for one in workspace.manifests()}
    return named | ingested | {key: display_source(raw) for key, raw in workspace.scan().slugs.items()}
