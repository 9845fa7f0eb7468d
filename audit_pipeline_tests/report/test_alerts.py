"""What is news from one audit to the next, on findings made by hand."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest

from audit_pipeline.alert_settings import MuteSettings
from audit_pipeline.report.alerts import (
    Item,
    Look,
    Memory,
    advance,
    finding_items,
    muted_findings,
    not_looked_for,
)
from audit_pipeline.report.page import render_page

TODAY = dt.date(2026, 3, 1)


def finding(code: str, severity: str = "error", n: int = 40, evidence: Any = None, **scope: Any) -> dict[str, Any]:
    return {
        "code": code,
        "severity": severity,
        "scope": scope,
        "share": 0.25,
        "n_compared": n,
        "message": "the words of a chunk",
        "remedy": "Mend it.",
        "evidence": evidence or {},
        "examples": ["c-1"],
    }


def mute(code: str, until: str, **scope: str) -> MuteSettings:
    return MuteSettings(code=code, scope=scope, until=dt.date.fromisoformat(until), reason="known")


class Told:
    """A series of audits of which each look's news arrive."""

    def __init__(self, *mutes: MuteSettings) -> None:
        self.memory = Memory()
        self.mutes = list(mutes)
        self.muted = 0
        self.gone: list[Item] = []

    def audit(self, *findings: dict[str, Any], day: dt.date = TODAY, taken: bool = True) -> list[tuple[str, Any]]:
        look = Look(finding_items(findings), not_looked_for(findings))
        self.memory, words = advance(self.memory, look, self.mutes, day)
        self.memory = Memory.restored(self.memory.as_dict())
        self.muted, self.gone = len(words["muted"]), words["gone"]
        news = [(item.code, item.scope) for item in self.memory.waiting]
        if taken:
            self.memory.waiting, self.memory.summarised = [], True
        return news


LATE = finding("missing_rows", source="late")
HANDBOOK = finding("missing_rows", source="handbook")


def test_a_finding_is_told_once_and_the_same_one_in_another_source_is_another() -> None:
    told = Told()
    assert told.audit(LATE) == [("missing_rows", {"source": "late"})]
    assert told.audit(LATE) == []
    assert told.audit(LATE, HANDBOOK) == [("missing_rows", {"source": "handbook"})]
    assert told.audit(LATE, HANDBOOK, finding("text_drift", source="late")) == [("text_drift", {"source": "late"})]


def test_a_finding_that_went_and_came_back_is_told_again() -> None:
    told = Told()
    assert [len(told.audit(*findings)) for findings in ([LATE], [], [LATE], [LATE])] == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("before", "after", "news"), [("warning", "error", 1), ("info", "warning", 1), ("info", "info", 0)]
)
def test_a_severity_that_rose_is_news_and_notes_are_none(before: str, after: str, news: int) -> None:
    told = Told()
    told.audit(HANDBOOK, finding("text_drift", before, source="late"))
    assert len(told.audit(HANDBOOK, finding("text_drift", after, source="late"))) == news


def test_a_note_is_not_told() -> None:
    told = Told()
    assert told.audit(finding("hubs", "info")) == []
    assert told.audit(finding("hubs", "info"), finding("twins", "info")) == []


def test_a_severity_that_fell_is_no_news_and_rises_again_later() -> None:
    told = Told()
    series = ("error", "warning", "warning", "error")
    assert [len(told.audit(finding("text_drift", one))) for one in series] == [1, 0, 0, 1]


def test_what_an_audit_did_not_look_for_is_not_taken_for_mended() -> None:
    gap = finding("not_measured", "info", n=0, evidence={"checks": ["missing_rows"]})
    elsewhere = finding("not_measured", "info", n=0, evidence={"checks": ["missing_rows"]}, source="handbook")
    for between, news in ((gap, 0), (elsewhere, 1)):
        told = Told()
        told.audit(LATE)
        told.audit(between)
        assert len(told.audit(LATE)) == news


