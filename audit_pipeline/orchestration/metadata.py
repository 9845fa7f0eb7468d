"""What a corpus-wide stage shows in the Dagster UI: counts and figures, never corpus text. Nothing is computed here."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import dagster as dg

from audit_pipeline.findings import sort_key
from audit_pipeline.report.charts import overview_png
from audit_pipeline.results import StageResult
from audit_pipeline.stages.limits import CheckOutcome
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
MOST_FINDINGS = 50  # of a table in the event log, which keeps it for ever


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


def check_result(outcome: CheckOutcome) -> dg.AssetCheckResult:
    """The outcome of a check as Dagster keeps it: its text is what the UI and alerts on checks show first."""
    severity = dg.AssetCheckSeverity.ERROR if outcome.error else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        passed=outcome.passed, severity=severity, description=outcome.text, metadata=outcome.figures
    )


def findings_table(result: StageResult) -> dg.TableMetadataValue:
    """The findings of a stage, errors first: code, severity, scope and share; messages stay in the report."""
    every = sorted(result.findings, key=sort_key)
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
        for finding in every[:MOST_FINDINGS]
    ]
    if len(every) > MOST_FINDINGS:
        more = f"and {len(every) - MOST_FINDINGS} more: see the report"
        records.append(dg.TableRecord({"severity": "", "code": more, "scope": "", "share": "", "n": ""}))
    return dg.MetadataValue.table(records)


def report_metadata(folder: Path) -> dict[str, Any]:
    """What the audit says, where the report lies, and its one chart as an embedded picture."""
    audit = read_json(folder / "audit.json")
    metadata: dict[str, Any] = {
        "reading": audit["verdict"]["reading"],
        "verdict": audit["verdict"]["text"],
        "report": dg.MetadataValue.path(str(folder / "audit.html")),
    }
    chart = overview_png(audit)
    if chart:
        metadata["chart"] = dg.MetadataValue.md(f"![retrieval](data:image/png;base64,{b64encode(chart).decode()})")
    return metadata
