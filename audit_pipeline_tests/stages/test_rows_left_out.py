"""Rows that the store has but leaves out, standing in a table of others: told as such, never as left over."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from audit_pipeline.stages.index import corpus_integrity, vector_index
from audit_pipeline_tests.index.builders import lists, unit_vectors, write
from audit_pipeline_tests.stages.builders import workspace, write_rows

DAYS = ["2025-06-01", "not a day", "2031-01-01", "2026-01-05", "2026-01-05"]


def test_rows_before_the_start_or_without_a_usable_date_are_counted_and_not_to_be_deleted(tmp_path: Path) -> None:
    ids = [f"c{i}" for i in range(len(DAYS))]
    write_rows(tmp_path, [(name, "s", day, f"Text of {name}.") for name, day in zip(ids, DAYS, strict=True)])
    held = [*ids, "gone"]
    texts = [f"Text of {name}." for name in held]
    write(tmp_path / "db", pa.table({"chunk_id": held, "text": texts, "vector": lists(unit_vectors(len(held)))}))
    work = workspace(
        tmp_path,
        start_date="2026-01-01",
        encoder={"kind": "none"},
        index={"uri": "db", "table": "docs", "managed": False},
    )
    vector_index(work)
    corpus_integrity(work)
    found = work.findings("corpus_integrity")
    (orphans,) = [finding for finding in found if finding.code == "orphan_rows"]
    assert orphans.examples == ["gone"]
    told = {
        finding.evidence["reason"]: finding.evidence["in_table"] for finding in found if "reason" in finding.evidence
    }
    assert told == {"before_start_date": 1, "bad_date": 1, "date_out_of_range": 1}
