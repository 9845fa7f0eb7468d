"""What a corpus-wide stage shows in the Dagster UI: counts and figures, never corpus text. Nothing is computed here."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import dagster as dg

from audit_pipeline.report.charts import overview_png
from audit_pipeline.results import StageResult
from audit_pipeline.state import read_json

PLOTTED = (
    "self@1",
    "self@10",
    "heldout@1",
    "heldout@10",
    "labelled_success@10",
    "labelled_recall@10",
    "ann_recall@10",
    "as_configured",
    "observed_recall",
)


def stage_metadata(result: StageResult) -> dict[str, Any]:
    """Metadata of one materialisation: rows of each table, the figures the UI plots over time, findings by severity."""
    metadata: dict[str, Any] = {f"rows/{name}": len(table) for name, table in result.tables.items()}
    if len(result.tables) == 1:
        metadata["dagster/row_count"] = next(len(table) for table in result.tables.values())
    metadata |= {name: count for name, count in result.summary.items() if isinstance(count, int) and name != "version"}
    for section in (result.summary, *(part for part in result.summary.values() if isinstance(part, dict))):
        for figure in PLOTTED:
            measured = section.get(figure)
            if isinstance(measured, dict) and measured.get("value") is not None:
                metadata[figure] = round(float(measured["value"]), 4)
                metadata[f"{figure} n"] = int(measured["n"])
    if isinstance(result.summary.get("reason"), str):
        metadata["not measured"] = result.summary["reason"]
    if result.findings:
        metadata["findings"] = findings_table(result)
    return metadata


def findings_table(result: StageResult) -> dg.TableMetadataValue:
    """The findings of a stage as a table: code, severity, scope and share; messages stay in the report."""
    records = [
        dg.TableRecord(
            {
                "severity": finding.severity,
                "code": finding.code,
                "scope": ", ".join(f"{key} {value}" for key, value in finding.scope.items()) or "corpus",
                "share": "" if finding.share is None else f"{finding.share:.4f}",
                "n": finding.n_compared,
            }
        )
        for finding in result.findings
    ]
    return dg.MetadataValue.table(records)


def report_metadata(folder: Path) -> dict[str, Any]:
    """Where the report lies, and its one chart as an embedded picture."""
    metadata: dict[str, Any] = {"report": dg.MetadataValue.path(str(folder / "audit.html"))}
    chart = overview_png(read_json(folder / "audit.json"))
    if chart:
        metadata["chart"] = dg.MetadataValue.md(f"![retrieval](data:image/png;base64,{b64encode(chart).decode()})")
    return metadata
