"""The checks on a published report: passed, breached, or not measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.stages.checks import FIGURES
from audit_pipeline.stages.limits import CheckOutcome, report_check
from audit_pipeline.state import write_json
from audit_pipeline_tests.stages.builders import workspace


def figure(value: float | None, low: float | None, high: float | None, n: int) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n}


GOOD = figure(0.999, 0.997, 1.0, 1000)
NOT_MEASURED = figure(None, None, None, 0)
CLEAN: dict[str, Any] = {
    "self_retrieval": {"self@1": GOOD, "self@10": GOOD},
    "ann_recall": {"ann_recall@10": GOOD},
    "ann_sweep": {"n": 100},
    "held_out": {"heldout@10": figure(0.85, 0.81, 0.88, 300)},
    "labelled": {"labelled_success@10": figure(0.8, 0.75, 0.84, 250)},
    "observed": {"n": 50},
    "duplicates": {"recommended": {"provisional": False}, "clusters": {}},
    "findings": [],
}


def outcome(folder: Path, audit: dict[str, Any], check: str) -> CheckOutcome:
    work = workspace(folder)
    write_json(work.state.report / "audit.json", audit)
    return report_check(work, check)


@pytest.mark.parametrize("check", ["no_error_findings", *FIGURES])
def test_a_clean_report_passes_every_check_and_says_on_what(tmp_path: Path, check: str) -> None:
    found = outcome(tmp_path, CLEAN, check)
    assert found.passed
    assert found.figures
    assert "not measured" not in found.text


@pytest.mark.parametrize(
    ("check", "section", "name", "limit"),
    [
        ("self_at_1", "self_retrieval", "self@1", 0.98),
        ("self_at_10", "self_retrieval", "self@10", 0.995),
        ("ann_recall_at_10", "ann_recall", "ann_recall@10", 0.95),
    ],
)
def test_a_limit_is_breached_where_the_whole_interval_lies_under_it(
    tmp_path: Path, check: str, section: str, name: str, limit: float
) -> None:
    def with_high(high: float) -> CheckOutcome:
        measured = figure(limit - 0.05, limit - 0.08, high, 400)
        return outcome(tmp_path, {**CLEAN, section: {**CLEAN[section], name: measured}}, check)

    assert with_high(limit).passed
    breached = with_high(limit - 0.001)
    assert not breached.passed
    assert not breached.error  # a breached limit is a warning
    assert breached.text == (
        f"{name} {limit - 0.05:.3f} [{limit - 0.08:.3f}, {limit - 0.001:.3f}], n 400; limit {limit}"
    )
    assert breached.figures == {name: limit - 0.05, "n": 400}


def test_error_findings_fail_as_an_error_and_warnings_do_not(tmp_path: Path) -> None:
    findings = [
        {"code": "text_drift", "severity": "error"},
        {"code": "missing_rows", "severity": "error"},
        {"code": "missing_rows", "severity": "error"},
        {"code": "orphan_rows", "severity": "warning"},
    ]
    failed = outcome(tmp_path, {**CLEAN, "findings": findings}, "no_error_findings")
    assert (failed.passed, failed.error) == (False, True)
    assert failed.text == "error findings: missing_rows, text_drift"
    assert failed.figures == {"errors": 3}
    assert outcome(tmp_path, {**CLEAN, "findings": findings[3:]}, "no_error_findings").passed


def test_the_labelled_gap_follows_the_finding(tmp_path: Path) -> None:
    gap = {**CLEAN, "findings": [{"code": "relationship_gap", "severity": "warning"}]}
    failed = outcome(tmp_path, gap, "labelled_gap")
    assert (failed.passed, failed.error) == (False, False)
    assert failed.figures == {"labelled_success@10": 0.8, "n": 250}


NO_TEN = {"self_retrieval": {"self@1": GOOD, "self@10": None}}
EXACT = {"ann_recall": {"ann_recall@10": NOT_MEASURED, "reason": "every search is exact: no ANN index"}}


@pytest.mark.parametrize(
    ("check", "change", "why"),
    [
        (
            "self_at_1",
            {"self_retrieval": {"self@1": NOT_MEASURED, "self@10": None}},
            "no chunk was searched for by its",
        ),
        (
            "self_at_10",
            {"self_retrieval": {"self@1": NOT_MEASURED, "self@10": None}},
            "no chunk was searched for by its",
        ),
        ("self_at_10", NO_TEN, "the application asks for fewer than 10 rows"),
        ("ann_recall_at_10", EXACT, "every search is exact: no ANN index"),
        ("labelled_gap", {"labelled": None}, "no labelled queries are configured (labels.queries)"),
        ("labelled_gap", {"labelled": {"labelled_success@10": NOT_MEASURED}}, "no labelled query was asked"),
        ("labelled_gap", {"held_out": {"heldout@10": NOT_MEASURED}}, "the held-out ceiling that labelled success"),
    ],
)
def test_what_was_not_measured_passes_says_so_first_and_has_no_figure(
    tmp_path: Path, check: str, change: dict[str, Any], why: str
) -> None:
    found = outcome(tmp_path, {**CLEAN, **change}, check)
    assert found.passed
    assert found.text.startswith(f"not measured: {why}")
    assert found.figures == {}


def test_everything_measured_says_what_was_not_and_what_is_undecided_and_never_fails(tmp_path: Path) -> None:
    clean = outcome(tmp_path, CLEAN, "everything_measured")
    assert (clean.text, clean.figures) == ("everything was measured and decided", {"not measured": 0, "undecided": 0})
    findings = [
        {"code": "undecided", "severity": "info", "message": "self@10 is undecided.", "evidence": {}},
        {
            "code": "not_measured",
            "severity": "info",
            "message": "Roles were not looked at.",
            "remedy": "Name an encoder.",
            "scope": {"source": "api"},
            "evidence": {},
        },
    ]
    found = outcome(tmp_path, {**CLEAN, **NO_TEN, "findings": findings}, "everything_measured")
    assert found.passed
    assert found.text == (
        "not measured: 2 (self@10: the application asks for fewer than 10 rows. "
        "Roles were not looked at. (source api) Name an encoder.); undecided: 1 (self@10 is undecided.)"
    )
    assert found.figures == {"not measured": 2, "undecided": 1}
