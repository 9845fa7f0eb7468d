"""Plain words and number formats shared by summary and page. No layout, no arithmetic, and no word on the verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from audit_pipeline.plural import counted

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

RUNS: dict[str, str] = {"self": "own text", "held_out": "held-out sentence", "labelled": "judged query"}

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


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
