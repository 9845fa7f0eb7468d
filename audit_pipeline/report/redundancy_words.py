"""How redundant the corpus is, in words: the summary's line and the page's sentence. No figure is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit_pipeline.report.wording import REDUNDANCY, percent


def redundancy_parts(duplicates: Mapping[str, Any]) -> list[tuple[float | None, str]]:
    """Each lane's share without the chunks that differ in numbers only, and its words; None where not measured.

    What is near by cosine is redundant as far as the pairs are duplicates, so that estimate stands with its share.
    """
    parts: list[tuple[float | None, str]] = []
    for kind, words in REDUNDANCY.items():
        share = duplicates["redundancy"][kind]
        queue = _queue(duplicates) if kind == "embedding" and share else None
        if share is not None:
            share = max(0.0, round(share - _numbers(duplicates, kind), 12))
        parts.append(
            (share, words if queue is None else f"{words} (about {percent(queue)} of these pairs are duplicates)")
        )
    return parts


def numbers_words(duplicates: Mapping[str, Any]) -> str:
    """The share that was taken off as differing in numbers only; empty where there is none."""
    kind = "lexical" if duplicates["redundancy"]["embedding"] is None else "embedding"
    share = _numbers(duplicates, kind)
    return f"{percent(share)} more differ from others in numbers only: distinct facts, not redundant" if share else ""


def _numbers(duplicates: Mapping[str, Any], kind: str) -> float:
    return (duplicates.get("numbers_only") or {}).get(kind) or 0.0


def _queue(duplicates: Mapping[str, Any]) -> float | None:
    return next((row.get("precision_queue") for row in duplicates["sweep"] if row["recommended"]), None)
