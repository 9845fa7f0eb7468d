"""From flagged rows to findings, each at the smallest set of cells that holds it. What is flagged stands elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.findings import MAX_EXAMPLES, Finding, Severity
from audit_pipeline.index.comparison import Comparison, Flagged
from audit_pipeline.scopes import cells_in, describe, merge_cells


@dataclass(frozen=True)
class Kind:
    """How one kind of fault is told. ``message`` takes the words for {k}, {n} and {where}.

    Where ``words`` says what each detail means, the message takes their counts for {details}.
    """

    code: str
    severity: Severity
    message: str
    remedy: str
    words: Mapping[str, str] = field(default_factory=dict)


def scoped(
    kind: Kind, flagged: Flagged, compared: dict[str, int], comparison: Comparison, detail: str | None
) -> list[Finding]:
    """One finding for each scope that ``merge_cells`` makes of the flagged rows' cells.

    ``compared`` counts the rows looked at in each batch; ``detail`` names the evidence field that counts
    ``flagged.detail``.
    """
    batches = pc.unique(flagged.batches.drop_null()).to_pylist()
    cells = {batch: comparison.cells[batch] for batch, n in compared.items() if n} | {
        batch: comparison.cells[batch] for batch in batches
    }
    findings = []
    for scope in merge_cells({cells[batch] for batch in batches}, set(cells.values())):
        inside = cells_in(scope, cells.values())
        members = [batch for batch, cell in cells.items() if cell in inside]
        rows = flagged.where(pc.is_in(flagged.batches, value_set=pa.array(members, pa.string())))
        n = sum(compared.get(batch, 0) for batch in members)
        findings.append(told(kind, rows, n, scope, detail))
    return findings


def told(kind: Kind, rows: Flagged, n: int, scope: dict[str, Any], detail: str | None) -> Finding:
    """The finding of these rows, of ``n`` looked at in this scope; ``detail`` as for ``scoped``."""
    evidence: dict[str, Any] = {"rows": len(rows)}
    counts = Counter(rows.detail.to_pylist() if rows.detail is not None else [])
    if detail is not None and rows.detail is not None:
        evidence[detail] = dict(sorted(counts.items()))
    if rows.amount is not None and rows.amount.null_count < len(rows):
        lost = np.sort(rows.amount.drop_null().to_numpy())
        evidence["characters_lost"] = {
            "least": int(lost[0]),
            "median": int(lost[(len(lost) - 1) // 2]),
            "most": int(lost[-1]),
        }
    details = ", ".join(f"{count:,} {kind.words[name]}" for name, count in counts.most_common() if kind.words)
    return Finding(
        code=kind.code,
        severity=kind.severity,
        message=kind.message.format(k=f"{len(rows):,}", n=f"{n:,}", where=describe(scope), details=details),
        remedy=kind.remedy,
        n_compared=n,
        share=min(len(rows) / n, 1.0) if n else None,
        scope=scope,
        evidence=evidence,
        examples=pc.unique(rows.ids).sort().slice(0, MAX_EXAMPLES).to_pylist(),
    )
