"""The message: its form, its limits, and what never stands in it."""

from __future__ import annotations

import json
from typing import Any

from audit_pipeline.alert_settings import TOLD_CHECKS
from audit_pipeline.report.alerts import Item, finding_items
from audit_pipeline.report.webhook_message import CHECKS, message, message_key
from audit_pipeline_tests.report.sample_audit import HOSTILE, SECRET_TEXT
from audit_pipeline_tests.report.test_alerts import LATE, finding

CHECK = Item("check", "table_holds_batch", {"source": "late", "ingestion_date": "2026-01-03"}, "Look.")
RUN = Item("run", "ingest_failed", {"run": "0f3a", "source": "late", "ingestion_date": "2026-01-03"}, "Read why.")


def texts(body: dict[str, Any]) -> list[str]:
    found = []
    for block in body["blocks"]:
        found += [block["text"]["text"]] if "text" in block else [part["text"] for part in block["elements"]]
    return found


def test_a_message_says_what_is_new_where_and_what_to_do() -> None:
    body = message("handbook", [*finding_items([LATE]), CHECK, RUN], audit=None, muted=2)
    assert body["text"] == "handbook: 1 new error, 1 failed check, 1 failed run (2 things muted)"
    assert [block["type"] for block in body["blocks"]] == ["header", "section", "section", "section", "context"]
    assert texts(body) == [
        "handbook: 1 new error, 1 failed check, 1 failed run",
        "*RUN* A batch was not brought in (`ingest_failed`)\n• run 0f3a, source late, ingested 2026-01-03\n→ Read why.",
        "*ERROR* Rows missing from the index (`missing_rows`)\n• source late: 25.0 % of 40\n→ Mend it.",
        "*CHECK* The table does not hold the batch as the source store does (`table_holds_batch`)\n"
        "• source late, ingested 2026-01-03\n→ Look.",
        "No audit has been published yet. 2 things muted by alerts.mute.",
    ]


def test_the_first_message_says_so_and_a_repeated_one_too(audit: dict[str, Any]) -> None:
    first = message("handbook", [], audit=audit, summary=True)
    assert first["text"] == "handbook: alerts are on; what stands now: no error, no warning"
    assert texts(first)[-1].startswith("Last audit 2026-03-01 06:30 UTC: ")
    assert texts(first)[-1].endswith(" Report: reports/handbook/audit.html.")
    again = message("handbook", [CHECK], audit=audit, again=True)
    assert texts(again)[-1].startswith("No answer came to an earlier post, so this may stand above already.")


def test_what_no_longer_stands_is_marked() -> None:
    items = finding_items([LATE, finding("missing_rows", source="handbook")])
    (_, section, _) = texts(message("handbook", items, audit=None, gone=items[:1]))
    assert section.splitlines()[1:3] == [
        "• source handbook: 25.0 % of 40",
        "• source late: 25.0 % of 40 (no longer found)",
    ]


def test_names_of_sources_make_no_mention_link_or_line() -> None:
    items = finding_items([finding("missing_rows", source=name) for name in ("<!channel>", HOSTILE, "a\nb & c", None)])
    text = json.dumps(message("handbook", items, audit=None), ensure_ascii=False)
    assert "<" not in text
    assert "&lt;!channel&gt;" in text
    assert "a b &amp; c" in text
    assert "source (none)" in text


def test_a_message_keeps_the_limits_of_slack_however_much_is_new() -> None:
    long = "s" * 5000
    items = finding_items(
        finding(code, "error" if code != "self_low" else "warning", source=f"{n}{long}")
        for code in ("missing_rows", "text_drift", "self_low")
        for n in range(100)
    )
    items += [
        Item("check", CHECK.code, {"source": "late", "ingestion_date": str(n)}, f"Look {n}. {long}") for n in range(60)
    ]
    body = message("n" * 63, items, audit=None)
    assert len(body["blocks"]) <= 50
    assert len(body["blocks"][0]["text"]["text"]) <= 150
    assert max(len(text) for text in texts(body)) <= 3000
    # 63 groups, of which 20 are shown: the three codes with 100 places each and 17 checks.
    assert texts(body)[-2] == "... and 43 more in the report and in Dagster."
    assert "• and 95 more places" in texts(body)[1]


def test_no_text_of_the_corpus_stands_in_a_message(audit: dict[str, Any]) -> None:
    with_text = [
        one | {"message": SECRET_TEXT, "examples": [SECRET_TEXT], "evidence": {"text": SECRET_TEXT}}
        for one in audit["findings"]
    ]
    assert SECRET_TEXT not in json.dumps(message("handbook", finding_items(with_text), audit=audit))


def test_the_key_is_one_for_the_attempts_to_tell_one_thing() -> None:
    late = finding_items([LATE])
    key = message_key("handbook", 0, [*late, CHECK])
    assert key == message_key("handbook", 0, [CHECK, *late])
    others = [
        message_key("handbook", 1, [CHECK, *late]),
        message_key("handbook", 0, late),
        message_key("h", 0, [CHECK, *late]),
    ]
    assert len({key, *others}) == 4


def test_every_check_that_is_told_has_words() -> None:
    assert tuple(CHECKS) == TOLD_CHECKS
