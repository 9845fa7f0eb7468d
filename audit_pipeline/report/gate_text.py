"""The gate's judgement in words: for a terminal, and as Markdown for a pull request. No figure is computed here."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from audit_pipeline.plural import counted
from audit_pipeline.report.compare import Change
from audit_pipeline.report.gate import Gate, Judgement
from audit_pipeline.report.power import MOST_QUESTIONS, WANTED
from audit_pipeline.report.wording import number, percent, visible

COLUMNS = 100
ERRORS_SHOWN = 10
_STATE = {"failed": "failed", "passed": "passed", "not_seen": "could not be seen", "not_measured": "not measured"}


def headline(gate: Gate) -> str:
    """The verdict in one sentence."""
    failed, unseen, absent = gate.of("failed"), gate.of("not_seen"), gate.of("not_measured")
    reasons = [f"{_names(failed)} fell beyond chance by more than {points(gate.margin)}"] if failed else []
    if gate.errors_fail and gate.new_errors:
        reasons.append(counted(len(gate.new_errors), "new error finding"))
    aside = [f"could not be seen: {_names(unseen)}"] if unseen else []
    aside += [f"not measured: {_names(absent)}"] if absent else []
    if reasons:
        verdict = f"Gate failed: {' and '.join(reasons)}"
    elif gate.of("passed"):
        verdict = (
            f"Gate passed: {_names(gate.of('passed'))} did not fall beyond chance by more than {points(gate.margin)}"
        )
    else:
        verdict = f"Gate not failed, but too few questions to see a loss of {points(gate.margin)}"
    return "; ".join([verdict, *aside]) + "."


def sentence(one: Judgement, margin: float) -> str:
    """What is said of one measure."""
    change = one.change
    if change is None:
        return f"{one.measure} is not measured: {one.why}."
    moved = "fell" if change.difference < 0 else "rose"
    if not change.difference:
        said = f"{one.measure} stayed at {percent(change.a)}"
    else:
        said = (
            f"{one.measure} {moved} by {points(abs(change.difference))}, {percent(change.a)} to {percent(change.b)} "
            f"(95 % interval {_interval(change)})"
        )
    said += f", n {number(change.n)}, {number(change.won)} won, {number(change.lost)} lost"
    judged = f"p {_p(one.p)} after Holm"
    if one.state == "failed":
        causes = ", ".join(f"{cause} {number(n)}" for cause, n in change.causes.items())
        return f"{said}: beyond chance ({judged}) and beyond the margin of {points(margin)}; lost to {causes}."
    if one.state == "not_seen":
        return f"{said}: could not be seen: {_too_few(one, margin)}."
    if not change.difference:
        verdict = "unchanged"
    elif one.beyond_chance and change.difference < 0:
        verdict = f"a loss within the margin of {points(margin)}"
    elif change.difference < 0:
        verdict = f"no loss beyond chance of more than {points(margin)} ({judged})"
    else:
        verdict = "no loss"
    return f"{said}: {verdict}; {_sees(one, margin)}."


def gate_text(gate: Gate) -> str:
    """Everything for a terminal, the verdict first."""
    lines = _wrapped(headline(gate))
    for one in gate.measures:
        lines += _wrapped(f"{_STATE[one.state].upper()} {sentence(one, gate.margin)}", "  ")
    if gate.new_errors:
        lines += _wrapped(f"{_errors(gate)}:")
        lines += [line for finding in gate.new_errors[:ERRORS_SHOWN] for line in _wrapped(_finding(finding), "  ")]
        lines += _wrapped(_more(gate), "  ")
    for caution in gate.cautions:
        lines += _wrapped(f"Mind: {caution}")
    return "\n".join(lines) + "\n"


def gate_markdown(gate: Gate) -> str:
    """A comment for a pull request: verdict, table, what could not be seen, new errors.

    Names come from the corpus and its table, so they stand in code spans, where no Markdown, HTML or mention works.
    """
    lines = [f"### {headline(gate)}", ""]
    if gate.name:
        lines += [f"Index {code(gate.name)}: the candidate against the baseline, on the questions that both asked.", ""]
    lines += [
        "| measure | baseline | candidate | change (95 % interval) | n | won | lost | verdict |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    lines += [_row(one) for one in gate.measures]
    told = [one for one in gate.measures if one.state != "passed"]
    lines += ["", *(f"- {_plain(sentence(one, gate.margin))}" for one in told)]
    if gate.new_errors:
        lines += ["", f"**{_errors(gate)}:**", ""]
        lines += [f"- {code(_finding(finding))}" for finding in gate.new_errors[:ERRORS_SHOWN]]
        lines += [f"- {_more(gate)}"] if _more(gate) else []
    if gate.cautions:
        lines += ["", *(f"- Mind: {code(caution)}" for caution in gate.cautions)]
    tested = len([one for one in gate.measures if one.change is not None])
    lines += [
        "",
        f"Fails on a loss of more than {points(gate.margin)} that is beyond chance: exact McNemar test of the same "
        f"questions, {100 * gate.alpha:g} % over {counted(tested, 'measure')} together (Holm). A measure could not be "
        f"seen where a loss of {points(gate.margin)} would be told from chance less than {100 * WANTED:.0f} times "
        "in 100.",
    ]
    return "\n".join(lines) + "\n"


def points(share: float) -> str:
    """A difference of shares in percentage points."""
    figure = f"{100 * share:.1f}".removesuffix(".0") if 100 * share >= 0.1 else f"{100 * share:.2g}"
    return f"{figure} point" + ("" if figure == "1" else "s")


def code(text: str) -> str:
    """Untrusted text as a Markdown code span."""
    return f"`{visible(text).replace('`', chr(39)).replace('|', '/')}`"


def _plain(text: str) -> str:
    """A sentence of ours, which may hold a cause or a reason, on one line and without marks of Markdown or HTML."""
    return visible(text).replace("|", "/").replace("<", "&lt;").replace("`", "'")


def _row(one: Judgement) -> str:
    change = one.change
    if change is None:
        return f"| {one.measure} | | | | 0 | | | {_STATE[one.state]} |"
    state = f"**{_STATE[one.state]}**" if one.state == "failed" else _STATE[one.state]
    moved = f"{100 * change.difference:+.1f} ({_interval(change)})"
    return (
        f"| {one.measure} | {percent(change.a)} | {percent(change.b)} | {moved} | {number(change.n)} | "
        f"{number(change.won)} | {number(change.lost)} | {state} |"
    )


def _sees(one: Judgement, margin: float) -> str:
    if one.power is None or one.power < WANTED:  # only beside a rise beyond chance
        return "the rise is beyond chance"
    return f"a loss of {points(margin)} would be told from chance {_times(one.power)}"


def _too_few(one: Judgement, margin: float) -> str:
    if one.change is not None and one.change.a < margin:
        return f"the baseline finds less than {points(margin)}, so there is no more to lose"
    told = f"a loss of {points(margin)} would be told from chance {_times(one.power or 0.0)}"
    if one.census:
        return f"every chunk was probed, and {told} by {counted(one.available or 0, 'question')}; {_wider(one)}"
    needed = f"more than {number(MOST_QUESTIONS)}" if one.needed is None else f"about {number(one.needed)}"
    said = f"too few questions, of which {told}; {needed} are needed for {100 * WANTED:.0f} times in 100"
    if one.available is not None and (one.needed is None or one.needed > one.available):
        return f"{said}, and the corpus has about {number(one.available)} (sample.total): {_wider(one)}"
    return f"{said} ({'more labelled queries' if one.measure.startswith('labelled') else 'sample.total'})"


def _wider(one: Judgement) -> str:
    """Where the corpus has no more questions: the loss that all of them can see."""
    if one.visible is None:
        return "they are too few to see any loss"
    return f"a loss of {points(one.visible)} is the least that all of them see (--margin {one.visible:g})"


def _times(power: float) -> str:
    if power < 0.01:
        return "less than once in 100 times"
    times = min(int(100 * power), 99)
    return "once in 100 times" if times == 1 else f"{times} times in 100"


def _interval(change: Change) -> str:
    return f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"


def _p(p: float | None) -> str:
    return "not known" if p is None else "under 0.0001" if p < 0.0001 else f"{p:.2g}"


def _names(several: Sequence[Judgement]) -> str:
    return ", ".join(one.measure for one in several)


def _errors(gate: Gate) -> str:
    told = "" if gate.errors_fail else ", told only (--fail-on-new-errors lets them fail the gate)"
    return f"{counted(len(gate.new_errors), 'error finding')} that the baseline does not have{told}"


def _more(gate: Gate) -> str:
    left = len(gate.new_errors) - ERRORS_SHOWN
    return f"... and {number(left)} more in the report" if left > 0 else ""


def _finding(finding: dict[str, Any]) -> str:
    scope = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in finding["scope"].items())
    return f"{finding['code']}{f' ({scope})' if scope else ''}: {finding['message']}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(visible(text), COLUMNS, initial_indent=indent, subsequent_indent=indent + "  ")
