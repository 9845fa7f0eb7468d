"""Running both jobs of an index in this process, as `audit-pipeline run` does. Nothing is printed here."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterAssetCheckFailedError
from dagster._core.utils import make_new_run_id

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import slug
from audit_pipeline.errors import AuditInputError, BatchInputError, SelfCheckError, StoppedError
from audit_pipeline.memory import give_back
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.home import (
    end_dead_runs,
    locked,
    prepare_home,
    process_tag,
)
from audit_pipeline.orchestration.naming import REASON_TAG, audit_job_name, ingest_job_name, source_partitions_name
from audit_pipeline.orchestration.planned import planned
from audit_pipeline.orchestration.pools import look_at_pools, watched_pools
from audit_pipeline.orchestration.runs import failed_guards
from audit_pipeline.orchestration.workspaces import workspace_for
from audit_pipeline.plural import counted
from audit_pipeline.settings_file import check_label_files
from audit_pipeline.spelling import did_you_mean
from audit_pipeline.stages.asked_again import asked_sentences
from audit_pipeline.stages.batches import batches_to_bring_in
from audit_pipeline.stages.changes import BatchChange
from audit_pipeline.stages.forecast import forecast
from audit_pipeline.stages.ingest import integrity_faults
from audit_pipeline.stages.moves import in_order, moves_between
from audit_pipeline.stages.sources import batches_of_source, held_of_source, known_sources
from audit_pipeline.state import read_json

LOGGER = logging.getLogger("audit_pipeline")
# Dagster's own lines go to its event log; the terminal shows the progress lines of the stages alone.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@contextmanager
def at_home(root: Path) -> Iterator[dg.DagsterInstance]:
    """Dagster's instance in the state folder, which this process has to itself; runs of dead processes are ended."""
    prepare_home(root)
    with locked(root), dg.DagsterInstance.get() as instance:
        end_dead_runs(instance)
        yield instance


@dataclass(frozen=True)
class Outcome:
    """What a run did: the batches that were not up to date, the audit it wrote, and the batches it left out, by key."""

    changes: list[BatchChange]
    audit: dict[str, Any]
    left_out: dict[str, BatchInputError] = field(default_factory=dict)


@dataclass(frozen=True)
class Backfilled:
    """What is wrong after a backfill, by batch: ``faults`` counts it in the table, ``left_out`` were not brought in."""

    faults: dict[str, dict[str, int]] = field(default_factory=dict)
    left_out: dict[str, BatchInputError] = field(default_factory=dict)

    def as_text(self, asked: int) -> str:
        """What was done of so many batches, in one line."""
        done = f"{counted(asked - len(self.left_out), 'batch', 'batches')} brought in"
        done += f", {len(self.faults):,} of them not in the table as in the source store" if self.faults else ""
        return done + (f"; {len(self.left_out):,} left out, see below" if self.left_out else "")


def plan(settings: IndexAuditSettings) -> list[BatchChange]:
    """The batches that are not up to date. Remembers nothing: a dry run must leave no trace that decides anything."""
    check_label_files(settings)
    if settings.sample.like is not None:
        asked_sentences(settings.sample.like)
    workspace = workspace_for(settings)
    if not settings.sources:
        return []
    for error in workspace.scan(fresh=True).unread.values():
        raise error
    return batches_to_bring_in(workspace) if settings.index.managed else []


def dry_run_line(settings: IndexAuditSettings) -> str:
    """What a run would do and cost, in one line; nothing is ingested, encoded for keeps or published."""
    return forecast(workspace_for(settings), plan(settings)).as_text(settings.name)


def run_audit(settings: IndexAuditSettings, instance: dg.DagsterInstance) -> Outcome:
    """Bring every new, changed or emptied batch up to date, then audit the whole index.

    A batch that cannot be brought in is left out: the table has it as before, and the others go on. Raises
    AuditInputError and SelfCheckError as the stages do, whatever Dagster wraps around them.
    """
    changes = plan(settings)
    workspace = workspace_for(settings)
    workspace.state.remember(first_audit=workspace.today.isoformat())
    defs, left_out = _bring_up_to_date(settings, changes, instance)
    if left_out and not workspace.manifests():
        raise AuditInputError(
            f"{settings.name}: none of its batches could be brought in, so there is nothing to audit "
            f"({next(iter(left_out.values()))})"
        )
    workspace.release_store()
    give_back()
    LOGGER.info("auditing %s", settings.name)
    execute(defs, audit_job_name(settings), instance)
    return Outcome(changes, read_json(workspace.state.report / "audit.json"), left_out)


def refuse_unknown_source(indexes: Sequence[IndexAuditSettings], source: str) -> list[IndexAuditSettings]:
    """The managed indexes that have a source. Raises AuditInputError that lists the sources there are."""
    managed = [settings for settings in indexes if settings.index.managed]
    if not managed:
        raise AuditInputError(
            f"index.managed: {indexes[0].name} is audited as it stands, and what writes its table brings in "
            f"{source!r}: set it to true, or run the audit"
        )
    known = {settings.name: known_sources(workspace_for(settings)) for settings in managed}
    having = [settings for settings in managed if slug(source) in known[settings.name]]
    if not having:
        names = sorted({name for sources in known.values() for name in sources.values()})
        raise AuditInputError(
            f"--source: there is no source {source!r}{did_you_mean(source, names)}; sources are {', '.join(names)}: "
            "correct it, or add the source to the settings"
        )
    return having


