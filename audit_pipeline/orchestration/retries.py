"""Whether Dagster makes up by itself for a run that failed. No run is started here, and none is told."""

from __future__ import annotations

import time
from typing import Literal

import dagster as dg
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG

_LONGEST_WAIT = 600.0
"""Seconds from a failure to its retry: the daemon takes a few, and where none runs the tag says for ever it will."""


def retry_of(record: dg.RunRecord, instance: dg.DagsterInstance) -> Literal["none", "pending", "over"]:
    """What became of a failed run's automatic retry: there is or was none, its end is not known yet, or it ended.

    One that ended failed is a failed run itself and has a retry of its own or none; so whatever there is to tell is
    told of the last. One that was cancelled or deleted made up for nothing: the failure stands as without it.
    """
    run = record.dagster_run
    retried_by = run.tags.get(AUTO_RETRY_RUN_ID_TAG)
    if retried_by is None:
        # The daemon can start anew only what a code location holds, which a run of a command is not.
        will_be = run.is_complete_and_waiting_to_retry and run.remote_job_origin is not None
        return "pending" if will_be and time.time() - (record.end_time or 0.0) < _LONGEST_WAIT else "none"
    retry = instance.get_run_by_id(retried_by)
    if retry is None or retry.status == dg.DagsterRunStatus.CANCELED:
        return "none"
    return "over" if retry.is_finished else "pending"
