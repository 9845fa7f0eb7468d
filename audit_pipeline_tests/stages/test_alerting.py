"""Looks at a state folder, one after the other: what is posted, and what is left where a post or a process fails."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline.report.alerts import Item
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.alerting import Failures, tell_news
from audit_pipeline.state import StateFolder, write_json
from audit_pipeline.webhook import NotPostedError
from audit_pipeline_tests.report.sample_audit import sample_audit
from audit_pipeline_tests.report.test_alerts import HANDBOOK, LATE, finding

NOW = dt.datetime(2026, 3, 1, 7, 0, tzinfo=dt.UTC)
NONE = Failures([], [], [], 0.0)
CHECK = Item("check", "table_holds_batch", {"source": "a", "ingestion_date": "2026-01-02"}, "Look.")


def settings_of(*mutes: dict[str, Any], **alerts: Any) -> IndexAuditSettings:
    attributes = {
        "name": "handbook",
        "encoder": {"kind": "none"},
        "index": {"uri": "/db", "table": "docs", "managed": False},
        "alerts": {"webhook_env": "SOME_WEBHOOK", "mute": list(mutes), **alerts},
    }
    return parse_settings(attributes, "test", Path("/nowhere"))


class Channel:
    """A webhook that takes what it is sent, or does as ``faults`` say in turn."""

    def __init__(self, root: Path) -> None:
        self.state = StateFolder(root, "handbook")
        self.taken: list[str] = []
        self.sent: list[tuple[str, str]] = []
        self.faults: list[BaseException | None] = []
        self.failures = NONE
        self.settings = settings_of()
        self.now = NOW

    def audit(self, *findings: dict[str, Any]) -> None:
        write_json(self.state.report / "audit.json", AUDIT | {"findings": list(findings)})

    def look(self) -> str:
        """One tick, of a process that remembers nothing."""
        return tell_news(self.settings, self.state, lambda since: self.failures, self._send, self.now)

    def _send(self, body: dict[str, Any], key: str) -> None:
        context = body["blocks"][-1]["elements"][0]["text"]
        self.sent.append((key, context))
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        self.taken.append(body["text"])


AUDIT = sample_audit()


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    made = Channel(tmp_path)
    made.audit(HANDBOOK)
    return made


@pytest.fixture
def told(channel: Channel) -> Channel:
    """Alerts that are on, and have told what stood."""
    channel.look()
    channel.taken, channel.sent = [], []
    return channel


FIRST = "handbook: alerts are on; what stands now: 1 error"


def test_what_stands_is_told_once_and_then_only_what_is_new(channel: Channel) -> None:
    assert [channel.look(), channel.look()] == ["told 1 thing", "nothing is new"]
    channel.audit(HANDBOOK, LATE)
    assert [channel.look(), channel.look()] == ["told 1 thing", "nothing is new"]
    assert channel.taken == [FIRST, "handbook: 1 new error"]


def test_a_clean_index_says_once_that_alerts_are_on(channel: Channel) -> None:
    channel.audit()
    assert [channel.look(), channel.look()] == ["told 0 things", "nothing is new"]
    assert channel.taken == ["handbook: alerts are on; what stands now: no error, no warning"]


def test_the_report_is_where_the_settings_say_or_by_its_whole_path(channel: Channel) -> None:
    channel.look()
    channel.settings = settings_of(report_url="https://search.example/handbook")
    channel.audit(HANDBOOK, LATE)
    channel.look()
    here = (channel.state.report / "audit.html").resolve()
    assert [context.rpartition("Report: ")[2] for _, context in channel.sent] == [
        str(here),
        "<https://search.example/handbook>",
    ]


def test_before_the_first_audit_there_is_nothing_to_sum_up(tmp_path: Path) -> None:
    channel = Channel(tmp_path)
    assert channel.look() == "no audit has been published yet"
    channel.audit(HANDBOOK)
    channel.look()
    assert channel.taken == [FIRST]


def test_a_failed_post_is_made_again_with_what_came_since_and_nothing_is_lost(told: Channel) -> None:
    told.faults = [NotPostedError("it answered 500"), NotPostedError("it answered 500")]
    told.audit(HANDBOOK, LATE)
    for _ in range(2):
        with pytest.raises(NotPostedError, match="it answered 500"):
            told.look()
    told.audit(HANDBOOK)  # mended before anybody heard of it
    told.failures = replace(NONE, checks=[CHECK])
    told.look()
    assert told.taken == ["handbook: 1 new error, 1 failed check"]
    told.look()
    assert len(told.taken) == 1
    # It was refused, so nobody can have seen it; and the two attempts at one thing had one key.
    assert not any("No answer came" in context for _, context in told.sent)
    assert told.sent[0][0] == told.sent[1][0] != told.sent[2][0]


def test_the_first_summary_is_made_again_too(channel: Channel) -> None:
    channel.faults = [NotPostedError("no connection could be made")]
    with pytest.raises(NotPostedError):
        channel.look()
    channel.audit(HANDBOOK, LATE)
    channel.look()
    assert channel.taken == [FIRST.replace("1 error", "2 errors")]


@pytest.mark.parametrize("end", [NotPostedError("no answer came", unanswered=True), KeyboardInterrupt()])
def test_a_post_whose_answer_never_came_is_made_again_and_says_so(told: Channel, end: BaseException) -> None:
    told.audit(HANDBOOK, LATE)
    told.faults = [end, NotPostedError("it answered 500")]
    for _ in range(2):
        with pytest.raises(type(end) if told.sent == [] else NotPostedError):
            told.look()
    told.look()
    told.look()
    assert [context.startswith("No answer came to an earlier post") for _, context in told.sent] == [
        False,
        True,
        True,
    ]


def test_a_receiver_that_asks_for_a_rest_is_left_alone_and_told_all_of_it_after(told: Channel) -> None:
    told.audit(HANDBOOK, LATE)
    told.faults = [NotPostedError("it answered 429", rest=90.0)]
    with pytest.raises(NotPostedError):
        told.look()
    told.now = NOW + dt.timedelta(seconds=89)
    told.failures = replace(NONE, checks=[CHECK])
    assert told.look() == "not posted before 07:01:30 UTC, as the receiver asked"
    told.failures = NONE  # went while nobody could be told
    assert (told.taken, len(told.sent)) == ([], 1)
    told.now = NOW + dt.timedelta(seconds=90)
    assert told.look() == "told 2 things"
    assert told.taken == ["handbook: 1 new error, 1 failed check"]
    told.audit(HANDBOOK, LATE, finding("text_drift"))
    assert told.look() == "told 1 thing"


def test_two_looks_at_once_post_once(told: Channel) -> None:
    told.audit(HANDBOOK, LATE)
    with FileLock(told.state.audit / "alerts.lock"):
        assert told.look() == "another look is under way"
    assert told.taken == []
    told.look()
    assert len(told.taken) == 1


def test_a_report_that_is_being_replaced_mends_nothing(told: Channel) -> None:
    report = told.state.report / "audit.json"
    kept = report.read_bytes()
    report.unlink()
    told.look()
    report.write_bytes(kept)
    assert told.look() == "nothing is new"
    assert told.taken == []


def test_muted_things_are_counted_and_told_when_the_mute_has_ended(told: Channel) -> None:
    told.settings = settings_of(
        {"code": "missing_rows", "scope": {"source": "late"}, "until": "2026-03-01", "reason": "r"}
    )
    told.audit(HANDBOOK, LATE)
    assert told.look() == "nothing is new; 1 thing muted"
    told.failures = replace(NONE, checks=[CHECK])
    told.look()
    assert told.taken == ["handbook: 1 failed check (1 thing muted)"]
    told.now = dt.datetime(2026, 3, 2, 0, 1, tzinfo=dt.UTC)
    told.look()
    assert told.taken[1:] == ["handbook: 1 new error"]


def test_a_look_without_news_writes_nothing(told: Channel) -> None:
    path = told.state.audit / "alerts.json"
    before = path.stat().st_mtime_ns
    told.look()
    assert path.stat().st_mtime_ns == before


DAMAGE: dict[str, Any] = {
    "empty": lambda kept: "",
    "cut": lambda kept: json.dumps(kept)[:40],
    "a list": lambda kept: "[]",
    "null": lambda kept: "null",
    "nothing in it": lambda kept: "{}",
}
OF_RECORD: dict[str, Any] = {
    "a field of a later version": lambda kept: json.dumps(kept | {"later": 1}),
    "no list": lambda kept: json.dumps(kept | {"known": None}),
    "no time": lambda kept: json.dumps(kept | {"since": None}),
    "no scope": lambda kept: json.dumps(kept | {"known": [kept["known"][0] | {"scope": None}]}),
}
OF_REPORT: dict[str, Any] = {
    "a finding without its fields": lambda kept: json.dumps(kept | {"findings": [{"code": "x"}]}),
    "a code of a later version": lambda kept: json.dumps(
        kept | {"findings": [kept["findings"][0] | {"code": "later"}]}
    ),
    "no verdict": lambda kept: json.dumps({key: part for key, part in kept.items() if key != "verdict"}),
}


@pytest.mark.parametrize("damage", [*DAMAGE, *OF_RECORD])
def test_a_damaged_record_is_named_and_once_deleted_what_stands_is_told_anew(told: Channel, damage: str) -> None:
    path = told.state.audit / "alerts.json"
    path.write_text((DAMAGE | OF_RECORD)[damage](json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    with pytest.raises(AuditInputError, match="this record of what was told is damaged") as caught:
        told.look()
    assert str(caught.value).startswith(f"{path}: ")
    path.unlink()
    told.look()
    assert told.taken == [FIRST]


@pytest.mark.parametrize("damage", [*DAMAGE, *OF_REPORT])
def test_a_damaged_report_is_named_and_nothing_is_told_or_forgotten(told: Channel, damage: str) -> None:
    path, kept = told.state.report / "audit.json", (told.state.audit / "alerts.json").read_bytes()
    whole = path.read_bytes()
    path.write_text((DAMAGE | OF_REPORT)[damage](json.loads(whole)), encoding="utf-8")
    with pytest.raises(AuditInputError, match="this report is damaged or of another version") as caught:
        told.look()
    assert str(caught.value).startswith(f"{path}: ")
    assert (told.taken, (told.state.audit / "alerts.json").read_bytes()) == ([], kept)
    path.write_bytes(whole)
    assert told.look() == "nothing is new"
