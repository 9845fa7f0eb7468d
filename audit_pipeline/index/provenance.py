"""What wrote the batches of a managed table, as each ingest recorded it. What the vectors show is the fingerprint's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit_pipeline.findings import MAX_EXAMPLES, Finding
from audit_pipeline.scopes import Cell, cells_in, describe, merge_cells

DECIDING = ("fingerprint", "dtype", "max_tokens", "passage_prompt", "passage_extra", "embed_text")
"""Recorded fields that decide a vector: ``fingerprint`` is the content of the model, which may stand under any name.

Library versions only move a vector's last digits.
"""

_NAMED = ("model", "revision")


@dataclass(frozen=True)
class Written:
    """One batch: its cell, its rows in the table, and the record of what encoded them."""

    key: str
    cell: Cell
    rows: int
    record: Mapping[str, Any]


def provenance_findings(batches: Sequence[Written], configured: Mapping[str, Any], ingest_job: str) -> list[Finding]:
    """``provenance_mixed`` for the batches whose record is not that of the others.

    Right is what the settings ask for where any batch has it, else what wrote most rows. Batches that all agree are
    silent, whatever the settings say: whether vectors are as configured is the role fingerprint's question.
    """
    batches = [batch for batch in batches if batch.rows]
    rows_by_record: Counter[str] = Counter()
    for batch in batches:
        rows_by_record[_shown(batch.record)] += batch.rows
    if len(rows_by_record) < 2:
        return []
    right = _shown(configured)
    if right not in rows_by_record:
        right = max(sorted(rows_by_record), key=lambda record: rows_by_record[record])
    cells = {batch.cell for batch in batches}
    by_record = {_shown(batch.record): batch.record for batch in batches}
    expected = configured if right == _shown(configured) else by_record[right]
    found: list[Finding] = []
    for record in sorted(rows_by_record.keys() - {right}):
        held = {batch.cell for batch in batches if _shown(batch.record) == record}
        for scope in merge_cells(held, cells):
            covered = cells_in(scope, cells)
            inside = [batch for batch in batches if batch.cell in covered]
            found.append(
                _finding(scope, [batch for batch in inside if batch.cell in held], inside, expected, ingest_job)
            )
    return found


def _finding(
    scope: dict[str, Any],
    other: list[Written],
    inside: list[Written],
    expected: Mapping[str, Any],
    ingest_job: str,
) -> Finding:
    record = other[0].record
    names = (*_NAMED, *DECIDING)
    unlike = {name: [record.get(name), expected.get(name)] for name in names if record.get(name) != expected.get(name)}
    words = "; ".join(f"{name} {had!r} instead of {wanted!r}" for name, (had, wanted) in unlike.items())
    rows, n = sum(batch.rows for batch in other), sum(batch.rows for batch in inside)
    return Finding(
        code="provenance_mixed",
        severity="error",
        message=f"{rows:,} of {n:,} rows ({describe(scope)}) were encoded with {words}: scores cannot be compared.",
        remedy="Bring all batches to the present settings: audit-pipeline run, or for one of them "
        f"dg launch --job {ingest_job} --partition '{other[0].key}'.",
        scope=scope,
        share=rows / n,
        n_compared=n,
        evidence={"batches": [batch.key for batch in other[:MAX_EXAMPLES]], "count": len(other), "unlike": unlike},
    )


def _shown(record: Mapping[str, Any]) -> str:
    return json.dumps({name: record.get(name) for name in DECIDING}, sort_keys=True)
