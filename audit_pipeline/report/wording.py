"""Plain words and number formats shared by terminal summary and page. No layout and no arithmetic belongs here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from audit_pipeline.plural import counted

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

CAUSES: dict[str, str] = {
    "missing_row": "the chunk is not in the table",
    "duplicate_id": "its id stands on several rows with different content",
    "invalid_vector": "its vector is null, NaN, infinite, zero or of the wrong size",
    "filter_excluded": "the application's filter hides it",
    "below_cutoff": "the application's score cut-off drops it",
    "unindexed": "it is outside the ANN index and the search skips such rows",
    "ann_miss": "the approximate index passes it over; an exact search finds it",
    "metric": "found under cosine, not under the metric in use",
    "text_drift": "the table's text is not the source's",
    "misaligned": "its row holds the vector of another row's text",
    "role_mismatch": "its vector was encoded with another prompt or template",
    "vector_drift": "its vector is no known encoding of its text",
    "truncated": "only a part of its text is encoded: rows ahead are equal within it, or the whole would be found",
    "overlap": "the held-out sentence also stands in another chunk",
    "twin": "a near-identical chunk is ahead of it",
    "encoder": "the model itself puts another document closer",
    "undetermined": "the audit could not tell",
}

CODES: dict[str, str] = {
    "missing_rows": "Rows missing from the index",
    "duplicate_ids": "One id on several rows",
    "invalid_vectors": "Unusable vectors",
    "dimension_mismatch": "Vectors of the wrong size",
    "metric_mismatch": "Search and index use different metrics",
    "index_empty": "The table or its ANN index holds no rows",
    "text_drift": "Stored text differs from the source",
    "role_mismatch": "Encoded with another prompt",
    "misaligned_vectors": "Vectors belong to other rows",
    "vector_drift": "Vectors from another model or text",
    "query_side_mismatch": "Production queries are not encoded as configured",
    "provenance_mixed": "Batches written by different encoders",
    "self_low": "Documents do not find themselves",
    "orphan_rows": "Rows the source no longer has",
    "empty_text": "Empty texts",
    "index_stale": "Rows outside the ANN index",
    "not_normalised": "Vectors are not unit length",
    "filter_excludes": "The filter hides rows",
    "short_results": "Fewer results than asked for",
    "below_cutoff": "The score cut-off drops answers",
    "ann_recall_low": "Results are not the closest rows",
    "fts_index_stale": "Text index out of date",
    "truncation": "Texts longer than the model reads",
    "stratum_anomaly": "One part is worse than the rest",
    "relationship_gap": "Real queries find less than they could",
    "prompt_not_applied": "A prompt of the model is never applied",
    "encoder_unstable": "The encoder is not reproducible",
    "labels_invalid": "Labels that point nowhere",
    "labels_few": "Too few labels",
    "no_usable_threshold": "No usable duplicate threshold",
    "candidates_missed": "Duplicate pairs no lane found",
    "embedded_text_found": "What was embedded was found",
    "twins": "Near-identical chunks",
    "hubs": "Chunks that win others' searches",
    "hot_bucket": "One text repeated very often",
    "chunk_windows": "Overlapping chunk windows",
    "placeholder_rows": "Placeholder rows",
    "embedded_text_unknown": "What was embedded is unknown",
    "index_absent": "No ANN index: search is exact",
    "undecided": "Too few probes to decide",
    "not_measured": "Not measured",
    "generations": "Documents ingested twice",
    "rows_fell": "The table lost rows between versions",
    "position_gaps": "Numbers missing between chunks",
    "chained_clusters": "Clusters that grew by chains",
}

REDUNDANCY: dict[str, str] = {
    "exact": "exact copies",
    "lexical": "with edited copies",
    "embedding": "with paraphrases",
}

CLUSTERS: dict[str, str] = {
    "count": "clusters",
    "members": "chunks in them",
    "largest": "largest",
    "chain_only": "chunks tied only through others",
    "numeric": "chunks that differ in numbers only",
    "drop": "chunks that can go",
    "copies": "of them exact copies of a chunk that stays",
    "review": "chunks to look at",
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

RUNS: dict[str, str] = {"self": "own text", "held_out": "held-out sentence", "labelled": "judged query"}

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

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


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


def visible(text: str) -> str:
    """Untrusted text on one line without characters that steer a terminal or turn the reading direction."""
    return _CONTROL.sub("\ufffd", text.replace("\n", " ").replace("\t", " "))


def number(value: float | int | None) -> str:
    """A count with thousands separated; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.1f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share in per cent that never rounds to 0 or 100 unless it is."""
    if value is None:
        return "not measured"
    if value in (0, 1):
        return f"{100 * value:.0f} %"
    text = f"{100 * value:.{digits}f}"
    if value < 1 and float(text) == 100:
        return f">{100 - 10**-digits:.{digits}f} %"
    if value > 0 and float(text) == 0:
        return f"<{10**-digits:.{digits}f} %"
    return f"{text} %"


def per_10k(share: float) -> str:
    """A share as so many of 10,000, with two figures."""
    return f"{10_000 * share:.2g} of 10,000" if share < 0.01 else f"{10_000 * share:,.0f} of 10,000"


def without_figures(text: str) -> str:
    """The verdict's text without the sentence of figures that opens it: they stand apart wherever it is shown."""
    return re.sub(r"^self@1 .*?\. (?=[A-Z])", "", text)


