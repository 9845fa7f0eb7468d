"""The message: its form, its limits, and what never stands in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from audit_pipeline.alert_settings import TOLD_CHECKS
from audit_pipeline.report.alerts import Item, finding_items
from audit_pipeline.report.webhook_message import CHECKS, message, message_key
from audit_pipeline_tests.report.sample_tables import SECRET_TEXT
from audit_pipeline_tests.report.test_alerts import LATE, finding

CHECK = Item("check", "table_holds_batch", {"source": "late", "ingestion_date": "2026-01-03"}, "Look.")
RUN = Item("run", "ingest_failed", {"run": "0f3a", "source": "late", "ingestion_date": "2026-01-03"}, "Read why.")


def text_objects(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for block in body["blocks"] for one in ([block["text"]] if "text" in block else block["elements"])]


def texts(body: dict[str, Any]) -> list[str]:
    return [one["text"] for one in text_objects(body)]


def test_a_message_says_what_is_new_where_and_what_to_do() -> None:
    body = message("handbook", [*finding_items([LATE]), CHECK, RUN], audit=None, muted=2)
    assert body["text"] == "handbook: 1 new error, 1 failed check, 1 failed run (2 things muted)"
    assert [block["type"] for block in body["blocks"]] == ["header", "section", "section", "section", "context"]
    assert texts(body) == [
        "handbook: 1 new error, 1 failed check, 1 failed run",
        "*RUN* A batch was not brought in (`ingest_failed`)\n• `run 0f3a, source late, ingested 2026-01-03`\n"
        "→ Read why.",
        "*ERROR* Rows missing from the index (`missing_rows`)\n• `source late`: 25.0 % of 40\n→ Mend it.",
        "*CHECK* The table does not hold the batch as it should (`table_holds_batch`)\n"
        "• `source late, ingested 2026-01-03`\n→ Look.",
        "No audit has been published yet. 2 things muted by alerts.mute.",
    ]


def test_a_check_on_all_batches_says_which() -> None:
    which = "2026-01-02|a (new), 2026-01-03|`<a>` (emptied) and 3 more"
    item = Item("check", "covers_all_batches", {}, "Run.", which=which)
    (_, section, _) = texts(message("handbook", [item], audit=None))
    assert section.splitlines()[1] == "• `2026-01-02|a (new), 2026-01-03|'&lt;a&gt;' (emptied) and 3 more`"
    assert item.is_same(Item("check", "covers_all_batches", {}, "Run.", which="2026-01-02|a (new)"))


@pytest.mark.parametrize(
    ("scope", "evidence", "shown"),
    [
        ({"source": "wiki"}, {"document": "manual.md"}, "`source wiki, one document`"),
        ({}, {"filter": {"user_id": "u1"}}, "`whole corpus, one tenant`"),
        ({"source": "wiki"}, {"measure": "self@1"}, "`source wiki`"),
    ],
)
def test_one_document_or_tenant_is_not_told_as_all_of_its_source(
    scope: dict[str, str], evidence: dict[str, Any], shown: str
) -> None:
    items = finding_items([finding("stratum_anomaly", "warning", 26, evidence, **scope)])
    said = "\n".join(texts(message("small", items, audit=None)))
    assert f"• {shown}: " in said
    assert "manual.md" not in said
    assert "u1" not in said


def test_the_first_message_says_so_and_a_repeated_one_too(audit: dict[str, Any]) -> None:
    first = message("handbook", [], audit=audit, summary=True)
    assert first["text"] == "handbook: alerts are on; what stands now: no error, no warning"
    assert texts(first)[-1].startswith("Last audit 2026-03-01 06:30 UTC: ")
    assert "Report:" not in texts(first)[-1]
    again = message("handbook", [CHECK], audit=audit, again=True)
    assert texts(again)[-1].startswith("No answer came to an earlier post, so this may stand above already.")


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ("https://search.example/r/audit.html?of=a&day=1", "<https://search.example/r/audit.html?of=a&amp;day=1>"),
        ("/srv/<state>/reports/handbook/audit.html", "/srv/&lt;state&gt;/reports/handbook/audit.html"),
    ],
)
def test_the_report_is_a_link_or_a_path(audit: dict[str, Any], report: str, shown: str) -> None:
    assert texts(message("handbook", [CHECK], audit=audit, report=report))[-1].endswith(f" Report: {shown}")
    assert "Report:" not in texts(message("handbook", [CHECK], audit=None, report=report))[-1]


def test_what_no_longer_stands_is_marked() -> None:
    items = finding_items([LATE, finding("missing_rows", source="handbook")])
    (_, section, _) = texts(message("handbook", items, audit=None, gone=items[:1]))
    assert section.splitlines()[1:3] == [
        "• `source handbook`: 25.0 % of 40",
        "• `source late`: 25.0 % of 40 (no longer found)",
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<!channel>", "&lt;!channel&gt;"),
        ("<@U0123>|<https://x.example|y>", "&lt;@U0123&gt;|&lt;https://x.example|y&gt;"),
        ("&lt;!here&gt;", "&amp;lt;!here&amp;gt;"),
        ("@channel #general https://x.example", "@channel #general https://x.example"),
        ("`*a*` _b_ :tada:", "'*a*' _b_ :tada:"),
        ("a\nb", "a b"),
        ("\u202eevil\u061c\u2067", "\ufffdevil\ufffd\ufffd"),
        (None, "(none)"),
    ],
)
def test_a_name_of_a_source_is_read_as_it_stands(name: str | None, shown: str) -> None:
    """As code in a text that is verbatim, no mention, link, emoji or mark is read but those of <, > and &."""
    body = message("handbook", finding_items([finding("missing_rows", source=name)]), audit=None)
    assert texts(body)[1].splitlines()[1] == f"• `source {shown}`: 25.0 % of 40"
    marked = [one for one in text_objects(body) if one["type"] == "mrkdwn"]
    assert [one["verbatim"] for one in marked] == [True, True]
    assert "source" not in body["text"] + texts(body)[0]


@pytest.mark.parametrize("letter", ["s", "&", "ü", "\U0001f4a5"])
def test_a_message_keeps_the_limits_of_slack_however_much_is_new(letter: str) -> None:
    long = letter * 5000
    items = finding_items(
        finding(code, "error" if code != "self_low" else "warning", source=f"{n}{long}")
        for code in ("missing_rows", "text_drift", "self_low")
        for n in range(100)
    )
    items += [
        Item("check", CHECK.code, {"source": "late", "ingestion_date": str(n)}, f"Look {n}. {long}") for n in range(60)
    ]
    body = message("n" * 63, items, audit=None)
    shown = texts(body)[1:-2]
    assert len(body["blocks"]) <= 50
    assert len(body["blocks"][0]["text"]["text"]) <= 150
    assert max(len(text) for text in texts(body)) <= 3000
    assert len(json.dumps(body["blocks"])) <= 10_000
    assert len(body["text"]) <= 4_000
    # Of 63 groups (three codes with 100 places each, 60 checks) as many as fit; the others are counted.
    left = 100 * max(3 - len(shown), 0) + 60 - max(len(shown) - 3, 0)
    assert texts(body)[-2] == f"... and {left} more in the report and in Dagster."
    assert all("• and 95 more places" in text for text in shown[:3])
    assert all("\n→ " in text for text in shown)


def test_short_news_of_many_kinds_fit_up_to_twenty_of_them() -> None:
    items = [Item("check", CHECK.code, {"source": "late", "ingestion_date": str(n)}, f"Look {n}.") for n in range(200)]
    body = message("handbook", items, audit=None)
    assert len(body["blocks"]) == 1 + 20 + 2
    assert texts(body)[-2] == "... and 180 more in the report and in Dagster."


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
