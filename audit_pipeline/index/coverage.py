"""Findings about the ANN index, the metric, and a table of no rows: coverage, staleness, norms. Rows: row_findings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit_pipeline.findings import Finding
from audit_pipeline.index.lengths import NORM_TOLERANCE, Lengths, norms
from audit_pipeline.index.snapshot import USABLE, IndexInfo, TableSnapshot
from audit_pipeline.index_settings import IndexSettings
from audit_pipeline.plural import counted


def off_unit_length(snapshot: TableSnapshot) -> np.ndarray:
    """(n,) bool: usable rows whose vector's length differs from 1 by more than ``NORM_TOLERANCE``."""
    return (np.abs(norms(snapshot.vectors) - 1) > NORM_TOLERANCE) & (snapshot.vector_state == USABLE)


def empty_table(info: IndexInfo, settings: IndexSettings, placeholders: int = 0) -> list[Finding]:
    """index_empty where the table, or all tables, hold no row beside ``placeholders``."""
    if info.rows > placeholders:
        return []
    rows = f"{counted(placeholders, 'placeholder row')} and no other" if placeholders else "no row"
    return [
        Finding(
            code="index_empty",
            severity="error",
            message=f"The table {info.table!r} holds {rows}: nothing can be found in it.",
            remedy="Check that index.uri and index.table name what the application searches, and write the rows."
            if not settings.managed
            else "Check the sources, and ingest them.",
            n_compared=max(len(info.tables), 1),  # tables: each was looked at
            share=1.0,
            evidence={"rows": info.rows, "placeholders": placeholders},
        )
    ]


def index_findings(info: IndexInfo, settings: IndexSettings, placeholders: int = 0) -> list[Finding]:
    """index_absent, index_empty or index_stale: at most one of them.

    An index that covers no more rows than there are ``placeholders`` was built before the real rows came: empty. Of
    several tables each has its own; that none of them has an index is told once.
    """
    if info.tables and info.index_type is not None:
        return [
            replace(finding, scope={"source": one.table})
            for one in info.tables
            for finding in index_findings(one, settings)
            if finding.code != "index_absent"
        ]
    if info.rows == 0:
        return []
    skipped = settings.search.fast_search
    share = info.unindexed_rows / info.rows
    evidence = {
        "index_type": info.index_type,
        "indexed_rows": info.indexed_rows,
        "unindexed_rows": info.unindexed_rows,
        "fast_search": skipped,
    }
    if info.index_type is not None and info.indexed_rows <= placeholders:
        return [
            Finding(
                code="index_empty",
                severity="error",
                message=f"The {info.index_type} index is listed but covers none of {info.rows - placeholders:,} rows; "
                + (
                    "the search skips rows outside it and returns nothing."
                    if skipped
                    else "every search scans them all."
                ),
                remedy=_optimise(settings, "create the index again now that there are enough rows to train it"),
                n_compared=info.rows,
                share=1.0,
                evidence=evidence,
            )
        ]
    if info.index_type is None and not skipped:
        note = f"it is built from {settings.vector_index.min_rows:,} rows on" if settings.managed else "none is listed"
        return [
            Finding(
                code="index_absent",
                severity="info",
                message=f"There is no ANN index on the {info.rows:,} rows ({note}): every search is exact.",
                remedy="Nothing to do while searches are quick enough; otherwise create a vector index.",
                n_compared=info.rows,
                share=1.0,
                evidence=evidence,
            )
        ]
    if info.unindexed_rows == 0:
        return []
    effect = (
        "and fast_search skips them: they can never be found" if skipped else "and each search scans them one by one"
    )
    return [
        Finding(
            code="index_stale",
            severity="error" if skipped else "warning",
            message=f"{info.unindexed_rows:,} of {info.rows:,} rows are outside the ANN index, {effect}.",
            remedy=_optimise(
                settings, "optimise the table, or search without fast_search" if skipped else "optimise it"
            ),
            n_compared=info.rows,
            share=share,
            evidence=evidence,
        )
    ]


def fts_findings(info: IndexInfo, settings: IndexSettings) -> list[Finding]:
    """fts_index_stale: rows outside a full-text index, one finding a column and table."""
    findings = []
    for one in info.tables or (info,):
        for fts in one.fts:
            if not fts.unindexed_rows or not one.rows:
                continue
            covered = "none" if not fts.indexed_rows else f"{fts.indexed_rows:,}"
            findings.append(
                Finding(
                    code="fts_index_stale",
                    severity="warning",
                    message=f"The full-text index on {fts.column!r} covers {covered} of {one.rows:,} rows: "
                    "hybrid and text searches miss or scan the rest.",
                    remedy=_optimise(settings, "an index that was made on an empty table has to be made again"),
                    n_compared=one.rows,
                    share=fts.unindexed_rows / one.rows,
                    scope={"source": one.table} if info.tables else {},
                    evidence={
                        "index": fts.name,
                        "column": fts.column,
                        "indexed_rows": fts.indexed_rows,
                        "unindexed_rows": fts.unindexed_rows,
                    },
                )
            )
    return findings


def metric_findings(info: IndexInfo, off: np.ndarray, usable: int, lengths: Lengths) -> list[Finding]:
    """metric_mismatch: the index was built for another metric, and the vectors' lengths make that matter.

    ``off`` (n,) bool from ``off_unit_length``. On vectors of one length, 1 or another, l2, dot and cosine rank
    alike: silence.
    """
    count = int(off.sum())
    if info.index_metric is None or info.index_metric == info.metric or count == 0 or lengths.even:
        return []
    return [
        Finding(
            code="metric_mismatch",
            severity="error",
            message=f"The index was built for {info.index_metric}, the application searches with {info.metric}, and "
            f"{count:,} of {usable:,} vectors are not of length 1: the two rank differently, and the index lies idle.",
            remedy=f"Search with {info.index_metric} (index.metric), or build the index for {info.metric}.",
            n_compared=usable,
            share=count / usable,
            evidence={"index_metric": info.index_metric, "search_metric": info.metric, "off_unit_length": count},
        )
    ]


def _optimise(settings: IndexSettings, otherwise: str) -> str:
    if settings.managed:
        return "Materialise vector_index: it rebuilds or optimises the index."
    return f"Run table.optimize() where the table is written: {otherwise}."
