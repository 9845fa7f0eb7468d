"""One look for news and one post of it: what was told is kept in the state folder. How it is sent is handed in.

News are written down before they are posted and struck out once they are taken, so that none is lost and none told
twice, whatever ends the process in between.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from filelock import FileLock, Timeout

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.plural import counted
from audit_pipeline.report.alerts import Item, Look, Memory, advance, finding_items, not_looked_for
from audit_pipeline.report.webhook_message import message, message_key
from audit_pipeline.state import StateFolder, read_json, write_json
from audit_pipeline.webhook import NotPostedError

LOGGER = logging.getLogger("audit_pipeline")

Send = Callable[[dict[str, Any], str], None]
"""Posts a body under an idempotency key; raises NotPostedError."""


@dataclass(frozen=True)
class Failures:
    """What Dagster knows to have failed: checks on batches, runs that ended after ``since``, and ``until`` when.

    ``unsettled`` are checks that are being made anew: of these nobody knows.
    """

    checks: Sequence[Item]
    runs: Sequence[Item]
    unsettled: Sequence[Item]
    until: float


def tell_news(
    settings: IndexAuditSettings,
    state: StateFolder,
    failures_since: Callable[[float], Failures],
    send: Send,
    now: dt.datetime,
) -> str:
    """Post what is newly wrong, once; a sentence that says what was done. Raises NotPostedError where it was not taken:
    the next look posts it, with whatever is new by then.
    """
    state.audit.mkdir(parents=True, exist_ok=True)
    lock = FileLock(state.audit / "alerts.lock")
    try:
        # Dagster gives up on a look after a minute and starts the next, while the first still waits for its answer.
        with lock.acquire(timeout=0):
            return _tell_news(settings, state, failures_since, send, now)
    except Timeout:
        return "another look is under way"


def _tell_news(
    settings: IndexAuditSettings,
    state: StateFolder,
    failures_since: Callable[[float], Failures],
    send: Send,
    now: dt.datetime,
) -> str:
    path = state.audit / "alerts.json"
    memory = Memory.restored(read_json(path)) if path.exists() else Memory(since=now.timestamp())
    failures = failures_since(memory.since)
    # A report that is being replaced is away for a moment: then nothing is known of findings, and none is gone.
    audit = _published(state)
    mutes = settings.alerts.mute if settings.alerts else []
    memory, words = advance(memory, _look(audit, failures), mutes, now.date())
    if memory.summarised:
        memory.since = max(memory.since, failures.until)
    muted = f"; {counted(len(words['muted']), 'thing')} muted" if words["muted"] else ""
    if not (memory.waiting or (audit is not None and not memory.summarised)):
        if not path.exists() or read_json(path) != memory.as_dict():
            write_json(path, memory.as_dict())
        return f"nothing is new{muted}" if audit is not None else "no audit has been published yet"
    body = message(
        settings.name,
        memory.waiting,
        audit=audit,
        gone=words["gone"],
        muted=len(words["muted"]),
        summary=not memory.summarised,
        again=memory.unanswered,
    )
    key = message_key(settings.name, memory.sent, memory.waiting)
    # Written before the post: if the process ends between the post and its answer, the next one says so.
    write_json(path, replace(memory, unanswered=True).as_dict())
    try:
        send(body, key)
    except NotPostedError as error:
        unanswered = memory.unanswered or error.unanswered
        write_json(path, replace(memory, unanswered=unanswered).as_dict())
        raise
    told = len(memory.waiting)
    done = replace(memory, waiting=[], summarised=True, unanswered=False, sent=memory.sent + 1)
    write_json(path, done.as_dict())
    return f"told {counted(told, 'thing')}{muted}"


def _look(audit: Mapping[str, Any] | None, failures: Failures) -> Look:
    findings = audit["findings"] if audit is not None else []
    not_sought = not_looked_for(findings)
    unsettled = {item.place for item in failures.unsettled}

    def unseen(item: Item) -> bool:
        return item.place in unsettled or not_sought(item) or (item.kind == "finding" and audit is None)

    return Look([*finding_items(findings), *failures.checks, *failures.runs], unseen)


def _published(state: StateFolder) -> dict[str, Any] | None:
    try:
        return dict(read_json(state.report / "audit.json"))
    except FileNotFoundError:
        return None
