"""The comparison of two audits as plain lines for a terminal. No figure is computed here."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from audit_pipeline.report.by_document import AMONG_DOCUMENTS, IN_EQUAL_TEXT
from audit_pipeline.report.carried import carried_words
from audit_pipeline.report.compare import Change, Comparison
from audit_pipeline.report.duplicates_compared_text import duplicate_lines
from audit_pipeline.report.wording import number, percent, visible

COLUMNS = 100
_STRATA_SHOWN = 12
_FINDINGS_SHOWN = 10


def comparison_text(comparison: Comparison) -> str:
    """Everything that changed, whole first, then strata and findings; what could not be paired is said."""
    lines = []
    for word, folder, side in (("first", comparison.a, "a"), ("second", comparison.b, "b")):
        lines += [f"{word:<7} {folder}", *_wrapped(_side(comparison.sides[side]), " " * 8)]
    lines.append("")
    lines += _wrapped(_headline(comparison))
    lines += [line for change in comparison.changes for line in _change_lines(change)]
    lines += _cause_lines(comparison)
    lines += _document_lines(comparison)
    for run, why in comparison.not_compared.items():
        lines += _wrapped(f"not compared: {_RUN[run]}: {why}.")
    if comparison.changes:
        lines += _wrapped(
            "Shares are of the questions that both asked, each counted once; the corpus figures stand in each report."
        )
    lines += _pairing_lines(comparison)
    if comparison.strata:
        lines += ["", "strata that changed beyond chance:"]
        shown = sorted(comparison.strata, key=lambda change: (change.difference, change.measure))[:_STRATA_SHOWN]
        lines += [f"  {_scope(change)}: {_figures(change)}" for change in shown]
        if len(comparison.strata) > len(shown):
            lines.append(f"  ... and {len(comparison.strata) - len(shown)} more with --json")
    lines += ["", *(line for text, indent in duplicate_lines(comparison.duplicates) for line in _wrapped(text, indent))]
    for title, findings in (("new findings", comparison.new_findings), ("findings gone", comparison.gone_findings)):
        if findings:
            lines += ["", f"{title}:"]
            lines += [
                line
                for finding in findings[:_FINDINGS_SHOWN]
                for line in _wrapped(f"{finding['severity'].upper()} {finding['code']}: {finding['message']}", "  ")
            ]
            if len(findings) > _FINDINGS_SHOWN:
                lines.append(f"  ... and {len(findings) - _FINDINGS_SHOWN} more with --json")
    for carried in comparison.carried:
        lines += ["", *_wrapped(carried_words(carried))]
    for caution in comparison.cautions:
        lines += _wrapped(f"Mind: {caution}")
    return "\n".join(lines) + "\n"


_RUN = {
    "self": "self",
    "held_out": "held_out",
    "labelled": "labelled",
    "documents": "labelled by document",
}

_BECAME = {
    "asked_twice": "asked twice",
    "no_document": "whose document is not there",
    "not_whole": "whole in no chunk",
    "shared_chunk": "in a chunk that is asked another",
    "too_short": "with too little left of their chunk",
    "repeated": "twice in their chunk",
    "in_header": "in a repeated header",
    "missing_row": "of chunks missing in the table",
    "role_unknown": "of chunks whose vectors have no known prompt",
    "role_not_measured": "of chunks whose prompt was not measured",
    "text_not_embedded": "of chunks that were embedded without their text",
    "not_looked_at": "not looked at",
    "overlap": "also in another chunk near the top",
}


def _side(side: Mapping[str, Any]) -> str:
    """Encoder, prompts and index of one audit in one line."""
    encoder, index = side["encoder"], side["index"]
    prompts = ", ".join(
        f"{name} prompt {encoder[f'{name}_prompt']!r}" for name in ("query", "passage") if encoder[f"{name}_prompt"]
    )
    length = "" if side["median_words"] is None else f", half of them over {number(round(side['median_words']))} words"
    chunks = "" if side["chunks"] is None else f"; {number(side['chunks'])} chunks{length}"
    searched = f"; {index['metric']}, {index['index_type'] or 'no ANN index'}" if index["metric"] else ""
    return f"{encoder['model'] or 'no encoder'}, {prompts or 'no prompts'}{chunks}{searched}"


def _cause_lines(comparison: Comparison) -> list[str]:
    """Why the paired questions are missed, before and after."""
    lines = []
    for run, causes in comparison.causes.items():
        if causes["a"] or causes["b"]:
            before, after = (
                ", ".join(f"{cause} {number(n)}" for cause, n in causes[side].items()) or "nothing" for side in "ab"
            )
            lines += _wrapped(f"{_RUN[run]} missed: {before} -> {after}", "  ")
    return lines


def _document_lines(comparison: Comparison) -> list[str]:
    shown = {change.measure for change in comparison.changes}
    lines = []
    if AMONG_DOCUMENTS in shown:
        lines += _wrapped(
            f"{AMONG_DOCUMENTS}: a relevant document is among the first ten documents by their closest chunks, exactly "
            "scored, however many chunks they were cut into."
        )
    if IN_EQUAL_TEXT in shown:
        lines += _wrapped(
            f"{IN_EQUAL_TEXT}: it is reached in as much text as the shorter ten rows hold, since ten long chunks are "
            "more to read than ten short ones; labelled_success@10 does not allow for that."
        )
    return lines


def _headline(comparison: Comparison) -> str:
    measured = comparison.changes
    if not measured:
        return "Nothing can be compared: no question was asked by both audits."
    worse = [change.measure for change in measured if change.beyond_chance and change.difference < 0]
    better = [change.measure for change in measured if change.beyond_chance and change.difference > 0]
    parts = [f"worse: {', '.join(worse)}" if worse else "", f"better: {', '.join(better)}" if better else ""]
    said = "; ".join(part for part in parts if part)
    return f"Beyond chance {said}." if said else "No measure changed beyond chance on the questions that both asked."


def _change_lines(change: Change) -> list[str]:
    lines = [f"  {change.measure:<21} {_figures(change)}"]
    if change.lost:
        causes = ", ".join(f"{cause} {n}" for cause, n in change.causes.items())
        lines += _wrapped(f"lost to: {causes}; such as {', '.join(change.examples)}", " " * 24)
    return lines


def _figures(change: Change) -> str:
    interval = f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"
    said = "beyond chance" if change.beyond_chance else "within chance"
    return (
        f"{percent(change.a)} -> {percent(change.b)}  {100 * change.difference:+.1f} points ({interval}) "
        f"n {number(change.n)}, {number(change.won)} won, {number(change.lost)} lost: {said}"
    )


def _pairing_lines(comparison: Comparison) -> list[str]:
    lines = []
    for run, paired in comparison.paired.items():
        if run in comparison.not_compared:
            continue
        left = paired["only_a"] + paired["only_b"] + paired["changed"]
        if left:
            words = (
                f"{run}: {number(paired['n'])} questions in both; left out: {number(paired['only_a'])} of the first "
                f"only, {number(paired['only_b'])} of the second only, {number(paired['changed'])} whose text changed."
            )
            lines += _wrapped(words)
    if comparison.asked_again:
        asked = comparison.asked_again
        lost = [f"{number(asked[why])} {words}" for why, words in _BECAME.items() if asked.get(why)]
        lines += _wrapped(
            f"Of {number(asked['asked'])} sentences that one audit held out and the other was to be asked: "
            f"{', '.join(lost) or 'all were asked'}."
        )
    return lines


def _scope(change: Change) -> str:
    return f"{change.measure}, " + ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in change.scope.items()
    )


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(visible(text), COLUMNS, initial_indent=indent, subsequent_indent=indent + "  ")