def backfill_plan(
    settings: IndexAuditSettings, source: str, since: dt.date | None, *, again: bool = False
) -> list[BatchChange]:
    """The batches of one source that are not up to date, from a day on; none where the index has no such source.

    ``again`` takes its other batches as well, to write them once more where the table was damaged.

    Raises AuditInputError where the source cannot be read, whatever is wrong with others.
    """
    return batches_of_source(workspace_for(settings), source, since, again=again) if settings.index.managed else []


def up_to_date(settings: IndexAuditSettings, source: str, since: dt.date | None) -> str:
    """What there is to say where a backfill has nothing to do."""
    held = held_of_source(workspace_for(settings), source, since)
    start = f" from {since.isoformat()} on" if since is not None else ""
    if not held:
        return f"{settings.name}: nothing to do: the source store has no batch of {source}{start}"
    batches = f"the {counted(held, 'batch', 'batches')} of {source}{start}"
    return f"{settings.name}: nothing to do: {batches} {'is' if held == 1 else 'are'} up to date"


def run_backfill(settings: IndexAuditSettings, changes: list[BatchChange], instance: dg.DagsterInstance) -> Backfilled:
    """Bring these batches up to date, but for those that cannot be brought in."""
    _, left_out = _bring_up_to_date(settings, changes, instance)
    workspace = workspace_for(settings)
    found = {change.key: integrity_faults(workspace, change.key) for change in changes if change.key not in left_out}
    return Backfilled({key: faults for key, faults in found.items() if faults}, left_out)


def _bring_up_to_date(
    settings: IndexAuditSettings, changes: list[BatchChange], instance: dg.DagsterInstance
) -> tuple[dg.Definitions, dict[str, BatchInputError]]:
    """Ingest these batches one after the other; the definitions, whose grid has them all, and what was left out.

    What concerns one batch leaves that one out. Any other error would meet the next batch too, so it ends the command.
    """
    workspace = workspace_for(settings)
    earliest = workspace.scan().earliest if settings.sources else None
    if earliest is not None:
        workspace.state.extend_back_to(earliest)
    defs = build_defs(settings)
    if settings.encoder.token_budget is not None and workspace.encoder is not None:
        workspace.encoder.check_budget(forecast(workspace, changes).tokens)
    if changes:
        slugs = sorted({change.key.split("|", 1)[1] for change in changes})
        instance.add_dynamic_partitions(source_partitions_name(settings), slugs)
    if not settings.sources:
        return defs, {}
    asked = {change.key for change in changes}
    others = {change.key for change in batches_to_bring_in(workspace)} - asked  # which nobody asks for here
    left_out = _ingest(settings, in_order(changes, moves_between(workspace, changes)), defs, instance)
    # Those that gave rows up to these, or kept them for one that came after, are behind the store by what was done.
    behind = [change for change in batches_to_bring_in(workspace) if change.key not in others | left_out.keys()]
    return defs, left_out | _ingest(settings, behind, defs, instance)


def _ingest(
    settings: IndexAuditSettings, changes: list[BatchChange], defs: dg.Definitions, instance: dg.DagsterInstance
) -> dict[str, BatchInputError]:
    """Bring in these batches in their order; those that could not be, by key."""
    left_out: dict[str, BatchInputError] = {}
    with planned(workspace_for(settings).state, [change.key for change in changes]) as done:
        for number, change in enumerate(changes, start=1):
            LOGGER.info(
                "batch %s of %s: %s (%s, %s rows)", number, len(changes), change.key, change.reason, f"{change.rows:,}"
            )
            try:
                tags = {REASON_TAG: change.reason}
                execute(defs, ingest_job_name(settings), instance, partition_key=change.key, tags=tags)
            except BatchInputError as error:
                left_out[change.key] = error
                LOGGER.error("left out, the others go on: %s", error)
            done(change.key, change.key not in left_out)
    return left_out


def execute(
    defs: dg.Definitions,
    job: str,
    instance: dg.DagsterInstance,
    partition_key: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.ExecuteInProcessResult:
    """Run one job in this process; an error of a step is raised as it was, a signal as StoppedError."""
    job_def = defs.resolve_job_def(job)
    pools = {pool for node in job_def.nodes if (pool := getattr(node.definition, "pool", None))}
    look_at_pools(instance, pools)
    run_id = make_new_run_id()
    try:
        with watched_pools(instance, pools, run_id):
            return job_def.execute_in_process(
                instance=instance,
                partition_key=partition_key,
                tags={**(tags or {}), **process_tag()},
                run_config=QUIET,
                run_id=run_id,
            )
    except dg.DagsterExecutionInterruptedError:
        raise StoppedError from None
    except DagsterAssetCheckFailedError as error:
        raise BatchInputError("; ".join(failed_guards(instance, run_id))) from error
    except dg.DagsterError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, AuditInputError | SelfCheckError):
                raise cause from None
            cause = cause.__cause__
        raise
