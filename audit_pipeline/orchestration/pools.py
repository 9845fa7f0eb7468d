"""Who holds the pools that a run waits for, and how they are given back. What dead runs held is freed in home.py."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import dagster as dg

from audit_pipeline.errors import AuditInputError
from audit_pipeline.orchestration.home import PROCESS_TAG, other_host

LOGGER = logging.getLogger("audit_pipeline")
_SECONDS_BETWEEN_LOOKS = 10.0


def freeing_command(instance: dg.DagsterInstance, run_id: str) -> str:
    """What a user calls to give back the slots of a run that will never end: its log goes, what it wrote stays."""
    return f"DAGSTER_HOME={instance.root_directory} dagster run delete --force {run_id}"


def look_at_pools(instance: dg.DagsterInstance, pools: Iterable[str]) -> None:
    """Before steps of these pools: say which runs they would wait for; Dagster itself waits silently and for ever.

    Raises AuditInputError where a full pool is held by a run of another host: a container that was started again has
    another name, and whether the process before it lives cannot be seen from here.
    """
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return
    for pool in sorted(pools):
        info = storage.get_concurrency_info(pool)
        if len(info.claimed_slots) < info.slot_count:
            continue
        for run_id in sorted({slot.run_id for slot in info.claimed_slots}):
            run = instance.get_run_by_id(run_id)
            host = other_host(run.tags.get(PROCESS_TAG)) if run else None
            command = freeing_command(instance, run_id)
            if host is not None:
                raise AuditInputError(
                    f"pool {pool}: run {run_id} of host {host}, which cannot be seen from here, holds it: call "
                    f"this again once that run is over, or, where its process is gone, give it back with {command}"
                )
            LOGGER.info(
                "waiting for run %s, which holds the pool %s; where it is over, free it: %s", run_id, pool, command
            )


@contextmanager
def watched_pools(instance: dg.DagsterInstance, pools: Collection[str], run_id: str) -> Iterator[None]:
    """While a run is at work here: say which runs it waits for, once each. Another one may take the slot after
    ``look_at_pools`` has found it free.
    """
    over, told = Event(), set[str]()

    def look() -> None:
        while not over.wait(_SECONDS_BETWEEN_LOOKS):
            try:
                for pool in pools:
                    info = instance.event_log_storage.get_concurrency_info(pool)
                    if run_id in info.pending_run_ids and not info.active_run_ids <= told:
                        told.update(info.active_run_ids)
                        look_at_pools(instance, [pool])
            except AuditInputError as error:  # a run of another host: only who waits can tell whether it lives
                LOGGER.warning("waiting: %s", error)
            except Exception as error:  # the run goes on, whatever hinders the look
                LOGGER.debug("the pools cannot be looked at: %s", error)

    if not pools or not instance.event_log_storage.supports_global_concurrency_limits:
        yield
        return
    watch = Thread(target=look, name="watched-pools", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
