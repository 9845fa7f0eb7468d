"""What of an audit is news: told once, and again only when it came back or got worse. Nothing is read or sent here."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from audit_pipeline.alert_settings import TOLD_CHECKS, MuteSettings
from audit_pipeline.findings import SEVERITY_ORDER, Severity
from audit_pipeline.report.wording import scope_words, unmeasured_checks

_NARROWER = {"filter": "one tenant", "document": "one document", "position": "one part of its documents"}


@dataclass(frozen=True)
class Item:
    """One thing that stands wrong: a finding, a check that failed, or a run that failed.

    ``scope`` is as in findings, of a run its ``run`` (id) and ``ingestion_date`` and ``source`` where it had a batch.
    ``which`` names what a check on all batches together failed on, or a part that no scope names; it is shown, and
    tells no two items apart.
    """

    kind: Literal["finding", "check", "run"]
    code: str
    scope: dict[str, Any]
    remedy: str
    severity: Severity | None = None
    share: float | None = None
    n_compared: int = 0
    which: str = ""

    @property
    def place(self) -> str:
        """What two looks know it by, but for its rows: a stretch of the table moves when rows are added before it."""
        return json.dumps([self.kind, self.code, {k: v for k, v in self.scope.items() if k != "rows"}], sort_keys=True)

    def is_same(self, other: Item) -> bool:
        """Whether both are one thing: same code and scope; stretches of rows that meet are one."""
        if self.place != other.place or ("rows" in self.scope) != ("rows" in other.scope):
            return False
        if "rows" not in self.scope:
            return True
        (first, last), (begin, end) = self.scope["rows"], other.scope["rows"]
        return bool(first <= end and begin <= last)

    def is_worse_than(self, other: Item) -> bool:
        """Whether its severity has risen."""
        return _rank(self) < _rank(other)


@dataclass(frozen=True)
class Look:
    """All that stands wrong now. ``unseen`` says of a thing that it is not among them whether nobody looked for it."""

    items: Sequence[Item]
    unseen: Callable[[Item], bool] = lambda item: False


@dataclass
class Memory:
    """What one look must know of those before it.

    ``known`` stood wrong at the last look and was told or waits; ``waiting`` is still to be told. ``summarised`` once
    the standing state has been told. ``unanswered`` while a post is out whose answer never came. ``sent`` counts posts.
    ``since`` is the time (seconds) up to which failed runs have been looked at, ``rest_until`` the one before which the
    receiver wants no further post.
    """

    known: list[Item] = field(default_factory=list)
    waiting: list[Item] = field(default_factory=list)
    summarised: bool = False
    unanswered: bool = False
    sent: int = 0
    since: float = 0.0
    rest_until: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> Memory:
        """The memory that ``as_dict`` gave."""
        lists = {name: [Item(**one) for one in kept[name]] for name in ("known", "waiting")}
        return cls(**{**kept, **lists})


def finding_items(findings: Iterable[Mapping[str, Any]]) -> list[Item]:
    """The findings of audit.json as items: their code, place, share and remedy; of their words no more is told.

    Of findings of one code and place (two measures of one limit) the worst speaks for all.
    """
    worst: dict[str, Item] = {}
    for one in findings:
        item = Item(
            "finding",
            one["code"],
            dict(one["scope"]),
            one["remedy"],
            one["severity"],
            one["share"],
            one["n_compared"],
            _part_of(one),
        )
        key = json.dumps([item.place, item.scope.get("rows")])
        if key not in worst or item.is_worse_than(worst[key]):
            worst[key] = item
    return list(worst.values())


def _part_of(finding: Mapping[str, Any]) -> str:
    """Where a finding is of less than its scope, which has no place for it: one document, whose name is not told."""
    parts = [words for key, words in _NARROWER.items() if key in finding["evidence"]]
    if finding["code"] != "stratum_anomaly" or not parts:
        return ""
    return ", ".join([scope_words(finding["scope"]), *parts])


def not_looked_for(findings: Iterable[Mapping[str, Any]]) -> Callable[[Item], bool]:
    """Whether an audit with these findings did not look for a thing: that it is not found then says nothing."""
    gaps = [(code, one["scope"]) for one in findings for code in unmeasured_checks(one)]

    def unseen(item: Item) -> bool:
        return any(
            item.kind == "finding" and item.code == code and all(item.scope.get(key) == scope[key] for key in scope)
            for code, scope in gaps
        )

    return unseen


def advance(
    memory: Memory, look: Look, mutes: Sequence[MuteSettings], today: dt.date
) -> tuple[Memory, dict[str, list[Item]]]:
    """The memory after a look, and what it says of the message: ``muted`` items that stand, ``gone`` ones that wait.

    News is what was not known or is worse than it was. What is muted is neither told nor known, so that it is news once
    the mute has ended; what had been told before stays known. Until the standing state has been told all of it is news.
    """

    def is_muted(item: Item) -> bool:
        return any(mute.covers(item.code, item.scope, today, item.severity) for mute in mutes)

    told_before = memory if memory.summarised else replace(memory, known=[], waiting=[])
    hushed = _by_place(item for item in told_before.waiting if is_muted(item))
    known = _by_place(item for item in told_before.known if not _found(hushed, item))
    waiting = [item for item in told_before.waiting if not is_muted(item)]
    after: list[Item] = []
    muted: list[Item] = []
    for item in look.items:
        before = _found(known, item)
        quiet = is_muted(item)
        if quiet and item.severity != "info":
            muted.append(item)
        if quiet:
            after += [before] if before is not None else []
            continue
        after.append(item)
        if item.severity != "info" and (before is None or item.is_worse_than(before)):
            waiting = [one for one in waiting if not one.is_same(item)] + [item]
    standing = _by_place(look.items)
    lost = [item for items in known.values() for item in items if _found(standing, item) is None]
    after += [item for item in lost if look.unseen(item)]
    gone = [item for item in waiting if item.kind != "run" and not _found(standing, item) and not look.unseen(item)]
    return replace(memory, known=after, waiting=waiting), {"muted": muted, "gone": gone}


def muted_findings(
    findings: Sequence[Mapping[str, Any]], mutes: Sequence[MuteSettings], today: dt.date
) -> list[dict[str, Any]]:
    """Each mute of the settings with how many warnings and errors it keeps from being told: none once it has ended,
    null for a check on batches, of which the findings say nothing.
    """
    return [
        {
            "code": mute.code,
            "scope": mute.scope,
            "until": mute.until.isoformat(),
            "reason": mute.reason,
            "ended": today > mute.until,
            "findings": None
            if mute.code in TOLD_CHECKS
            else sum(
                one["severity"] != "info" and mute.covers(one["code"], one["scope"], today, one["severity"])
                for one in findings
            ),
        }
        for mute in mutes
    ]


def _rank(item: Item) -> int:
    return SEVERITY_ORDER[item.severity] if item.severity is not None else 0


def _by_place(items: Iterable[Item]) -> dict[str, list[Item]]:
    places: dict[str, list[Item]] = {}
    for item in items:
        places.setdefault(item.place, []).append(item)
    return places


def _found(places: Mapping[str, list[Item]], item: Item) -> Item | None:
    return next((one for one in places.get(item.place, ()) if one.is_same(item)), None)
