"""Findings about sound rows that a search ranks by length or its filter keeps out. Faults of rows are elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from audit_pipeline.findings import Finding, Severity
from audit_pipeline.index.comparison import Comparison, Flagged
from audit_pipeline.index.flagged_findings import Kind, scoped
from audit_pipeline.index.lengths import Lengths
from audit_pipeline.index.snapshot import USABLE, TableSnapshot

_LARGEST_MIX = 0.5


def not_normalised(comparison: Comparison, snapshot: TableSnapshot, off: np.ndarray, lengths: Lengths) -> list[Finding]:
    """Lengths off 1. Under cosine they do not matter, but a minority of them shows a second way of writing rows.

    Nor do they where all rows have one length: then every metric ranks alike, and no row is wrong; scores are scaled.
    """
    usable = int((snapshot.vector_state == USABLE).sum())
    cosine = snapshot.metric == "cosine"
    if not off.any() or (cosine and off.sum() > _LARGEST_MIX * usable):
        return []
    mask = pa.array(off)
    flagged = Flagged(snapshot.chunk_ids.filter(mask), snapshot.rows["batch"].combine_chunks().filter(mask))
    remedy = "Normalise vectors before they are written, or search with cosine."
    if cosine:
        effect = "cosine does not mind, but these rows were written in another way than the rest"
    elif lengths.even:
        effect = (
            f"all have length {lengths.median:.4g}, so that they rank under {snapshot.metric} as under cosine, and "
            "only scores are scaled"
        )
        remedy = "Nothing to do for the ranking; mind the scale where scores meet a cut-off or another table's scores."
    else:
        effect = f"under {snapshot.metric} long vectors win or lose whatever they say"
    kind = Kind(
        "not_normalised",
        "warning" if cosine or lengths.even else "error",
        f"{{k}} of {{n}} vectors are not of length 1 ({{where}}); {effect}.",
        remedy,
    )
    told = scoped(kind, flagged, comparison.table_rows, comparison, None)
    shown = {"shortest": lengths.least, "median": lengths.median, "longest": lengths.most}
    return [replace(finding, evidence={**finding.evidence, "lengths": shown}) for finding in told]


def filter_excludes(comparison: Comparison, snapshot: TableSnapshot, sql: str | None) -> list[Finding]:
    """Rows that the application's own filter keeps out of every result: those lost to a null apart from the rest."""
    passes, undecided = snapshot.passes_filter, snapshot.filter_undecided
    if passes is None or undecided is None or passes.all():
        return []
    findings = []
    remedy = "Add 'OR column IS NULL' to the filter where these rows should be found, or fill the column."
    if snapshot.row_filter is not None:
        filled = ", ".join(snapshot.row_filter.names)
        remedy = f"Fill the columns of the filter ({filled}): a row without a value there is nobody's."
    nothing = "" if passes.any() else ": it lets nothing through, and every search comes back empty"
    told: list[tuple[np.ndarray, Severity, str, str]] = [
        (undecided, "warning", "a null makes the filter neither true nor false, and SQL drops the row", remedy),
        (~passes & ~undecided, "info", "by intent or not", "Nothing to do where the filter is meant so."),
    ]
    for rows, severity, why, remedy in told:
        mask = pa.array(rows)
        flagged = Flagged(snapshot.chunk_ids.filter(mask), snapshot.rows["batch"].combine_chunks().filter(mask))
        message = f"{{k}} of {{n}} rows are kept out of every result by the filter ({{where}}); {why}{nothing}."
        kind = Kind("filter_excludes", severity, message, remedy)
        findings += scoped(kind, flagged, comparison.table_rows, comparison, None)
    return [replace(finding, evidence={**finding.evidence, "filter": sql}) for finding in findings]
