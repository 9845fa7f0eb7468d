"""The one-screen terminal summary and the exit code it explains. Plain text only; no file is written here."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit_pipeline.plural import counted
from audit_pipeline.report.finding_groups import FindingGroup, group_findings
from audit_pipeline.report.redundancy_words import numbers_words, redundancy_parts
from audit_pipeline.report.verdict_words import verdict_words
from audit_pipeline.report.wording import (
    agreement_words,
    interval,
    is_measured,
    number,
    percent,
    severity_counts,
    unmeasured_checks,
    visible,
    without_figures,
)

LINES, COLUMNS = 40, 100
_VERDICT_LINES = 10
_THRESHOLD_LINES = 6
_MEANING = 51  # where the words beside a figure begin
_REST = "(The rest is in the report.)"
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z0-9])")
_EXIT_WORDS = {
    0: "exit 0: no error finding",
    1: "exit 1: at least one error finding",
}


def exit_code(audit: Mapping[str, Any], left_out: int = 0) -> int:
    """2 where a batch was left out, else 1 where a finding is an error (rows wrong, lost or unreachable), else 0;
    warnings do not change it.
    """
    return 2 if left_out else int(any(finding["severity"] == "error" for finding in audit["findings"]))


def terminal_summary(audit: Mapping[str, Any], report: Path, left_out: int = 0) -> str:
    """The audit on at most 40 lines of 100 columns: reading, figures, findings, duplicates, where the report is.

    Lines are wrapped, and what there is no room for is left out by whole sentences and findings: a sentence that was
    cut would lose its figure, or what to do.

    ``report`` is the published folder or its page, ``left_out`` how many batches could not be brought in, which is told
    after the summary. Only a path longer than a line makes a longer line.
    """
    page = report if report.suffix == ".html" else report / "audit.html"
    head = _wrapped(f"{audit['name']}: {verdict_words(audit)[1]} ({audit['verdict']['reading']})")
    head += _sentences(without_figures(audit["verdict"]["text"]), _VERDICT_LINES)
    figures = _figure_lines(audit)
    tail = [*_duplicates_lines(audit), *_agreement_line(audit), *_threshold_lines(audit)]
    tail += [f"report  {page}", *_wrapped(_exit_words(audit, left_out))]  # a path that was cut cannot be opened
    room = LINES - len(head) - len(figures) - len(tail)
    return "\n".join([*head, *figures, *_finding_lines(audit["findings"], room), *tail]) + "\n"


def _exit_words(audit: Mapping[str, Any], left_out: int) -> str:
    if left_out:
        return f"exit 2: {counted(left_out, 'batch', 'batches')} could not be brought in, see below"
    return _EXIT_WORDS[exit_code(audit)]


def _figure_lines(audit: Mapping[str, Any]) -> list[str]:
    own, held, labelled = audit["self_retrieval"], audit["held_out"], audit["labelled"] or {}
    haystack = f"among {counted(own['haystack'], 'row')}"
    rows = [
        ("self@1", own["self@1"], f"own text comes first, {haystack}"),
        ("self@10", own["self@10"], "own text among the first 10"),
        ("heldout@10", held["heldout@10"], "one sentence finds the rest of its chunk"),
        ("labelled@10", labelled.get("labelled_success@10"), "a judged query finds a relevant chunk"),
        (
            "ann_recall@10",
            audit["ann_recall"]["ann_recall@10"],
            audit["ann_recall"].get("reason", "results as good as an exact search"),
        ),
    ]
    observed = audit["observed"]
    if observed is not None:
        rows += [
            ("as_configured", observed["as_configured"], "production queries carry the configured prompt"),
            ("observed", observed["observed_recall"], "rows production got are the closest there are"),
        ]
    lines = []
    for name, figure, meaning in rows:
        lines += _wrapped(f"  {name:<13} {_figure(figure):<34} {meaning}", " " * _MEANING)
    if any("missing_rows" in unmeasured_checks(finding) for finding in audit["findings"]):
        lines.append(f"  {'store':<13} {'not measured':<34} missing, orphaned, changed rows: no sources to tell")
    return lines


def _figure(figure: Any) -> str:
    if not is_measured(figure):
        return "not measured"
    return f"{percent(figure['value']):>7} ({interval(figure)}) n {number(figure['n'])}"


def _finding_lines(findings: list[Mapping[str, Any]], room: int) -> list[str]:
    counts = {severity: sum(f["severity"] == severity for f in findings) for severity in ("error", "warning", "info")}
    lines = [f"findings: {severity_counts(counts)}"]
    groups = group_findings(findings)
    for shown, group in enumerate(groups):
        # A command that was cut cannot be run, so a finding stands whole or not at all; one line is kept for the rest.
        whole = _finding(group) if shown else _finding(group, max(2, room - 2))
        if len(lines) + len(whole) + (shown + 1 < len(groups)) > room:
            left = sum(len(hidden.findings) for hidden in groups[shown:])
            return [*lines, f"  ... and {left} more in the report"]
        lines += whole
    return lines


def _finding(group: FindingGroup, most: int | None = None) -> list[str]:
    """What is wrong, then what to do; of more than ``most`` lines the message is shortened, and the remedy stays."""
    head = f"{group.severity.upper():<7} {group.code}: {group.where} ({group.share}): {group.first['message']}"
    remedy = _wrapped(group.first["remedy"], " " * 10, first=" " * 7 + "-> ")[:most]
    room = None if most is None else max(1, most - len(remedy))
    told = textwrap.wrap(
        visible(head), COLUMNS, initial_indent="  ", subsequent_indent=" " * 10, max_lines=room, placeholder=" ..."
    )
    return [*told, *remedy][:most]


def _duplicates_lines(audit: Mapping[str, Any]) -> list[str]:
    parts = redundancy_parts(audit["duplicates"])
    kinds = [f"{percent(share)} {words}" for share, words in parts if share is not None]
    numbers = numbers_words(audit["duplicates"])
    said = f"redundant: {', '.join(kinds) or 'not measured'}"
    return _wrapped(f"{said}; {numbers}" if numbers else said)


def _agreement_line(audit: Mapping[str, Any]) -> list[str]:
    words = agreement_words(audit["duplicates"].get("labels"))
    return _wrapped(f"labels: {words}") if words else []


def _threshold_lines(audit: Mapping[str, Any]) -> list[str]:
    row = audit["duplicates"]["recommended"]
    if row["threshold"] is None:
        why = row["reason"].partition(" Regime ")[0].removeprefix("No cosine threshold can be recommended: ")
        said = f"no duplicate threshold recommended (regime {row['regime']}): {why}"
        return [*_sentences(said, _THRESHOLD_LINES), _encoded(audit)]
    provisional = ", provisional" if row["provisional"] else ""
    said = f"duplicates from cosine {row['threshold']:g} (regime {row['regime']}{provisional})"
    if row.get("caution"):
        return [*_sentences(f"{said}, but {row['caution']}", _THRESHOLD_LINES), _encoded(audit)]
    return _wrapped(f"{said}; {_encoded(audit)}")


def _encoded(audit: Mapping[str, Any]) -> str:
    encoded = audit["encoded"]
    seconds = sum(audit["timings"].values())
    return f"encoded {counted(encoded['texts'], 'text')}, {number(encoded['from_cache'])} from cache; {seconds:.0f} s"


def _wrapped(text: str, indent: str = "", *, first: str = "") -> list[str]:
    return textwrap.wrap(visible(text), COLUMNS, initial_indent=first, subsequent_indent=indent)


def _sentences(text: str, most: int) -> list[str]:
    """As many whole sentences of the text as fit, and that there are more."""
    whole = _wrapped(text)
    sentences = _SENTENCE.split(text)
    while len(whole) > most and len(sentences) > 1:
        sentences.pop()
        whole = _wrapped(" ".join([*sentences, _REST]))
    return whole if len(whole) <= most else [*whole[: most - 1], _REST]
