from __future__ import annotations

from typing import Any

from audit_pipeline.findings import ERROR_CODES, INFO_CODES, SEVERITIES_OF_AMBIGUOUS_CODES, WARNING_CODES, Finding
from audit_pipeline.report.audit_json import audit_schema
from audit_pipeline.report.finding_groups import group_findings
from audit_pipeline.report.verdict_words import ANSWERS, READINGS
from audit_pipeline.report.wording import CAUSES, CODES, percent, scope_words, share_words


def finding(code: str, severity: Any, n: int, share: float | None, **scope: Any) -> dict[str, Any]:
    return Finding(code, severity, "message", "remedy", n, share, scope).as_dict()


def test_errors_come_first_and_among_them_what_affects_most_rows() -> None:
    groups = group_findings(
        [
            finding("self_low", "warning", 10_000, 0.5),
            finding("missing_rows", "error", 100, 0.1),
            finding("role_mismatch", "error", 1_000, 1.0, source="a"),
            finding("role_mismatch", "error", 2_000, 1.0, source="b"),
        ]
    )
    assert [(group.code, group.where) for group in groups] == [
        ("role_mismatch", "source b and 1 more place"),
        ("missing_rows", "whole corpus"),
        ("self_low", "whole corpus"),
    ]


def test_two_findings_in_one_place_are_not_told_as_two_places() -> None:
    both = [finding("self_low", "warning", 100, share) for share in (0.5, 0.4)]
    there = [finding("self_low", "warning", 100, share, source="a") for share in (0.3, 0.2)]
    assert group_findings(both)[0].where == "whole corpus, 2 findings"
    assert group_findings(both + there)[0].where == "whole corpus and 1 more place, 4 findings"


def test_what_is_said_of_labels_comes_after_what_is_said_of_the_index() -> None:
    groups = group_findings(
        [finding("labels_invalid", "warning", 2_000, 0.9), finding("self_low", "warning", 600, 0.1)]
    )
    assert [group.code for group in groups] == ["self_low", "labels_invalid"]


def test_every_code_cause_and_reading_has_plain_words() -> None:
    codes = ERROR_CODES | WARNING_CODES | INFO_CODES | set(SEVERITIES_OF_AMBIGUOUS_CODES)
    assert set(CODES) == codes
    schema = audit_schema()
    assert set(CAUSES) == set(schema["$defs"]["cause"]["enum"])
    readings = set(schema["properties"]["verdict"]["properties"]["reading"]["enum"])
    assert set(READINGS) == set(ANSWERS) == readings


def test_nothing_compared_is_not_measured_and_never_nought() -> None:
    assert share_words(finding("not_measured", "info", 0, None)) == "not measured"
    assert share_words(finding("missing_rows", "error", 520, 0.0788)) == "7.9 % of 520"


def test_a_share_never_rounds_to_all_or_none() -> None:
    assert [percent(value) for value in (1.0, 0.9999, 0.5, 0.00001, 0.0, None)] == [
        "100 %",
        ">99.9 %",
        "50.0 %",
        "<0.1 %",
        "0 %",
        "not measured",
    ]


def test_scopes_read_as_places() -> None:
    assert scope_words({}) == "whole corpus"
    assert scope_words({"source": None, "ingestion_date": "2026-01-02"}) == "source (none), ingested 2026-01-02"
    assert scope_words({"rows": [41_200, 50_000]}) == "rows 41,200 to 50,000"
    assert scope_words({"length_band": "0-39"}) == "chunks of 0-39 tokens"
