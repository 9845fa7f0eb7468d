"""Vector defects that only missed probes prove, at the batch they sit in."""

from __future__ import annotations

import pyarrow as pa

from audit_pipeline.findings import Finding
from audit_pipeline.retrieval.vector_findings import vector_findings


def probes(*rows: tuple[str, str, str | None]) -> pa.Table:
    """Probes of (source, day, cause), ids c0, c1, ..."""
    return pa.table(
        {
            "chunk_id": [f"c{number}" for number in range(len(rows))],
            "source": [source for source, _, _ in rows],
            "batch": [f"{day}|{source}" for source, day, _ in rows],
            "cause": pa.array([cause for _, _, cause in rows], pa.string()),
            "evidence": pa.array([None if cause is None else "{}" for _, _, cause in rows], pa.string()),
        }
    )


ROWS = [("a", "2026-01-01", None)] * 4 + [("b", "2026-01-01", None)] * 3 + [("b", "2026-01-01", "misaligned")]


def test_a_defect_that_the_sample_did_not_meet_is_reported_in_its_batch() -> None:
    (finding,) = vector_findings(probes(*ROWS), [])
    assert (finding.code, finding.severity) == ("misaligned_vectors", "error")
    assert finding.scope == {"source": "b", "ingestion_date": "2026-01-01"}
    assert (finding.n_compared, finding.share, finding.examples) == (4, 0.25, ["c7"])


def test_a_miss_that_is_the_fault_of_rows_ahead_says_nothing_against_its_batch() -> None:
    table = probes(*ROWS[:-1], ("b", "2026-01-01", "role_mismatch"))
    evidence = pa.array([None] * 7 + ['{"rows_ahead": ["c0"]}'], pa.string())
    assert vector_findings(table.set_column(4, "evidence", evidence), []) == []
    assert len(vector_findings(table, [])) == 1


def test_a_defect_that_is_reported_already_is_not_reported_twice() -> None:
    def known(scope: dict) -> list[Finding]:
        return [Finding("misaligned_vectors", "error", "m", "r", 4, 0.5, scope)]

    for scope in ({}, {"source": "b"}, {"source": "b", "ingestion_date": "2026-01-01"}, {"rows": [0, 7]}):
        assert vector_findings(probes(*ROWS), known(scope)) == []
    assert len(vector_findings(probes(*ROWS), known({"source": "a"}))) == 1


def test_each_cause_has_its_own_code_and_other_causes_are_no_vector_defects() -> None:
    causes = ("role_mismatch", "vector_drift", "twin", "encoder", "text_drift")
    rows = [(f"s{number}", "2026-01-01", cause) for number, cause in enumerate(causes)]
    found = {finding.code: finding.scope["source"] for finding in vector_findings(probes(*rows), [])}
    assert found == {"role_mismatch": "s0", "vector_drift": "s1"}
    assert vector_findings(probes(("a", "2026-01-01", None)), []) == []


def test_a_batch_without_dates_is_named_by_its_source_alone() -> None:
    undated = probes(*ROWS).append_column("ingestion_date", pa.nulls(len(ROWS), pa.date32()))
    (finding,) = vector_findings(undated, [])
    assert finding.scope == {"source": "b"}
    assert "(source 'b')" in finding.message
    known = Finding("misaligned_vectors", "error", "m", "r", 4, 0.5, {"source": "b"})
    assert vector_findings(undated, [known]) == []
