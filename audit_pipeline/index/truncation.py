"""Findings about texts longer than what is read of them. How much is read is found out by the encoder room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.batches import cells_of
from audit_pipeline.findings import MAX_EXAMPLES, Finding
from audit_pipeline.scopes import cells_in, describe, merge_cells

MIN_CELL_ROWS = 20
"""Cells with fewer rows are too small for a share that means anything; where all are, the corpus is counted as one."""


@dataclass(frozen=True)
class ReadLimit:
    """What is read of a text: ``length`` tokens or words; ``what`` says so in words."""

    length: int
    unit: Literal["tokens", "words"]
    what: str


def truncation_findings(lengths: pa.Table, limit: ReadLimit, most: float) -> list[Finding]:
    """``truncation``: cells of at least 20 rows of which more than the share ``most`` is longer than what is read.

    Where no cell has so many, as with small batches every day, all rows together are judged as one cell.

    ``lengths`` has chunk_id, source, ingestion_date, batch, n_tokens and n_words of the chunks. Rows whose length is
    not known in the limit's unit are not counted; where none is, the check is not measured.
    """
    column = lengths["n_tokens" if limit.unit == "tokens" else "n_words"]
    known = lengths.filter(pc.is_valid(column))
    if not known.num_rows:
        return [truncation_not_measured("no row's tokens were counted")]
    over = pc.greater(column.filter(pc.is_valid(column)), limit.length)
    counted = known.append_column("over", pc.cast(over, pa.int64()))
    per_batch = counted.group_by("batch").aggregate([("over", "sum"), ("over", "count")])
    cells = cells_of(known)
    cut: set[str] = set()
    for row in per_batch.to_pylist():
        if row["over_count"] >= MIN_CELL_ROWS and row["over_sum"] > most * row["over_count"]:
            cut.add(row["batch"])
    if pc.max(per_batch["over_count"]).as_py() < MIN_CELL_ROWS <= counted.num_rows:
        cut = set(cells) if pc.sum(counted["over"]).as_py() > most * counted.num_rows else set()
    findings = []
    for scope in merge_cells({cells[batch] for batch in cut}, set(cells.values())):
        inside = cells_in(scope, cells.values())
        members = pa.array([batch for batch, cell in cells.items() if cell in inside], pa.string())
        rows = counted.filter(pc.is_in(counted["batch"], value_set=members))
        of_cut = rows.filter(
            pc.and_(pc.equal(rows["over"], 1), pc.is_in(rows["batch"], value_set=pa.array(sorted(cut), pa.string())))
        )
        k, n = of_cut.num_rows, rows.num_rows
        findings.append(
            Finding(
                code="truncation",
                severity="warning",
                message=f"{k:,} of {n:,} rows are longer than {limit.what} ({describe(scope)}): what comes after "
                "cannot be found.",
                remedy="Split the texts into smaller chunks, or use an encoder that reads more.",
                n_compared=n,
                share=k / n,
                scope=scope,
                evidence={"rows": k, "limit": limit.length, "unit": limit.unit},
                examples=pc.unique(of_cut["chunk_id"]).sort().slice(0, MAX_EXAMPLES).to_pylist(),
            )
        )
    return findings


def truncation_not_measured(reason: str) -> Finding:
    """It is not known how much of a text is read: never a pass."""
    return Finding(
        code="not_measured",
        severity="info",
        message=f"Not measured: truncation ({reason}).",
        remedy="Name an encoder, with encoder.max_tokens where a server reads less than its model declares.",
        n_compared=0,
        evidence={"checks": ["truncation"]},
    )