def severity_counts(counts: Mapping[str, int]) -> str:
    """How many findings there are of each severity: 1 error, 2 warnings, 0 notes."""
    nouns = {"error": "error", "warning": "warning", "info": "note"}
    return ", ".join(counted(counts[severity], noun) for severity, noun in nouns.items())


def unbroken(text: str) -> str:
    """The text with its per cent signs kept on the line of their number."""
    return text.replace(" %", "\u00a0%")


def limit_words(limit: float) -> str:
    """A limit as the settings give it: 98 %, 99.5 %."""
    return f"{100 * limit:.4g} %"


def interval(figure: Mapping[str, Any]) -> str:
    """The 95 % interval of a measured proportion, such as '97.1 to 98.9 %'."""
    return f"{100 * figure['low']:.1f} to {100 * figure['high']:.1f} %"


def agreement_words(labels: Mapping[str, Any] | None) -> str:
    """How far people agree on the pairs judged more than once, and what is in dispute; empty where there are none."""
    if not labels:
        return ""
    parts = []
    found = labels.get("agreement")
    if found:
        agreed, kappa = found["agreed"], found["kappa"]
        parts.append(
            f"{found['labellers']} people agree on {percent(agreed['value'])} ({interval(agreed)}) "
            f"of {number(agreed['n'])}"
        )
        parts += [f"kappa {kappa:.2f}"] if kappa is not None else []
    if labels.get("conflicts"):
        parts.append(f"{number(labels['conflicts'])} in conflict, not used")
    if labels.get("adjudicated"):
        parts.append(f"{number(labels['adjudicated'])} settled")
    return ", ".join(parts)


def is_measured(figure: Any) -> bool:
    """Whether a figure of audit.json holds a value."""
    return isinstance(figure, Mapping) and figure.get("value") is not None


def unmeasured_checks(finding: Mapping[str, Any]) -> Sequence[str]:
    """The codes of the findings that a not_measured finding says were not looked for; none of any other finding."""
    return finding["evidence"].get("checks", ()) if finding["code"] == "not_measured" else ()


def scope_words(scope: Mapping[str, Any]) -> str:
    """Where a finding holds, in words."""
    parts = []
    if "source" in scope:
        parts.append("source " + visible("(none)" if scope["source"] is None else str(scope["source"])))
    if "ingestion_date" in scope:
        parts.append(f"ingested {scope['ingestion_date'] or 'on no date'}")
    if "length_band" in scope:
        parts.append(f"chunks of {scope['length_band']} tokens")
    if "rows" in scope:
        parts.append(f"rows {scope['rows'][0]:,} to {scope['rows'][1]:,}")
    return ", ".join(parts) or "whole corpus"


def share_words(finding: Mapping[str, Any]) -> str:
    """The affected share of what was compared, or that nothing was."""
    if finding["n_compared"] == 0:
        return "not measured"
    if finding["share"] is None:
        return f"of {number(finding['n_compared'])}"
    return f"{percent(finding['share'])} of {number(finding['n_compared'])}"
