"""The message that tells news, as Slack and those that speak its form take it. What is news is not judged here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from audit_pipeline.findings import SEVERITY_ORDER
from audit_pipeline.plural import counted
from audit_pipeline.report.alerts import Item
from audit_pipeline.report.verdict_words import verdict_words
from audit_pipeline.report.wording import CODES, scope_words, share_words, visible

CHECKS = {
    "no_rows_rejected": "Rows that cannot be used",
    "batch_keeps_rows": "Rows it held can be used no more: not written, the table keeps the rows it had",
    "vectors_can_be_written": "Unusable vectors: not written",
    "table_holds_batch": "The table does not hold the batch as it should",
    "covers_all_batches": "Batches of the source store that the table lacks or has in an older state",
    "no_failed_batches": "Batches left half done or faulty by their last ingest",
}
RUNS = {"audit_failed": "The audit itself failed", "ingest_failed": "A batch was not brought in"}

# Slack takes no more than 50 blocks, 3,000 characters in one and 150 in a heading; chat.postMessage refuses blocks of
# more than about 11,000 characters together (slackapi/bolt-js #2509, #2867).
MOST_GROUPS = 20
MOST_PLACES = 5
MOST_CHARACTERS = 9_000
_LONGEST_HEADING, _LONGEST_PLACE, _LONGEST_REMEDY = 150, 300, 900


def message(
    name: str,
    items: Sequence[Item],
    *,
    audit: Mapping[str, Any] | None,
    gone: Sequence[Item] = (),
    muted: int = 0,
    summary: bool = False,
    again: bool = False,
    report: str = "",
) -> dict[str, Any]:
    """A body of ``text`` and ``blocks``. It holds codes, places, shares and remedies: no text, id or vector of a chunk.

    ``gone`` are those of the items that no longer stand; ``summary`` says that the items are what stood already;
    ``again`` that an earlier post of it may have arrived; ``report`` is the address or the path of the report.
    """
    heading = f"{name}: {_counts(items, summary)}"
    groups = _groups(items)
    context = [*_of_audit(audit)]
    if again:
        context.insert(0, "No answer came to an earlier post, so this may stand above already.")
    if muted:
        context.append(f"{counted(muted, 'thing')} muted by alerts.mute.")
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": _cut(visible(heading), _LONGEST_HEADING)}}
    ]
    sections = _fitting([_section(_group_text(group, gone)) for group in groups[:MOST_GROUPS]])
    blocks += sections
    if len(groups) > len(sections):
        left = sum(len(group) for group in groups[len(sections) :])
        blocks.append(_section(f"... and {left:,} more in the report and in Dagster."))
    blocks.append({"type": "context", "elements": [_mrkdwn(_escaped(" ".join(context)) + _link(audit, report))]})
    also = f" ({counted(muted, 'thing')} muted)" if muted else ""
    return {"text": _escaped(heading + also), "blocks": blocks}


def message_key(name: str, sent: int, items: Sequence[Item]) -> str:
    """The same for two attempts to tell the same things, and no other: a receiver can tell a repeated post by it."""
    told = sorted([item.place, item.scope.get("rows"), item.severity] for item in items)
    return hashlib.sha256(json.dumps([name, sent, told]).encode()).hexdigest()[:32]


def _counts(items: Sequence[Item], summary: bool) -> str:
    word = "" if summary else "new "
    counts = [
        (sum(one.kind == "finding" and one.severity == "error" for one in items), f"{word}error"),
        (sum(one.kind == "finding" and one.severity == "warning" for one in items), f"{word}warning"),
        (sum(one.kind == "check" for one in items), "failed check"),
        (sum(one.kind == "run" for one in items), "failed run"),
    ]
    words = ", ".join(counted(count, noun) for count, noun in counts if count)
    return f"alerts are on; what stands now: {words or 'no error, no warning'}" if summary else words


def _of_audit(audit: Mapping[str, Any] | None) -> list[str]:
    if audit is None:
        return ["No audit has been published yet."]
    day, _, time = audit["created_at"].partition("T")
    return [f"Last audit {day} {time[:5]} UTC: {verdict_words(audit)[1]}."]


def _link(audit: Mapping[str, Any] | None, report: str) -> str:
    """Where the report is; in brackets, or an address in a text that is verbatim is no link."""
    if audit is None or not report:
        return ""
    return f" Report: <{_escaped(report)}>" if "://" in report else f" Report: {_escaped(visible(report))}"


def _groups(items: Sequence[Item]) -> list[list[Item]]:
    grouped: dict[tuple[int, str, str], list[Item]] = {}
    kinds = ("run", "finding", "check")
    for one in items:
        rank = kinds.index(one.kind) * 10 + (SEVERITY_ORDER[one.severity] if one.severity else 0)
        grouped.setdefault((rank, one.code, one.remedy), []).append(one)
    return [grouped[key] for key in sorted(grouped)]


def _fitting(sections: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many of the first sections as one message may hold."""
    lengths = accumulate(len(json.dumps(one)) for one in sections)
    return [one for one, length in zip(sections, lengths, strict=True) if length <= MOST_CHARACTERS]


def _group_text(group: Sequence[Item], gone: Sequence[Item]) -> str:
    first = group[0]
    title = {"finding": CODES, "check": CHECKS, "run": RUNS}[first.kind][first.code]
    mark = first.severity.upper() if first.severity else {"check": "CHECK", "run": "RUN"}[first.kind]
    lines = [f"*{mark}* {_escaped(title)} (`{first.code}`)"]
    ordered = sorted(group, key=lambda one: (-(one.share or 0.0) * one.n_compared, str(one.scope)))
    lines += ["• " + _place(one, gone) for one in ordered[:MOST_PLACES]]
    if len(group) > MOST_PLACES:
        lines.append(f"• and {counted(len(group) - MOST_PLACES, 'more place')}")
    lines.append("→ " + _escaped(visible(first.remedy), _LONGEST_REMEDY))
    return "\n".join(lines)


def _place(item: Item, gone: Sequence[Item]) -> str:
    """Where it is: names are the corpus's, so they stand as code, where no mark-up, emoji or mention is read."""
    words = visible(item.which) or scope_words(item.scope)
    if item.kind == "run":
        words = f"run {item.scope['run']}" + (f", {words}" if len(item.scope) > 1 else "")
    words = _escaped(words, _LONGEST_PLACE).replace("`", "'")
    words = f"`{words}`" if item.scope or item.which else words
    if item.kind == "finding":
        words += f": {share_words({'share': item.share, 'n_compared': item.n_compared})}"
    return words + (" (no longer found)" if any(one.is_same(item) for one in gone) else "")


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> dict[str, Any]:
    """Text with marks. Verbatim, or Slack makes links and mentions of plain words such as @channel, too."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _escaped(text: str, most: int = 2_000) -> str:
    """Text that can hold no link, mention or entity (Slack makes them of three characters), cut to a length."""
    escaped = [{"&": "&amp;", "<": "&lt;", ">": "&gt;"}.get(letter, letter) for letter in text]
    if sum(map(len, escaped)) <= most:
        return "".join(escaped)
    return (
        "".join(one for one, length in zip(escaped, accumulate(map(len, escaped)), strict=True) if length <= most - 3)
        + "..."
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
