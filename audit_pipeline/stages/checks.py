"""The checks on a report and which findings each of them speaks for: one table. Their outcomes are in limits.py."""

from __future__ import annotations

REPORT_CHECKS = {
    "no_error_findings": "No finding of severity error: no rows are wrong, lost or unreachable.",
    "rows_as_in_store": "The table holds each row of the source store once, with its text, and no other.",
    "vectors_usable": "Every row has a vector that can be compared: finite, not zero, of the right size.",
    "vectors_of_their_text": "Stored vectors are encodings of their rows' text, in the configured role and template.",
    "queries_as_configured": "The application's queries carry the configured prompt, and the encoder is steady.",
    "search_reaches_rows": "Metric, filter, cut-off, limit and index tail let the search reach every row.",
    "self_at_1": "self@1 reaches limits.self_at_1.",
    "self_at_10": "self@10 reaches limits.self_at_10.",
    "ann_recall_at_10": "ann_recall@10 reaches limits.ann_recall_at_10.",
    "labelled_gap": "Labelled success stays within limits.labelled_gap of the held-out ceiling.",
    "source_gap": "No source, date, length or place in the table falls behind the rest by limits.source_gap.",
    "truncated": "No batch has more than limits.truncated of its chunks cut by the encoder.",
    "duplicates_as_searched": "The search for near-duplicates finds what it looks for, and a threshold can be told.",
    "labels_usable": "Labelled queries and pairs point at rows that exist, and are enough.",
    "everything_measured": "What was not measured or not decided; it never fails.",
}
"""Check on the report -> what passes it."""

_CODES_OF = {
    "rows_as_in_store": (
        "index_empty missing_rows orphan_rows duplicate_ids text_drift empty_text placeholder_rows generations "
        "rows_fell position_gaps"
    ),
    "vectors_usable": "invalid_vectors dimension_mismatch not_normalised",
    "vectors_of_their_text": (
        "role_mismatch misaligned_vectors vector_drift provenance_mixed embedded_text_found embedded_text_unknown"
    ),
    "queries_as_configured": "query_side_mismatch prompt_not_applied encoder_unstable",
    "search_reaches_rows": (
        "metric_mismatch filter_excludes short_results below_cutoff index_stale fts_index_stale index_absent"
    ),
    "self_at_1": "self_low",
    "self_at_10": "self_low",
    "ann_recall_at_10": "ann_recall_low",
    "labelled_gap": "relationship_gap",
    "source_gap": "stratum_anomaly",
    "truncated": "truncation",
    "duplicates_as_searched": "no_usable_threshold candidates_missed hot_bucket twins hubs chunk_windows "
    "chained_clusters",
    "labels_usable": "labels_invalid labels_few",
    "everything_measured": "undecided not_measured",
}

CHECKS_OF: dict[str, tuple[str, ...]] = {
    code: tuple(check for check, codes in _CODES_OF.items() if code in codes.split())
    for code in sorted({code for codes in _CODES_OF.values() for code in codes.split()})
}
"""Finding code -> the checks that speak for it; beside them ``no_error_findings`` counts errors of every code."""

FIGURES = {
    "self_at_1": ("self_retrieval", "self@1"),
    "self_at_10": ("self_retrieval", "self@10"),
    "ann_recall_at_10": ("ann_recall", "ann_recall@10"),
    "labelled_gap": ("labelled", "labelled_success@10"),
}
"""Checks that show a figure beside its limit: its section and name in audit.json."""


def codes_of(check: str) -> tuple[str, ...]:
    """The finding codes that a check speaks for; none for ``no_error_findings``, which counts errors of every code."""
    return tuple(_CODES_OF.get(check, "").split())
