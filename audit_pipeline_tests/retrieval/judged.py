"""Runs with made-up figures, and the verdict on them, for tests of it."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.proportions import NOT_MEASURED, Proportion, wilson
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.verdict import (
    run_verdict,
)
from audit_pipeline_tests.retrieval.test_strata import population, self_table
from audit_pipeline_tests.retrieval.worlds import settings

D1 = dt.date(2026, 1, 2)


def self_result(
    n: int, misses: list[tuple[str, bool, dict[str, Any]]], chunks: int | None = None, limit: int = 10
) -> StageResult:
    """n probes; the first ones miss as given: (cause, hit_10, evidence)."""
    entries = [("a", D1, "0-39", i >= len(misses), misses[i][1] if i < len(misses) else True) for i in range(n)]
    rows = self_table(entries).to_pylist()
    for row, (cause, _, evidence) in zip(rows, misses, strict=False):
        row |= {"cause": cause, "evidence": json.dumps(evidence)}
    for row in rows:
        row["stratum_chunks"] = chunks or n
        row["hit_10"] = row["hit_10"] if limit >= 10 else None
    return StageResult({"self_retrieval": pa.Table.from_pylist(rows, schema=self_table([]).schema)})


def other(measure: str, figure: Proportion) -> StageResult:
    return StageResult(summary={measure: figure.as_dict()})


def verdict(
    self_run: StageResult | None,
    held_out: Proportion = NOT_MEASURED,
    labelled: Proportion = NOT_MEASURED,
    findings: list[Finding] | None = None,
    chunks: int = 1000,
    with_settings: IndexAuditSettings | None = None,
    **options: Any,
) -> StageResult:
    return run_verdict(
        with_settings or settings(),
        population([("a", D1, chunks)]),
        self_run,
        other("heldout@10", held_out),
        other("labelled_success@10", labelled),
        findings or [],
        **options,
    )


def reading(*args: Any, **options: Any) -> str:
    return verdict(*args, **options).summary["verdict"]["reading"]


PERFECT = self_result(1000, [])


TWINS = [("twin", False, {"group": 40, "numeric": False, "twins": ["x"], "kind": "same_text"})] * 40


LOST = [("missing_row", False, {"table_rows": 960})] * 40


CEILING = wilson(900, 1000)


ERROR = Finding("missing_rows", "error", "m", "r", n_compared=5)


def codes(result: StageResult) -> dict[str, Finding]:
    return {finding.code: finding for finding in result.findings}
