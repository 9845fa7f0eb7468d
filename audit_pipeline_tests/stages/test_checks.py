"""One table says which checks speak for a finding: no code is left out, no check without something that fails it."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit_pipeline.findings import (
    ERROR_CODES,
    INFO_CODES,
    SEVERITIES_OF_AMBIGUOUS_CODES,
    WARNING_CODES,
    severities_of,
)
from audit_pipeline.report_settings import LimitSettings
from audit_pipeline.stages.checks import CHECKS_OF, FIGURES, REPORT_CHECKS, codes_of
from audit_pipeline_tests.stages.test_limits import CLEAN, outcome

EVERY_CODE = ERROR_CODES | WARNING_CODES | INFO_CODES | SEVERITIES_OF_AMBIGUOUS_CODES.keys()
CAN_FAIL = sorted(
    code for code in EVERY_CODE if severities_of(code) != {"info"} and not set(CHECKS_OF[code]) & {*FIGURES}
)


def test_every_finding_code_stands_in_the_table_and_nothing_else_does() -> None:
    assert set(CHECKS_OF) == EVERY_CODE


def test_every_check_is_one_of_the_report_and_speaks_for_some_code() -> None:
    named = {check for checks in CHECKS_OF.values() for check in checks}
    assert named | {"no_error_findings"} == set(REPORT_CHECKS)
    assert {code for check in REPORT_CHECKS for code in codes_of(check)} == EVERY_CODE


def test_each_limit_of_the_settings_has_a_check_of_its_name() -> None:
    assert set(LimitSettings.model_fields) <= set(REPORT_CHECKS)


@pytest.mark.parametrize("code", CAN_FAIL)
def test_a_finding_fails_its_check_as_badly_as_it_is_and_no_other(tmp_path: Path, code: str) -> None:
    for severity in sorted(severities_of(code) - {"info"}):
        audit = {**CLEAN, "findings": [{"code": code, "severity": severity, "evidence": {}}]}
        failed = {}
        for check in REPORT_CHECKS:
            found = outcome(tmp_path, audit, check)
            if not found.passed:
                failed[check] = found.error
        assert failed.pop("no_error_findings", None) == (True if severity == "error" else None)
        assert failed == dict.fromkeys(CHECKS_OF[code], severity == "error")


@pytest.mark.parametrize("code", sorted(code for code in EVERY_CODE if "info" in severities_of(code)))
def test_a_note_fails_no_check(tmp_path: Path, code: str) -> None:
    finding = {"code": code, "severity": "info", "message": "", "remedy": "", "scope": {}, "evidence": {}}
    audit = {**CLEAN, "findings": [finding]}
    assert all(outcome(tmp_path, audit, check).passed for check in REPORT_CHECKS)


def test_a_check_says_what_of_it_was_not_measured(tmp_path: Path) -> None:
    evidence = {"checks": ["missing_rows", "orphan_rows"]}
    said = {"message": "No sources.", "remedy": "Name them.", "scope": {}}
    unmeasured = {"code": "not_measured", "severity": "info", "evidence": evidence, **said}
    found = outcome(tmp_path, {**CLEAN, "findings": [unmeasured]}, "rows_as_in_store")
    assert found.passed
    assert found.text == "no finding; not measured: missing_rows, orphan_rows"
    assert found.figures == {"errors": 0, "warnings": 0, "notes": 0, "not measured": 2}


def test_findings_of_a_check_are_counted_by_severity(tmp_path: Path) -> None:
    findings = [
        {"code": code, "severity": severity, "evidence": {}}
        for code, severity in [
            ("missing_rows", "error"),
            ("missing_rows", "error"),
            ("empty_text", "warning"),
            ("generations", "info"),
            ("invalid_vectors", "error"),
        ]
    ]
    found = outcome(tmp_path, {**CLEAN, "findings": findings}, "rows_as_in_store")
    assert (found.passed, found.error) == (False, True)
    assert found.text == "empty_text, missing_rows"
    assert found.figures == {"errors": 2, "warnings": 1, "notes": 1, "not measured": 0}
