"""Findings about rows: lost, left over, repeated, broken, drifted. Comparing is in comparison."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.reasons import ID_COLLISION, TEXTLESS
from audit_pipeline.findings import Finding
from audit_pipeline.index.comparison import Comparison, Flagged
from audit_pipeline.index.flagged_findings import Kind, scoped, told
from audit_pipeline.index.lacking import of_named_sources
from audit_pipeline.index.pairing import Paired
from audit_pipeline.index.text_drift import LOSSLESS, WORDS


def row_findings(comparison: Comparison, settings: IndexAuditSettings, paired: Paired) -> list[Finding]:
    """What the comparison flagged; of what needs a store, nothing where there was none."""
    managed = settings.index.managed
    ingest = "Ingest the batch again." if managed else "Write the batch again from the source store."
    table, store = comparison.table_rows, comparison.store_rows
    collided = Counter(comparison.collided.batches.to_pylist())
    expected = {batch: store.get(batch, 0) + collided.get(batch, 0) for batch in {*store, *collided}}
    orphans = Counter(comparison.orphans.batches.to_pylist())
    matched = {batch: rows - orphans.get(batch, 0) for batch, rows in table.items()}
    lossless = pc.is_in(comparison.drifted.detail, value_set=pa.array(LOSSLESS))
    missing = _joined(comparison.missing, comparison.collided)
    textless = pc.is_in(comparison.rejected.detail, value_set=pa.array(TEXTLESS))
    # A row without text that the writer took in all the same is one row, not two.
    empty = comparison.rejected.where(
        pc.and_not(textless, pc.is_in(comparison.rejected.ids, value_set=comparison.blank.ids))
    )
    blank = _together(comparison.blank, empty, ("in_table", "rejected"))
    read = {batch: table.get(batch, 0) + n for batch, n in Counter(empty.batches.to_pylist()).items()}
    compared_by = " Rows were compared by their text, for no id is shared." if paired.by == "text" else ""
    findings: list[Finding] = []

    def add(kind: Kind, flagged: Flagged, compared: dict[str, int], detail: str | None = None) -> None:
        findings.extend(scoped(kind, flagged, compared, comparison, detail))

    if comparison.compared:
        add(
            Kind(
                "missing_rows",
                "error",
                "{k} of {n} rows of the source store are not in the table ({where})." + compared_by,
                ingest,
            ),
            missing,
            expected,
            "kinds",
        )
        findings = [_of_shared_ids(finding, managed) for finding in findings]
        add(
            Kind(
                "orphan_rows",
                "warning",
                "{k} of {n} rows of the table are in no source ({where}): they can still be returned." + compared_by,
                ingest if managed else "Delete what the source no longer has when a document is written again.",
            ),
            comparison.orphans.where(of_named_sources(comparison, settings)),
            table,
        )
        add(
            Kind(
                "text_drift",
                "error",
                "{k} of {n} rows hold another text than the source store ({where}): {details}.",
                ingest + " Encode the text that is stored.",
                WORDS,
            ),
            comparison.drifted.where(pc.invert(lossless)),
            matched,
            "kinds",
        )
        add(
            Kind(
                "text_drift",
                "warning",
                "{k} of {n} rows hold the source store's text in another form ({where}): {details}.",
                "Clean the text once, before it is both stored and encoded.",
                WORDS,
            ),
            comparison.drifted.where(lossless),
            matched,
            "undone_by",
        )
    add(
        Kind(
            "duplicate_ids",
            "error",
            "{k} ids stand on more than one of {n} rows ({where}).",
            "Merge on the id with one writer at a time, and delete the repeated rows.",
        ),
        comparison.duplicates,
        table,
    )
    add(
        Kind(
            "invalid_vectors",
            "error",
            "{k} of {n} rows have a vector that no search can use ({where}).",
            "Encode these rows again, and let the writer fail on bad vectors instead of filling them.",
        ),
        comparison.invalid,
        table,
        "states",
    )
    add(
        Kind(
            "dimension_mismatch",
            "error",
            "{k} of {n} rows have a vector of another dimension than the rest ({where}).",
            "Encode these rows again with the model of the rest.",
        ),
        comparison.wrong_dimension,
        table,
    )
    add(
        Kind(
            "empty_text",
            "warning",
            "{k} of {n} rows have no text but white space ({where}).",
            "Leave such rows out where they are made" + ("; rejected ones are not in the table." if managed else "."),
        ),
        blank,
        {**table, **read},
        "kinds",
    )
    if len(comparison.placeholders):
        # Told once, wherever they stand: they are no fault of a batch.
        kind = Kind(
            "placeholder_rows",
            "info",
            "{k} of {n} rows are stand-ins without text or without a vector ({where}): no vector search finds them.",
            "Delete stand-ins once real rows are there, and embed rows that should be found; "
            "an index built on stand-ins has to be built again.",
        )
        findings.append(told(kind, comparison.placeholders, sum(table.values()), {}, "states"))
    return findings


def _of_shared_ids(finding: Finding, managed: bool) -> Finding:
    """Says of rows that are missing because another row has their id that an ingest does not bring them back."""
    kinds = finding.evidence.get("kinds", {})
    shared = kinds.get(ID_COLLISION, 0)
    if not shared:
        return finding
    which = ", the earliest by date and then by source" if managed else ""
    own = f"Give rows that share an id ids of their own in the source store: the table holds one of them{which}."
    return replace(
        finding,
        message=f"{finding.message} Another row has the id of {shared:,} of them.",
        remedy=own if len(kinds) == 1 else f"{finding.remedy} {own}",
    )


def _together(one: Flagged, other: Flagged, details: tuple[str, str]) -> Flagged:
    return _joined(
        replace(one, detail=pa.repeat(pa.scalar(details[0]), len(one))),
        replace(other, detail=pa.repeat(pa.scalar(details[1]), len(other))),
    )


def _joined(one: Flagged, other: Flagged) -> Flagged:
    return Flagged(
        pa.concat_arrays([one.ids, other.ids]),
        pa.concat_arrays([one.batches, other.batches]),
        pa.concat_arrays([one.detail, other.detail]),
    )
