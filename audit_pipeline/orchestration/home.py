"""DIR as a Dagster home: its instance, its lock, the remains of runs whose process died. No job is launched here."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import psutil
from filelock import FileLock, Timeout

from audit_pipeline.errors import AuditInputError

INSTANCE_FILE = Path(__file__).parents[2] / "dagster.yaml"
PROCESS_TAG = ".dagster/audit_pipeline_process"  # with this prefix the UI does not show it on every run
_TAGGED: set[str] = set()  # runs of this process

# Used where the package is installed without the repository around it.
FALLBACK_INSTANCE = """\
telemetry: {enabled: false}
python_logs: {managed_python_loggers: [audit_pipeline]}
concurrency: {runs: {max_concurrent_runs: 2}, pools: {default_limit: 1, granularity: op}}
run_monitoring: {enabled: true, free_slots_after_run_end_seconds: 60}
"""


def prepare_home(root: Path) -> None:
    """Make DIR a Dagster home and this process's DAGSTER_HOME. Raises AuditInputError where it cannot be written."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not (root / "dagster.yaml").exists():
            if INSTANCE_FILE.exists():
                shutil.copyfile(INSTANCE_FILE, root / "dagster.yaml")
            else:
                (root / "dagster.yaml").write_text(FALLBACK_INSTANCE, encoding="utf-8")
        with tempfile.TemporaryFile(dir=root):  # a folder of before may lie on a disk that is read-only by now
            pass
    except OSError as error:
        raise AuditInputError(
            f"{root}: the state folder cannot be written ({error.strerror}): choose another with --state"
        ) from error
    os.environ["DAGSTER_HOME"] = str(root)


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Holds the state folder's lock. Raises AuditInputError where another command holds it, or it cannot be written."""
    lock = FileLock(root / "run.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise AuditInputError(
            f"{root}: another audit-pipeline command works in this state folder: wait for it or choose another --state"
        ) from error
    except OSError as error:
        raise AuditInputError(
            f"{root}: the state folder cannot be written (run.lock: {error.strerror}): choose another with --state"
        ) from error
    try:
        yield
    finally:
        lock.release()


def process_tag() -> dict[str, str]:
    """The run tag that tells a later command whether the process of a run still lives."""
    process = psutil.Process()
    return {PROCESS_TAG: f"{process.pid}:{process.create_time():.2f}:{socket.gethostname()}"}


def tag_process(context: dg.AssetExecutionContext) -> None:
    """Tag a run that the daemon, the UI or `dg launch` started: its launcher does not see whether it lives."""
    run, tag = context.run, process_tag()
    # A run that is made again begins with the tags of the one before, whose process is not its own.
    if run.run_id not in _TAGGED and run.tags.get(PROCESS_TAG) != tag[PROCESS_TAG]:
        context.instance.add_run_tags(run.run_id, tag)
    _TAGGED.add(run.run_id)


def unfinished_runs(instance: dg.DagsterInstance) -> tuple[list[dg.DagsterRun], list[dg.DagsterRun]]:
    """(unfinished runs of processes that are gone, other unfinished runs)."""
    unfinished = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
    )
    runs = list(instance.get_runs(unfinished))
    dead = [run for run in runs if _process_is_gone(instance, run)]
    return dead, [run for run in runs if run not in dead]


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Fail the unfinished runs of processes that are gone, and free their pool slots; their ids.

    A killed in-process run stays STARTED and keeps its slots, and the next run of the same pool would wait for them
    for ever: only the daemon's run monitoring would end it, and no daemon need be running here.
    """
    dead, _ = unfinished_runs(instance)
    for run in dead:
        instance.report_run_failed(run, "The process of this run ended before the run did.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    _free_slots_of_ended_runs(instance)
    return [run.run_id for run in dead]


def _free_slots_of_ended_runs(instance: dg.DagsterInstance) -> None:
    """Free what runs of dead processes hold that Dagster has ended: its daemon would do so after one to three minutes,
    and until then the run that is to make up for it waits.
    """
    holding = list(instance.event_log_storage.get_concurrency_run_ids())
    for run in instance.get_runs(dg.RunsFilter(run_ids=holding)) if holding else ():
        # A run that was ended by hand may still be at work: its process lives.
        if run.is_finished and _process_is_gone(instance, run):
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _process_is_gone(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Of a run that is made again, and has done no step yet, nothing is known: its tag is that of the one before."""
    tag = run.tags.get(PROCESS_TAG)
    if tag is None or process_lives(tag):
        return False
    before = instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    return before is None or before.tags.get(PROCESS_TAG) != tag


def process_lives(tag: str) -> bool:
    """Whether the process of a run's tag is still there; another that has its number by now is not it.

    Of another host's processes nothing is known, so they live.
    """
    pid, started = (*tag.split(":", 2), "")[:2]
    if other_host(tag):
        return True
    try:
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < 1.0
    except (psutil.NoSuchProcess, ValueError):
        return False


def other_host(tag: str | None) -> str | None:
    """The host of a run's tag where it is not this one, whose processes cannot be seen from here."""
    host = (*(tag or "").split(":", 2), "", "")[2]
    return host if host not in ("", socket.gethostname()) else None
