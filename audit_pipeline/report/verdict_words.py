"""Tone, headline and short answer of the verdict's reading. Which reading it is, is decided in retrieval.verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit_pipeline.report.wording import is_measured

READINGS: dict[str, tuple[str, str]] = {
    # reading: (tone, headline)
    "healthy": ("good", "Search works, as far as this audit can see"),
    "local_defect": ("bad", "Search works, but some documents cannot be found"),
    "relationship": ("bad", "The index works, but queries and documents do not meet"),
    "vectors_or_index": ("bad", "Too few documents find themselves: rows, vectors or index are at fault"),
    "twins": ("unsure", "Search works, but near-identical chunks take each other's place"),
    "contradiction": ("unsure", "The measurements contradict each other"),
    "content": ("unsure", "The index works, but its texts are hard to tell apart by meaning"),
    "not_measured": ("unsure", "The index finds its own documents; real queries were not measured"),
    "undecided": ("unsure", "Too few probes to decide"),
}

ANSWERS: dict[str, str] = {
    "healthy": "No sign of it in anything that was measured.",
    "local_defect": "Partly: most documents are found, some cannot be found at all.",
    "relationship": "For real queries, yes: the index finds its own documents, but queries miss what is there to find.",
    "vectors_or_index": "Yes: documents do not even find themselves. No work on prompts or query wording will help.",
    "twins": "No: what takes rank 1 from a document is a near-identical copy of it. That is redundancy, not a failure.",
    "contradiction": "Cannot be said: real queries do well while documents do not find themselves. The sample or the "
    "labels are wrong.",
    "content": "The index is not, but its texts are hardly told apart by meaning: they are too short, too repeated or "
    "cut off, the model cannot do it, or both sides are encoded wrongly alike.",
    "not_measured": "The index itself is not. Whether real queries find their answers was not measured.",
    "undecided": "Cannot be said yet: the sample is too small to decide.",
}

NOTHING_SEARCHED = (
    "unsure",
    "Nothing was searched, so retrieval was not measured",
    "Cannot be said: no probe could be searched. The findings say why.",
)

QUERY_SIDE = (
    "bad",
    "The index finds its own documents, but production does not send what the settings say",
    "For real queries, most likely: they are not encoded as the settings say, and so not as the figures assume.",
)

HIDDEN = (
    "unsure",
    "Search works on what the filter lets through; it hides the rest",
    "Only for the chunks that the application's filter hides: those that it lets through find themselves.",
)
NOTHING_LET_THROUGH = (
    "bad",
    "The filter lets nothing through",
    "Yes: the application's filter leaves none of the probed chunks to be found. Vectors and index are not to blame.",
)

CUT = (
    "unsure",
    "The index works, but many of its texts are longer than what is read of them",
    "For what stands behind the limit: no vector holds it. Smaller chunks, or an encoder that reads more, find it.",
)

OTHER_ROWS = (
    "unsure",
    "The index finds its own documents, but production does not get the closest rows",
    "Not as declared: but what the application gets back is not what that search should find. The finding says why.",
)

ROWS_LOST = (
    "bad",
    "The index finds its own documents, but its search loses most of what stands beside them",
    "Yes: far fewer of the closest rows are returned than asked for. The finding on ann_recall says what mends it.",
)
_FAR = 2  # times the loss that the limit allows


def verdict_words(audit: Mapping[str, Any]) -> tuple[str, str, str]:
    """Tone, headline and short answer of the reading. An audit that searched nothing makes no statement at all."""
    reading = audit["verdict"]["reading"]
    if reading == "not_measured" and audit["self_retrieval"]["n"] == 0:
        return NOTHING_SEARCHED
    errors = {finding["code"] for finding in audit["findings"] if finding["severity"] == "error"}
    if errors == {"query_side_mismatch"} and (reading == "not_measured" or _documents_are_found(audit)):
        return QUERY_SIDE
    other_rows = any(finding["evidence"].get("measure") == "observed_recall" for finding in audit["findings"])
    if other_rows and not errors and reading in ("healthy", "not_measured"):
        return OTHER_ROWS
    passed = audit["self_retrieval"].get("let_through")
    if passed is not None and reading in ("vectors_or_index", "local_defect", "contradiction"):
        if passed["n"] == 0:
            return NOTHING_LET_THROUGH
        if passed["explains"] and not errors:
            return HIDDEN
    if reading in ("healthy", "not_measured", "undecided") and not errors and _loses_far_too_much(audit):
        return ROWS_LOST
    if reading == "content" and any(finding["code"] == "truncation" for finding in audit["findings"]):
        return CUT
    return (*READINGS[reading], ANSWERS[reading])


def _loses_far_too_much(audit: Mapping[str, Any]) -> bool:
    """Whether the search certainly loses several times the rows that its limit allows it to lose."""
    recall, limit = audit["ann_recall"]["ann_recall@10"], audit["settings"]["limits"]["ann_recall_at_10"]
    return is_measured(recall) and recall["high"] < limit and 1 - recall["high"] >= _FAR * (1 - limit)


def _documents_are_found(audit: Mapping[str, Any]) -> bool:
    """Whether the reading is local_defect for its error findings alone: every figure itself is high."""
    own, limits = audit["self_retrieval"], audit["settings"]["limits"]
    figures = ((own["self@1"], limits["self_at_1"]), (own["self@10"], limits["self_at_10"]))
    return audit["verdict"]["reading"] == "local_defect" and all(
        is_measured(figure) and figure["low"] >= limit for figure, limit in figures
    )
