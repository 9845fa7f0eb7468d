"""The headline figures as cards: what each asks in plain words, and how it stands to its limit. Nothing is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit_pipeline.report.wording import interval, is_measured, limit_words, number, percent


@dataclass(frozen=True)
class Card:
    """One headline figure as the page shows it; ``tone`` is good, unsure, bad or none."""

    name: str
    question: str
    value: str
    detail: str
    status: str
    tone: str


def headline_cards(audit: Mapping[str, Any]) -> list[Card]:
    """self@1, self@10, held-out, labelled and ANN recall, each with n, interval and limit."""
    limits = audit["settings"]["limits"]
    own, held, labelled = audit["self_retrieval"], audit["held_out"], audit["labelled"] or {}
    ceiling = held["heldout@10"]
    least = None
    if is_measured(ceiling):
        least = round(max(0.0, ceiling["value"] - limits["labelled_gap"]), 3)
    return [
        _card("self@1", "Does a chunk's own text find it first?", own["self@1"], limits["self_at_1"], own["haystack"]),
        _card("self@10", "… or among the first 10?", own["self@10"], limits["self_at_10"], own["haystack"]),
        _card("heldout@10", "Does one sentence find the rest of its chunk?", ceiling, None, held["haystack"]),
        _card(
            "labelled_success@10",
            "Do judged queries find a relevant chunk?",
            labelled.get("labelled_success@10"),
            least,
            None,
            " (held-out less the gap allowed)",
        ),
        _card(
            "ann_recall@10",
            "Are results as good as an exact search's?",
            audit["ann_recall"]["ann_recall@10"],
            limits["ann_recall_at_10"],
            None,
            unmeasured=audit["ann_recall"].get("reason", ""),
        ),
    ]


def _card(
    name: str,
    question: str,
    figure: Any,
    limit: float | None,
    haystack: int | None,
    origin: str = "",
    unmeasured: str = "",
) -> Card:
    if not is_measured(figure):
        return Card(name, question, "not measured", unmeasured or "n 0", "", "none")
    among = f", among {number(haystack)} rows" if haystack else ""
    detail = f"95 %: {interval(figure)}; n\u00a0{number(figure['n'])}{among}"
    value = percent(figure["value"])
    if limit is None:
        return Card(name, question, value, detail, "no limit: the ceiling the content allows", "none")
    wanted = f"its limit of {limit_words(limit)}{origin}"
    if figure["high"] < limit:
        return Card(name, question, value, detail, f"✗ under {wanted}", "bad")
    if figure["low"] < limit:
        return Card(name, question, value, detail, f"~ may be under or over {wanted}", "unsure")
    return Card(name, question, value, detail, f"✓ over {wanted}", "good")
