from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.report.summary import COLUMNS, LINES, exit_code, terminal_summary
from audit_pipeline.report.verdict_words import verdict_words
from audit_pipeline_tests.report.sample_audit import sample_audit

REPORT = Path("/state/reports/handbook")


def test_the_summary_fits_one_screen_and_says_what_matters(audit: dict[str, Any]) -> None:
    text = terminal_summary(audit, REPORT)
    lines = text.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    for words in (
        "queries and documents do not meet (relationship)",
        "n 300 ",
        "among 91,000 rows",
        "findings: 2 errors, 8 warnings, 2 notes",
        "ERROR   role_mismatch",
        "dg launch --job ingest_batch --partition '2025-02-03|team-04'",
        "8.3 % with paraphrases",
        "duplicates from cosine 0.96 (regime stored)",
        "/state/reports/handbook/audit.html",
        "exit 1: at least one error finding",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("high", "errors", "said"),
    [(0.40, False, True), (0.89, False, True), (0.91, False, False), (0.97, False, False), (0.40, True, False)],
)
def test_a_search_that_loses_far_more_than_its_limit_allows_heads_the_screen(
    high: float, errors: bool, said: bool
) -> None:
    """Of one row in twenty that may be lost, certainly one in ten is: a warning by its code, and the headline."""
    told = sample_audit(labels=False)
    told["verdict"]["reading"] = "not_measured"
    told["findings"] = [finding for finding in told["findings"] if errors or finding["severity"] != "error"]
    told["ann_recall"]["ann_recall@10"] = {"value": high - 0.02, "low": high - 0.04, "high": high, "n": 400}
    first = terminal_summary(told, REPORT).splitlines()[0]
    assert ("its search loses most of what stands beside them" in first) is said
    assert verdict_words(told)[0] == ("bad" if said else "unsure")


def test_a_single_finding_is_no_plural(audit: dict[str, Any]) -> None:
    one = {**audit, "findings": [finding for finding in audit["findings"] if finding["severity"] == "error"][:1]}
    assert "findings: 1 error, 0 warnings, 0 notes" in terminal_summary(one, REPORT)


def test_the_summary_is_ascii_for_terminals_that_know_no_more() -> None:
    assert terminal_summary(sample_audit(), REPORT).isascii()


def test_what_was_not_measured_is_said_and_never_shown_as_a_figure() -> None:
    lines = terminal_summary(sample_audit(labels=False), REPORT).splitlines()
    assert next(line for line in lines if "labelled@10" in line).split()[1:3] == ["not", "measured"]
    assert ", provisional)" in "".join(lines)


def test_siblings_that_differ_in_numbers_only_are_not_called_redundant() -> None:
    told = sample_audit()
    assert "redundant: 2.1 % exact copies, 4.8 % with edited copies, 8.3 % with paraphrases (about 44.5 % of" in (
        terminal_summary(told, REPORT)
    )
    assert "numbers only" not in terminal_summary(told, REPORT)
    told["duplicates"]["redundancy"] = {"exact": 0.0, "lexical": 0.99995, "embedding": None}
    told["duplicates"]["numbers_only"] = {"lexical": 0.99995, "embedding": None}
    lines = " ".join(terminal_summary(told, REPORT).splitlines())
    numbers = ">99.9 % more differ from others in numbers only: distinct facts, not redundant"
    assert f"redundant: 0 % exact copies, 0 % with edited copies; {numbers}" in lines


