"""What the UI shows of a stage: worked out by hand."""

from __future__ import annotations

from audit_pipeline.findings import Finding
from audit_pipeline.orchestration.metadata import MOST_FINDINGS, findings_table
from audit_pipeline.results import StageResult


def shown(findings: list[Finding]) -> list[tuple[object, ...]]:
    table = findings_table(StageResult({}, {}, findings))
    return [tuple(record.data.values()) for record in table.records]


def finding(code: str, severity: str, scope: dict[str, str], share: float | None, n: int) -> Finding:
    return Finding(code=code, severity=severity, scope=scope, share=share, n_compared=n, message="m", remedy="r")  # type: ignore[arg-type]


def test_errors_stand_first_and_each_finding_has_its_place_and_share() -> None:
    table = shown(
        [
            finding("twins", "info", {}, 0.25, 8),
            finding("missing_rows", "error", {"source": "docs", "ingestion_date": "2026-01-02"}, 0.5, 4),
            finding("not_measured", "info", {}, None, 0),
        ]
    )
    assert table == [
        ("error", "missing_rows", "source docs, ingestion_date 2026-01-02", "0.5000", 4),
        ("info", "not_measured", "corpus", "", 0),
        ("info", "twins", "corpus", "0.2500", 8),
    ]


def test_of_thousands_of_findings_the_event_log_keeps_the_first_and_a_count() -> None:
    many = [finding("text_drift", "error", {"source": f"{number:04}"}, 0.5, 4) for number in range(2000)]
    table = shown(many)
    assert len(table) == MOST_FINDINGS + 1
    assert table[0][2] == "source 0000"
    assert table[-1][1] == f"and {2000 - MOST_FINDINGS} more: see the report"
    assert len(shown(many[:MOST_FINDINGS])) == MOST_FINDINGS
