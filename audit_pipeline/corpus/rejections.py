"""What the rejected rows of the source store mean for the index, as findings. Rows are rejected in validation.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.batches import display_source
from audit_pipeline.corpus.reasons import (
    BAD_DATE,
    BEFORE_START,
    DATE_OUT_OF_RANGE,
    INVALID_UTF8,
    MISSING_ID,
    NOT_YET,
    UNPARSABLE_MODULE,
)
from audit_pipeline.findings import MAX_EXAMPLES, Finding

REMEDIES = {
    MISSING_ID: "Give every row an id of its own, or map the column that holds it (columns: {chunk_id: ...}).",
    BAD_DATE: "Write the date as a date, a timestamp or YYYY-MM-DD, or give the source an ingestion_date.",
    DATE_OUT_OF_RANGE: "Correct the date, or map the column that holds the day of ingestion.",
    INVALID_UTF8: "Write the file as UTF-8.",
    UNPARSABLE_MODULE: "Correct the module, or leave it out of packages.",
}
"""Reasons by which a row of the store is lost to the index; empty text, collisions and repeats are told elsewhere."""
_OF_NO_BATCH = (BAD_DATE, DATE_OUT_OF_RANGE, NOT_YET, BEFORE_START)
"""Reasons of rows that belong to no batch: one that had them may be kept as it was."""


def rejection_findings(
    rejected: pa.Table, chunks: pa.Table, *, managed: bool, in_table: pa.Array | None = None
) -> list[Finding]:
    """One finding for each reason and set of sources; ``chunks`` has the source of every row that could be used.

    ``rejected`` has the schema REJECTED_CHUNKS. In a managed index such rows are not in the table (missing_rows), but
    for those that it keeps as they came in before. A table of others may hold them, which cannot be judged
    (not_measured): those whose id is among ``in_table``, the ids of the table, are counted, for they can still be
    returned.
    """
    sources = {source for table in (chunks, rejected) for source in pc.unique(table["source"]).to_pylist()}
    findings = []
    for reason in sorted(set(pc.unique(rejected["reason"]).to_pylist())):
        rows = rejected.filter(pc.equal(rejected["reason"], reason))
        found: Counter[str | None] = Counter(rows["source"].to_pylist())
        parts: Iterable[tuple[dict[str, Any], pa.Table]] = [({}, rows)]
        if found.keys() != sources:
            parts = [
                ({"source": display_source(source)}, rows.filter(_is(rows["source"], source)))
                for source in sorted(found, key=str)
            ]
        findings += [
            finding
            for scope, part in parts
            if (finding := _finding(reason, scope, part, _rows_of(part, scope, (chunks, rejected)), managed, in_table))
            is not None
        ]
    return findings


def _finding(
    reason: str, scope: dict[str, Any], rows: pa.Table, n: int, managed: bool, in_table: pa.Array | None
) -> Finding | None:
    evidence = {
        "reason": reason,
        "rejected": len(rows),
        "details": pc.unique(rows["detail"]).to_pylist()[:MAX_EXAMPLES],
    }
    where = [
        f"{row['origin']}:{row['row']}" for row in rows.slice(0, MAX_EXAMPLES).select(["origin", "row"]).to_pylist()
    ]
    of_source = f" of source {scope['source']} in" if scope else " of"
    standing = _standing(rows, in_table)
    # What the table keeps of a managed batch is known of twice: as it came in before, and as it was rejected now.
    n -= standing if managed and reason in _OF_NO_BATCH else 0
    told = f"{len(rows):,} of {n:,} rows{of_source} the source store"
    still = ""
    if standing:
        evidence["in_table"] = standing
        judged = "they were judged as they came in before" if managed else "they were not judged"
        still = f" {standing:,} of them stand in the table and can be returned; {judged}."
    if reason == BEFORE_START:
        message = f"{told} are dated before start_date and were left out, as the settings say.{still}"
        return Finding(
            "not_measured", "info", message, "Set an earlier start_date to have them audited.", 0, None, scope, evidence
        )
    if reason == NOT_YET:
        message = f"{told} wait for their day: {rows['detail'][0].as_py()}.{still}"
        remedy = "None is needed where the dates are right: an ingest on that day brings the rows in."
        return Finding("not_measured", "info", message, remedy, 0, None, scope, evidence)
    if reason not in REMEDIES:
        return None
    lost = len(rows) - standing
    if managed and lost:
        absent = "are not in the table" if not standing else f"{lost:,} of them are not in the table"
        return Finding(
            "missing_rows",
            "error",
            f"{told} could not be used and {absent} ({reason}: {rows['detail'][0].as_py()}).{still}",
            REMEDIES[reason],
            n,
            lost / n,
            scope,
            evidence,
            where,
        )
    message = f"{told} could not be compared with the table ({reason}: {rows['detail'][0].as_py()}).{still}"
    return Finding("not_measured", "info", message, REMEDIES[reason], 0, None, scope, evidence, where)


def _rows_of(part: pa.Table, scope: dict[str, Any], tables: Iterable[pa.Table]) -> int:
    """How many rows the scope has, of one source or of all: the share of a part of the corpus is of that part."""
    if not scope:
        return sum(len(table) for table in tables)
    source = part["source"][0].as_py()
    return sum(pc.sum(_is(table["source"], source)).as_py() or 0 for table in tables)


def _standing(rows: pa.Table, in_table: pa.Array | None) -> int:
    """Distinct ids of the rows that the table holds."""
    if in_table is None:
        return 0
    ids = pc.unique(rows["chunk_id"].drop_null())
    return pc.sum(pc.is_in(ids, value_set=in_table)).as_py() or 0


def _is(values: pa.ChunkedArray, wanted: str | None) -> pa.ChunkedArray:
    return values.is_null() if wanted is None else pc.fill_null(pc.equal(values, wanted), False)