def test_long_messages_hostile_names_and_long_paths_keep_the_shape(audit: dict[str, Any]) -> None:
    wild = copy.deepcopy(audit)
    wild["verdict"]["text"] = "word " * 400
    for finding in wild["findings"]:
        finding |= {"message": "long " * 200, "remedy": "mend " * 200}
    shown = [line.split()[1:3] for line in terminal_summary(wild, REPORT).splitlines() if "->" in line]
    assert shown == [["mend", "mend"]]  # a message may be shortened, what to do is not
    wild["findings"][0]["scope"] = {"source": "\x1b[31mred\nline\u202e"}
    path = Path("/" + "deep/" * 40 + "handbook")
    lines = terminal_summary(wild, path).splitlines()
    assert len(lines) <= LINES
    assert [line for line in lines if len(line) > COLUMNS] == [f"report  {path}/audit.html"]
    assert "\x1b" not in "".join(lines)
    assert any(line.lstrip().startswith("ERROR") for line in lines)
    assert lines[1:11] == [
        *["word word word word word word word word word word word word word word word word word word word word"] * 9,
        "(The rest is in the report.)",
    ]
    assert "more in the report" in "".join(lines)
    assert "".join(lines).count("mend") == 200


@pytest.mark.parametrize(("severities", "code"), [([], 0), (["info", "warning"], 0), (["warning", "error"], 1)])
def test_only_error_findings_change_the_exit_code(audit: dict[str, Any], severities: list[str], code: int) -> None:
    judged = {**audit, "findings": [{**audit["findings"][0], "severity": severity} for severity in severities]}
    assert exit_code(judged) == code
    assert f"exit {code}:" in terminal_summary(judged, REPORT)


def test_the_figures_that_open_the_text_are_not_said_twice(audit: dict[str, Any]) -> None:
    told = copy.deepcopy(audit)
    told["verdict"]["text"] = "self@1 99.1% (98.6% to 99.4%, n 2,000); self@10 not measured. Chunks find themselves."
    text = terminal_summary(told, REPORT)
    assert text.splitlines()[1] == "Chunks find themselves."


def test_a_long_text_is_left_out_by_whole_sentences(audit: dict[str, Any]) -> None:
    sentences = [f"Sentence {number:02} of the reading ends with its figure, {'x' * 43} 0.5 %." for number in range(14)]
    assert {len(sentence) for sentence in sentences} == {99}  # a line each
    told = {**audit, "verdict": {**audit["verdict"], "text": " ".join(sentences)}}
    lines = terminal_summary(told, REPORT).splitlines()
    assert lines[1:11] == [*sentences[:9], "(The rest is in the report.)"]
    told["verdict"]["text"] = " ".join(sentences[:10])
    assert terminal_summary(told, REPORT).splitlines()[1:11] == sentences[:10]


def test_agreement_of_labellers_is_told_where_pairs_were_judged_twice() -> None:
    lines = terminal_summary(sample_audit(), REPORT).splitlines()
    (first,) = [place for place, line in enumerate(lines) if "people" in line]
    told = "labels: 2 people agree on 97.0 % (91.5 to 99.0 %) of 100, kappa 0.94, 2 in conflict, not used, 1 settled"
    assert " ".join(lines[first : first + 2]) == told
    assert "people agree" not in terminal_summary(sample_audit(labels=False), REPORT)


def test_the_screen_says_why_no_threshold_is_recommended_or_one_not_to_be_relied_on(audit: dict[str, Any]) -> None:
    duplicates = audit["duplicates"]
    caution = "0.9 is the lowest row of the sweep and a better one may lie below: extend duplicates.thresholds. " * 3
    reason = "No cosine threshold can be recommended: 4 duplicates and 9 non-duplicates are labelled. Regime stored: x."
    for changed, told in (
        ({"threshold": None, "reason": reason}, "(regime stored): 4 duplicates and 9 non-duplicates are labelled.\n"),
        ({"threshold": 0.9, "caution": caution}, "cosine 0.9 (regime stored), but 0.9 is the lowest row of the sweep"),
    ):
        part = duplicates | {"recommended": duplicates["recommended"] | changed}
        screen = terminal_summary(audit | {"duplicates": part}, Path("reports/manual"))
        assert told in screen
        assert "\nencoded " in screen
        assert not [line for line in screen.splitlines() if line.endswith(" ...") and "--source" not in line]
        assert len(screen.splitlines()) <= LINES
        assert max(map(len, screen.splitlines())) <= 100
