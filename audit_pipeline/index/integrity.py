"""Findings about rows: lost, left over, repeated, broken, drifted. Comparing is in comparison.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.validation import TEXTLESS
from audit_pipeline.findings import MAX_EXAMPLES, Finding, Severity
from audit_pipeline.index.comparison import Comparison, Flagged, compare, integrity_table
from audit_pipeline.index.coverage import fts_findings, index_findings, metric_findings, off_unit_length
from audit_pipeline.index.lacking import of_named_sources, unmeasured_of_layout, unmeasured_rows
from audit_pipeline.index.lengths import Lengths, norms, summarised
from audit_pipeline.index.pairing import Paired
from audit_pipeline.index.snapshot import USABLE, TableSnapshot
from audit_pipeline.index.text_drift import LOSSLESS, WORDS
from audit_pipeline.results import StageResult
from audit_pipeline.scopes import cells_in, describe, merge_cells

_LARGEST_MIX = 0.5


def check_batch(
    rows: pa.Table,
    vector_state: np.ndarray,
    store: pa.Table,
    rejected: pa.Table,
    max_tokens: int | None,
    unfaithful: int | None = None,
) -> pa.Table:
    """The ``schemas.BATCH_INTEGRITY`` row of one batch; no row where neither side holds anything.

    ``rows`` are the table's rows of the batch and ``vector_state`` (n,) their states; ``store`` and ``rejected`` are
    the batch's rows of the source store; ``unfaithful`` is how many vectors are no encoding of their text as configured
    (None: not compared).
    """
    table = integrity_table(compare(rows, vector_state, store, rejected, max_tokens))
    place = table.schema.get_field_index("vector_drift")
    return table.set_column(place, table.schema.field(place), pa.array([unfaithful] * len(table), pa.int64()))


def check_corpus(
    snapshot: TableSnapshot,
    store: pa.Table | None,
    rejected: pa.Table | None,
    max_tokens: int | None,
    settings: IndexAuditSettings,
    *,
    lengths: pa.Table | None = None,
    paired: Paired | None = None,
) -> StageResult:
    """All rows of the table against the source store, and the index over them.

    ``store`` (schemas.CHUNKS, with n_tokens) and ``rejected`` (all rejected rows, also those without a batch) are None
    where there is no store: what needs it is then reported as not measured. ``lengths`` stands in for the store's
    n_tokens there: chunk_id, batch, n_tokens. ``paired`` (default: by id) says how ``store`` came to the ids it has.
    Gives table ``batch_integrity`` and findings, each at the smallest set of cells that holds it.
    """
    paired = paired or Paired()
    comparison = compare(
        snapshot.rows,
        snapshot.vector_state,
        store,
        rejected,
        max_tokens,
        lengths,
        zeros_meant=snapshot.zeros_meant,
        has_text="text" not in snapshot.absent,
    )
    usable = int((snapshot.vector_state == USABLE).sum())
    off = off_unit_length(snapshot)
    lengths = summarised(norms(snapshot.vectors), snapshot.vector_state == USABLE)
    metric = metric_findings(snapshot.info, off, usable, lengths)
    findings = [
        *_row_findings(comparison, settings, paired),
        *index_findings(snapshot.info, settings.index, len(comparison.placeholders)),
        *fts_findings(snapshot.info, settings.index),
        *(metric or _not_normalised(comparison, snapshot, off, lengths)),
        *_filter_excludes(comparison, snapshot, settings.index.filter),
        *unmeasured_rows(comparison, paired, settings),
        *unmeasured_of_layout(snapshot),
    ]
    return StageResult(
        tables={"batch_integrity": integrity_table(comparison)},
        summary={"rows": snapshot.rows.num_rows, "batches": len(comparison.cells), "compared": comparison.compared},
        findings=findings,
    )


@dataclass(frozen=True)
class _Kind:
    """How one kind of fault is told. ``message`` takes the words for {k}, {n} and {where}.

    Where ``words`` says what each detail means, the message takes their counts for {details}.
    """

    code: str
    severity: Severity
    message: str
    remedy: str
    words: Mapping[str, str] = field(default_factory=dict)


def _row_findings(comparison: Comparison, settings: IndexAuditSettings, paired: Paired) -> list[Finding]:
    managed = settings.index.managed
    again = f"Ingest the batch again: dg launch --job {settings.ingest_job} --partition 'DATE|SOURCE'."
    ingest = again if managed else "Write the batch again from the source store."
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

    def add(kind: _Kind, flagged: Flagged, compared: dict[str, int], detail: str | None = None) -> None:
        findings.extend(_scoped(kind, flagged, compared, comparison, detail))

    if comparison.compared:
        add(
            _Kind(
                "missing_rows",
                "error",
                "{k} of {n} rows of the source store are not in the table ({where})." + compared_by,
                ingest + " A row rejected as id_collision needs an id of its own.",
            ),
            missing,
            expected,
            "kinds",
        )
        add(
            _Kind(
                "orphan_rows",
                "warning",
                "{k} of {n} rows of the table are in no source ({where}): they can still be returned." + compared_by,
                ingest if managed else "Delete what the source no longer has when a document is written again.",
            ),
            comparison.orphans.where(of_named_sources(comparison, settings)),
            table,
        )
        add(
            _Kind(
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
            _Kind(
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
        _Kind(
            "duplicate_ids",
            "error",
            "{k} ids stand on more than one of {n} rows ({where}).",
            "Merge on the id with one writer at a time, and delete the repeated rows.",
        ),
        comparison.duplicates,
        table,
    )
    add(
        _Kind(
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
        _Kind(
            "dimension_mismatch",
            "error",
            "{k} of {n} rows have a vector of another dimension than the rest ({where}).",
            "Encode these rows again with the model of the rest.",
        ),
        comparison.wrong_dimension,
        table,
    )
    add(
        _Kind(
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
        kind = _Kind(
            "placeholder_rows",
            "info",
            "{k} of {n} rows are stand-ins without text or without a vector ({where}): no vector search finds them.",
            "Delete stand-ins once real rows are there, and embed rows that should be found; "
            "an index built on stand-ins has to be built again.",
        )
        findings.append(_told(kind, comparison.placeholders, sum(table.values()), {}, "states"))
    return findings


def _not_normalised(
    comparison: Comparison, snapshot: TableSnapshot, off: np.ndarray, lengths: Lengths
) -> list[Finding]:
    """Lengths off 1. Under cosine they do not matter, but a minority of them shows a second way of writing rows.

    Nor do they where all rows have one length: then every metric ranks alike, and no row is wrong; scores are scaled.
    """
    usable = int((snapshot.vector_state == USABLE).sum())
    cosine = snapshot.metric == "cosine"
    if not off.any() or (cosine and off.sum() > _LARGEST_MIX * usable):
        return []
    mask = pa.array(off)
    flagged = Flagged(snapshot.chunk_ids.filter(mask), snapshot.rows["batch"].combine_chunks().filter(mask))
    remedy = "Normalise vectors before they are written, or search with cosine."
    if cosine:
        effect = "cosine does not mind, but these rows were written in another way than the rest"
    elif lengths.even:
        effect = (
            f"all have length {lengths.median:.4g}, so that they rank under {snapshot.metric} as under cosine, and "
            "only scores are scaled"
        )
        remedy = "Nothing to do for the ranking; mind the scale where scores meet a cut-off or another table's scores."
    else:
        effect = f"under {snapshot.metric} long vectors win or lose whatever they say"
    kind = _Kind(
        "not_normalised",
        "warning" if cosine or lengths.even else "error",
        f"{{k}} of {{n}} vectors are not of length 1 ({{where}}); {effect}.",
        remedy,
    )
    told = _scoped(kind, flagged, comparison.table_rows, comparison, None)
    shown = {"shortest": lengths.least, "median": lengths.median, "longest": lengths.most}
    return [replace(finding, evidence={**finding.evidence, "lengths": shown}) for finding in told]


def _filter_excludes(comparison: Comparison, snapshot: TableSnapshot, sql: str | None) -> list[Finding]:
    """Rows that the application's own filter keeps out of every result: those lost to a null apart from the rest."""
    passes, undecided = snapshot.passes_filter, snapshot.filter_undecided
    if passes is None or undecided is None or passes.all():
        return []
    findings = []
    remedy = "Add 'OR column IS NULL' to the filter where these rows should be found, or fill the column."
    if snapshot.row_filter is not None:
        filled = ", ".join(snapshot.row_filter.names)
        remedy = f"Fill the columns of the filter ({filled}): a row without a value there is nobody's."
    nothing = "" if passes.any() else ": it lets nothing through, and every search comes back empty"
    told: list[tuple[np.ndarray, Severity, str, str]] = [
        (undecided, "warning", "a null makes the filter neither true nor false, and SQL drops the row", remedy),
        (~passes & ~undecided, "info", "by intent or not", "Nothing to do where the filter is meant so."),
    ]
    for rows, severity, why, remedy in told:
        mask = pa.array(rows)
        flagged = Flagged(snapshot.chunk_ids.filter(mask), snapshot.rows["batch"].combine_chunks().filter(mask))
        message = f"{{k}} of {{n}} rows are kept out of every result by the filter ({{where}}); {why}{nothing}."
        kind = _Kind("filter_excludes", severity, message, remedy)
        findings += _scoped(kind, flagged, comparison.table_rows, comparison, None)
    return [replace(finding, evidence={**finding.evidence, "filter": sql}) for finding in findings]


def _scoped(
    kind: _Kind, flagged: Flagged, compared: dict[str, int], comparison: Comparison, detail: str | None
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
        findings.append(_told(kind, rows, n, scope, detail))
    return findings


def _told(kind: _Kind, rows: Flagged, n: int, scope: dict[str, Any], detail: str | None) -> Finding:
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
