"""What the application's search does to rows on its own: short answers, the cut-off, the filter. No limit is judged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.index.snapshot import TableSnapshot


def search_findings(
    table: pa.Table, snapshot: TableSnapshot, expected: int, settings: IndexAuditSettings
) -> list[Finding]:
    """Findings short_results, below_cutoff and filter_excludes of a self-retrieval ``table``.

    ``expected`` is the number of ids each search could have answered with.
    """
    findings = []
    # A cut-off is there to shorten results: what it drops wrongly is below_cutoff.
    if settings.index.search.min_score is None:
        findings += _short_results(table, expected)
    return findings + _below_cutoff(table, settings) + _filter_excludes(snapshot, settings)


def _short_results(table: pa.Table, expected: int) -> list[Finding]:
    n = table.num_rows
    short = table.filter(pc.less(table["returned"], expected))
    if not short.num_rows:
        return []
    return [
        Finding(
            "short_results",
            "warning",
            f"{short.num_rows:,} of {n:,} searches answered with fewer than the {expected} chunks that were asked for "
            "and could be had.",
            "Filter before the search (prefilter: true), raise nprobes, or ask for more rows and cut afterwards.",
            n_compared=n,
            share=short.num_rows / n,
            evidence={"searches": n, "short": short.num_rows, "expected": expected},
            examples=short["chunk_id"].to_pylist(),
        )
    ]


def _below_cutoff(table: pa.Table, settings: IndexAuditSettings) -> list[Finding]:
    n = table.num_rows
    below = table.filter(pc.equal(table["cause"], "below_cutoff"))
    if not below.num_rows:
        return []
    scores = below["score"].to_numpy()
    return [
        Finding(
            "below_cutoff",
            "warning",
            f"The cut-off min_score = {settings.index.search.min_score} drops {below.num_rows:,} of {n:,} probes that "
            "the search found by their own text.",
            "Lower the cut-off, or set it from the scores of queries whose answers are known.",
            n_compared=n,
            share=below.num_rows / n,
            evidence={"score": {f"p{q}": float(np.percentile(scores, q)) for q in (5, 50, 95)}},
            examples=below["chunk_id"].to_pylist(),
        )
    ]


def _filter_excludes(snapshot: TableSnapshot, settings: IndexAuditSettings) -> list[Finding]:
    passes, n = snapshot.passes_filter, snapshot.rows.num_rows
    if passes is None or passes.all():
        return []
    hidden = np.flatnonzero(~passes)
    return [
        Finding(
            "filter_excludes",
            "info",
            f"The filter {settings.index.filter!r} hides {len(hidden):,} of {n:,} rows.",
            "If that is more than it should be, look for nulls in the filtered columns: SQL comparisons drop them.",
            n_compared=n,
            share=len(hidden) / n,
            evidence={"hidden": len(hidden), "rows": n},
            examples=snapshot.chunk_ids.take(pa.array(hidden[:5])).to_pylist(),
        )
    ]
