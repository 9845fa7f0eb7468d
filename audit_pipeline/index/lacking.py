"""Findings about what a table's layout leaves out, and what is not measured for it. Faults of rows are elsewhere."""

from __future__ import annotations

from audit_pipeline.findings import Finding
from audit_pipeline.index.snapshot import TableSnapshot


def unmeasured_of_layout(snapshot: TableSnapshot) -> list[Finding]:
    """not_measured: a table without text, dates that were not understood, several tables searched as one."""
    findings = []
    if "text" in snapshot.absent:
        checks = ["self_retrieval", "held_out", "role_mismatch", "vector_drift", "misaligned_vectors", "duplicates"]
        findings.append(
            _not_measured(
                "Not measured: what needs text, for the table holds none.",
                "Audit the table that holds the texts, or name the text under index.columns.",
                {"checks": checks, "layout": snapshot.info.layout},
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


def _not_measured(message: str, remedy: str, evidence: dict) -> Finding:
    return Finding("not_measured", "info", message, remedy, n_compared=0, evidence=evidence)