def test_a_stretch_of_rows_that_moved_is_the_same_and_another_stretch_is_not() -> None:
    told = Told()
    told.audit(finding("misaligned_vectors", rows=[100, 199]))
    assert told.audit(finding("misaligned_vectors", rows=[150, 249])) == []
    assert told.audit(
        finding("misaligned_vectors", rows=[150, 249]), finding("misaligned_vectors", rows=[250, 300])
    ) == [("misaligned_vectors", {"rows": [250, 300]})]
    assert len(told.audit(finding("misaligned_vectors"))) == 1


def test_two_measures_of_one_limit_are_one_thing_of_the_worse_severity() -> None:
    both = [finding("text_drift", "warning"), finding("text_drift", "error")]
    for findings in (both, both[::-1]):
        items = finding_items([*findings, LATE])
        assert [(item.code, item.severity) for item in items] == [("text_drift", "error"), ("missing_rows", "error")]


def test_no_words_and_no_ids_of_a_finding_go_on() -> None:
    (item,) = finding_items([LATE])
    assert "the words of a chunk" not in repr(item)
    assert "c-1" not in repr(item)


# Not taken


def test_news_wait_until_they_are_taken_and_what_is_mended_by_then_is_marked() -> None:
    told = Told()
    told.audit(HANDBOOK)
    assert len(told.audit(HANDBOOK, LATE, taken=False)) == 1
    assert told.gone == []
    assert told.audit(HANDBOOK, finding("text_drift"), taken=False) == [
        ("missing_rows", {"source": "late"}),
        ("text_drift", {}),
    ]
    assert [item.scope for item in told.gone] == [{"source": "late"}]
    assert len(told.audit(HANDBOOK, finding("text_drift"))) == 2
    assert told.audit(HANDBOOK, finding("text_drift")) == []


def test_before_the_first_post_the_news_are_what_stands_and_not_what_stood() -> None:
    told = Told()
    assert told.audit(LATE, taken=False) == [("missing_rows", {"source": "late"})]
    assert told.audit(HANDBOOK, taken=False) == [("missing_rows", {"source": "handbook"})]


# Muted


def test_what_is_muted_is_counted_and_told_when_the_mute_has_ended() -> None:
    told = Told(mute("missing_rows", "2026-03-02", source="LA*"))
    assert told.audit(LATE, HANDBOOK) == [("missing_rows", {"source": "handbook"})]
    assert told.muted == 1
    assert told.audit(LATE, HANDBOOK, day=dt.date(2026, 3, 2)) == []  # the last day it holds on
    assert told.audit(LATE, HANDBOOK, day=dt.date(2026, 3, 3)) == [("missing_rows", {"source": "late"})]
    assert told.muted == 0
    assert told.audit(LATE, HANDBOOK, day=dt.date(2026, 3, 4)) == []


def test_what_was_told_before_it_was_muted_is_not_told_again_after() -> None:
    told = Told()
    told.audit(LATE)
    told.mutes = [mute("missing_rows", "2026-03-02")]
    assert told.audit(LATE) == []
    assert told.audit(LATE, day=dt.date(2026, 3, 3)) == []


def test_what_waits_and_is_muted_then_is_told_after_the_mute() -> None:
    told = Told()
    told.audit()
    told.audit(LATE, taken=False)
    told.mutes = [mute("missing_rows", "2026-03-02")]
    assert told.audit(LATE) == []
    assert len(told.audit(LATE, day=dt.date(2026, 3, 3))) == 1


def test_a_severity_that_rose_under_a_mute_is_told_after_it() -> None:
    told = Told()
    told.audit(finding("text_drift", "warning"))
    told.mutes = [mute("text_drift", "2026-03-02")]
    assert told.audit(finding("text_drift", "error")) == []
    assert len(told.audit(finding("text_drift", "error"), day=dt.date(2026, 3, 3))) == 1


def test_a_mute_of_warnings_ends_where_one_turns_to_an_error() -> None:
    only = MuteSettings(code="text_drift", until=dt.date(2026, 3, 2), reason="known", severity="warning")
    told = Told(only)
    assert told.audit(finding("text_drift", "warning")) == []
    assert told.audit(finding("text_drift", "error")) == [("text_drift", {})]
    findings = [finding("text_drift", "warning"), finding("text_drift", "error", source="late")]
    assert muted_findings(findings, [only], TODAY)[0]["findings"] == 1


