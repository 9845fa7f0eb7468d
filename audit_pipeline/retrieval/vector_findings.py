"""Vector defects that missed probes prove in batches where the fingerprint's few rows met none. No row is judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from audit_pipeline.corpus.batches import cells_of
from audit_pipeline.findings import Finding
from audit_pipeline.scopes import Cell, cells_in, describe, merge_cells

CODES = {"misaligned": "misaligned_vectors", "role_mismatch": "role_mismatch", "vector_drift": "vector_drift"}
MEANINGS = {
    "misaligned": "hold the vector of another row's text",
    "role_mismatch": "carry another prompt or template than the settings say",
    "vector_drift": "hold a vector that is no known encoding of their text",
}
REMEDY = "Encode these rows again and write text and vector of a row together; the table self_retrieval lists them."


def vector_findings(probes: pa.Table, reported: Sequence[Finding]) -> list[Finding]:
    """Findings of the causes in ``probes`` (schema SELF_RETRIEVAL) for cells that ``reported`` does not name already.

    Each such miss is proven: its row's vector is unfaithful, and a fresh encoding in its place would hit. A batch with
    few bad rows can escape the fingerprint's sample and still lose a probe.
    """
    cell_of = cells_of(probes)
    cells = [cell_of[batch] for batch in probes["batch"].to_pylist()]
    all_cells = set(cells)
    ids = probes["chunk_id"].to_pylist()
    # A miss that is the fault of rows ahead says nothing against its own row.
    causes = [
        None if cause is None or "rows_ahead" in json.loads(shown or "{}") else cause
        for cause, shown in zip(probes["cause"].to_pylist(), probes["evidence"].to_pylist(), strict=True)
    ]
    findings = []
    for cause, code in CODES.items():
        known = {cell for finding in reported if finding.code == code for cell in _named(finding.scope, all_cells)}
        bad = [place for place, found in enumerate(causes) if found == cause and cells[place] not in known]
        for scope in merge_cells({cells[place] for place in bad}, all_cells):
            inside = cells_in(scope, all_cells)
            rows = [place for place in bad if cells[place] in inside]
            n = sum(cell in inside for cell in cells)
            findings.append(
                Finding(
                    code,
                    "error",
                    f"{len(rows):,} of {n:,} probes ({describe(scope)}) missed because their rows {MEANINGS[cause]}.",
                    REMEDY,
                    n,
                    len(rows) / n,
                    scope,
                    {"seen_by": "missed self probes"},
                    [ids[place] for place in rows],
                )
            )
    return findings


def _named(scope: dict[str, Any], all_cells: set[Cell]) -> set[Cell]:
    """The cells of a finding's scope; a scope of rows alone is a stretch of the whole table."""
    return cells_in({key: scope[key] for key in ("source", "ingestion_date") if key in scope}, all_cells)
