"""One look for news and one post of it: what was told is kept in the state folder. How it is sent is handed in.

News are written down before they are posted and struck out once they are taken, so that none is lost and none told
twice, whatever ends the process in between.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline.plural import counted
from audit_pipeline.report.alerts import Item, Look, Memory, advance, finding_items, not_looked_for
from audit_pipeline.report.webhook_message import message, message_key
from audit_pipeline.state import StateFolder, read_json, write_json
from audit_pipeline.webhook import NotPostedError

_UNUSABLE = (ValueError, LookupError, TypeError, AttributeError)
"""What a file raises that is cut, is no JSON, or lacks or has other fields than this version writes."""

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
    the next look posts it, with whatever is new by then, once the receiver no longer asks to be left alone. Raises
    AuditInputError where the report, or what is kept of what was told, cannot be used.
    """
    with _only_look(state) as alone:
        if not alone:
            return "another look is under way"
        path = state.audit / "alerts.json"
        memory = _remembered(path) if path.exists() else Memory(since=now.timestamp())
        failures = failures_since(memory.since)
        # A report that is being replaced is away for a moment: then nothing is known of findings, and none is gone.
        audit = _published(state)
        mutes = settings.alerts.mute if settings.alerts else []
        memory, words = advance(memory, _look(audit, failures), mutes, now.date())
        if memory.summarised:
            memory.since = max(memory.since, failures.until)
        muted = f"; {counted(len(words['muted']), 'thing')} muted" if words["muted"] else ""
        has_news = memory.waiting or (audit is not None and not memory.summarised)
        if not has_news or now.timestamp() < memory.rest_until:
            if not path.exists() or read_json(path) != memory.as_dict():
                write_json(path, memory.as_dict())
            if has_news:
                until = dt.datetime.fromtimestamp(memory.rest_until, dt.UTC)
                return f"not posted before {until:%H:%M:%S} UTC, as the receiver asked{muted}"
            return f"nothing is new{muted}" if audit is not None else "no audit has been published yet"
        body = message(
            settings.name,
            memory.waiting,
            audit=audit,
            gone=words["gone"],
            muted=len(words["muted"]),
            summary=not memory.summarised,
            again=memory.unanswered,
            report=(settings.alerts.report_url if settings.alerts else None)
            or str(state.report.resolve() / "audit.html"),
        )
        _post(path, memory, body, message_key(settings.name, memory.sent, memory.waiting), send, now)
        return f"told {counted(len(memory.waiting), 'thing')}{muted}"


@contextmanager
def _only_look(state: StateFolder) -> Iterator[bool]:
    """Keeps other looks away; False where one is under way: Dagster gives up on a look after a minute and starts the
    next, while the first still waits for its answer.
    """
    state.audit.mkdir(parents=True, exist_ok=True)
    lock = FileLock(state.audit / "alerts.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _post(path: Path, memory: Memory, body: dict[str, Any], key: str, send: Send, now: dt.datetime) -> None:
    # Written before the post: if the process ends between the post and its answer, the next one says so.
    write_json(path, replace(memory, unanswered=True).as_dict())
    try:
        send(body, key)
    except NotPostedError as error:
        unanswered = memory.unanswered or error.unanswered
        rest_until = now.timestamp() + error.rest if error.rest else 0.0
        write_json(path, replace(memory, unanswered=unanswered, rest_until=rest_until).as_dict())
        raise
    done = replace(memory, waiting=[], summarised=True, unanswered=False, sent=memory.sent + 1, rest_until=0.0)
    write_json(path, done.as_dict())


def _look(audit: Mapping[str, Any] | None, failures: Failures) -> Look:
    findings = audit["findings"] if audit is not None else []
    not_sought = not_looked_for(findings)
    unsettled = {item.place for item in failures.unsettled}

    def unseen(item: Item) -> bool:
        return item.place in unsettled or not_sought(item) or (item.kind == "finding" and audit is None)

    return Look([*finding_items(findings), *failures.checks, *failures.runs], unseen)


def _published(state: StateFolder) -> dict[str, Any] | None:
    path = state.report / "audit.json"
    try:
        audit = dict(read_json(path))
        not_looked_for(audit["findings"])
        message(audit["name"], finding_items(audit["findings"]), audit=audit)  # all that a post will read of it
    except FileNotFoundError:
        return None
    except _UNUSABLE as error:
        raise AuditInputError(f"{path}: this report is damaged or of another version: run the audit again") from error
    return audit


def _remembered(path: Path) -> Memory:
    """What the last look left, a newer version's only where it has nothing else in it: half of it would tell twice."""
    try:
        memory = Memory.restored(read_json(path))
        _ = memory.since + memory.rest_until + memory.sent, [one.place for one in (*memory.known, *memory.waiting)]
    except _UNUSABLE as error:
        raise AuditInputError(
            f"{path}: this record of what was told is damaged or of another version: delete it, and all that stands is "
            "told once more"
        ) from error
    return memory