@pytest.mark.parametrize(
    ("scope", "where", "muted"),
    [
        ({}, {"source": "late"}, True),
        ({"source": "late"}, {}, False),  # a wider place than the mute's
        ({"source": "late"}, {"source": "late", "ingestion_date": "2026-01-02"}, True),
        ({"ingestion_date": "2026-01-*"}, {"ingestion_date": "2026-02-02"}, False),
        ({"source": "(none)"}, {"source": None}, True),
    ],
)
def test_a_mute_covers_its_places_and_no_wider_one(scope: dict[str, str], where: dict[str, Any], muted: bool) -> None:
    one = mute("missing_rows", "2026-03-02", **scope)
    assert one.covers("missing_rows", where, TODAY, "error") == muted
    assert not one.covers("text_drift", where, TODAY, "error")


def test_a_mute_of_one_batch_leaves_the_next_one_of_the_same_code() -> None:
    told = Told(mute("missing_rows", "2026-03-02", source="late", ingestion_date="2026-01-02"))
    first = finding("missing_rows", source="late", ingestion_date="2026-01-02")
    second = finding("missing_rows", source="late", ingestion_date="2026-01-03")
    assert told.audit(first) == []
    assert told.audit(first, second) == [("missing_rows", second["scope"])]


def test_the_report_counts_what_each_mute_hides() -> None:
    findings = [LATE, HANDBOOK, finding("text_drift", "info")]
    mutes = [mute("missing_rows", "2026-03-01"), mute("text_drift", "2026-03-01"), mute("missing_rows", "2026-02-28")]
    assert [(one["findings"], one["ended"]) for one in muted_findings(findings, mutes, TODAY)] == [
        (2, False),
        (0, False),
        (0, True),
    ]
    assert muted_findings(findings, [mute("table_holds_batch", "2026-03-01")], TODAY)[0]["findings"] is None


# Runs and checks


def test_runs_cannot_be_muted_and_each_is_told_once() -> None:
    run = Item("run", "audit_failed", {"run": "r1"}, "Read why.")
    memory, _ = advance(Memory(summarised=True), Look([run]), [], TODAY)
    assert memory.waiting == [run]
    memory.waiting = []
    later = Item("run", "audit_failed", {"run": "r2"}, "Read why.")
    assert advance(memory, Look([run, later]), [], TODAY)[0].waiting == [later]
    with pytest.raises(ValueError, match="'audit_failed' is neither"):
        mute("audit_failed", "2026-03-02")


def test_a_check_that_is_being_made_anew_stays_as_it_was() -> None:
    check = Item("check", "table_holds_batch", {"source": "a", "ingestion_date": "2026-01-02"}, "Look.")
    memory, _ = advance(Memory(summarised=True, known=[check]), Look([], lambda item: item == check), [], TODAY)
    assert advance(memory, Look([check]), [], TODAY)[0].waiting == []
    memory, _ = advance(memory, Look([]), [], TODAY)
    assert advance(memory, Look([check]), [], TODAY)[0].waiting == [check]


def test_the_page_names_what_is_muted_until_when_and_why(audit: dict[str, Any]) -> None:
    mutes = [
        {"code": "missing_rows", "scope": {"source": "late-*"}, "until": "2026-03-02", "reason": "<moved>"},
        {"code": "table_holds_batch", "scope": {}, "until": "2026-03-02", "reason": "known"},
        {"code": "text_drift", "scope": {}, "until": "2026-02-28", "reason": "was"},
    ]
    shown = [
        one | {"ended": ended, "findings": findings}
        for one, ended, findings in zip(mutes, (False, False, True), (2, None, 0), strict=True)
    ]
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", render_page(audit | {"muted": shown}, {})))
    assert (
        "Not told by alerts: missing_rows at source late-* until 2026-03-02 (&lt;moved&gt;): 2 findings; "
        "table_holds_batch until 2026-03-02 (known): a check on batches; text_drift until 2026-02-28 (was): ended."
    ) in words
    assert "Not told by alerts" not in render_page(audit, {})
