"""Findings about what was not measured, for table, store or layout lack what it needs. Faults of rows are elsewhere."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.index.comparison import Comparison
from audit_pipeline.index.pairing import Paired
from audit_pipeline.index.snapshot import TableSnapshot


def unmeasured_of_layout(snapshot: TableSnapshot) -> list[Finding]:
    """not_measured: a table without text, null ids, dates that were not understood, several tables searched as one."""
    findings = []
    if "text" in snapshot.absent:
        checks = [
            "text_drift",
            "self_retrieval",
            "held_out",
            "role_mismatch",
            "vector_drift",
            "misaligned_vectors",
            "duplicates",
        ]
        findings.append(
            _not_measured(
                "Not measured: what needs text, for the table holds none.",
                "Audit the table that holds the texts, or name the text under index.columns.",
                {"checks": checks, "layout": snapshot.info.layout},
            )
        )
    if snapshot.nameless:
        findings.append(
            _not_measured(
                f"{snapshot.nameless:,} of {snapshot.rows.num_rows:,} rows have no id though the table has ids: "
                "nothing outside can refer to them, and here they go by an id made of their text.",
                "Give every row an id when it is written, or name the column that identifies rows under "
                "index.columns.chunk_id.",
                {"checks": ["ids"], "rows": snapshot.nameless},
            )
        )
    unread = snapshot.unread_dates
    if unread is not None:
        findings.append(
            _not_measured(
                f"{unread.rows:,} of {unread.of:,} dates in column {unread.column!r} were not understood "
                f"(such as {', '.join(map(repr, unread.examples))}): their rows have no date.",
                "Write dates as 2026-01-31, or leave the column out with index.columns: {ingestion_date: null}.",
                {"column": unread.column, "rows": unread.rows},
            )
        )
    if snapshot.info.tables:
        left_out = snapshot.info.plan["tables_left_out"]
        findings.append(
            _not_measured(
                f"Not measured over {len(snapshot.info.tables)} tables: the application's own search, which looks at "
                "one table at a time (ANN recall, settings of the search, filter); every search here is exact and "
                "over all tables together.",
                "Audit one table by its name to have its own search measured.",
                {"tables": [info.table for info in snapshot.info.tables], "left_out": left_out},
            )
        )
    return findings


def unmeasured_rows(comparison: Comparison, paired: Paired, settings: IndexAuditSettings) -> list[Finding]:
    """not_measured: rows against the store, rows of sources that the settings do not name."""
    checks: list[str] = []
    reasons: list[str] = []
    if not comparison.compared:
        checks += ["missing_rows", "orphan_rows", "text_drift"]
        reasons.append(
            f"no id of the source store stands in the table, and only {paired.shared:,} of {paired.distinct:,} texts do"
            if paired.by == "nothing"
            else "there is no source store to compare with"
        )
    elif paired.by == "text":
        checks.append("text_drift")
        reasons.append(
            "store and table share no id, so rows were paired by their text: one that was changed beyond white space "
            "and Unicode form counts as missing and as in no source"
        )
    findings = []
    if checks:
        findings.append(
            _not_measured(
                f"Not measured: {', '.join(checks)} ({'; '.join(reasons)}).",
                "Name sources whose ids (or else texts) are those of the table (index.columns.chunk_id, "
                "sources[].columns) to have them measured.",
                {"checks": checks},
            )
        )
    judged = of_named_sources(comparison, settings)
    others = len(comparison.orphans) - (pc.sum(judged).as_py() or 0)
    if others:
        findings.append(
            _not_measured(
                f"{others:,} rows of the table are in no source and not of a source that the settings name: "
                "they were not judged.",
                "Name their sources, or map index.columns.source where the table tells sources apart.",
                {"checks": ["orphan_rows"], "rows": others},
            )
        )
    return findings


def of_named_sources(comparison: Comparison, settings: IndexAuditSettings) -> pa.Array:
    """(orphans,) bool: those of sources that the settings name. Rows of others are not this audit's to judge."""
    batches = comparison.orphans.batches
    names = {source.name for source in settings.sources}
    if "*" in names:
        return pa.array([True] * len(batches), pa.bool_())
    named = [batch for batch, (source, _) in comparison.cells.items() if source in names]
    return pc.is_in(batches, value_set=pa.array(named, pa.string()))


def _not_measured(message: str, remedy: str, evidence: dict) -> Finding:
    return Finding("not_measured", "info", message, remedy, n_compared=0, evidence=evidence)
