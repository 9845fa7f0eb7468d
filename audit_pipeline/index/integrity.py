"""The table against the source store, of one batch and as a whole. What is told of rows stands in row_findings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.index.comparison import compare, integrity_table
from audit_pipeline.index.coverage import empty_table, fts_findings, index_findings, metric_findings, off_unit_length
from audit_pipeline.index.lacking import unmeasured_of_layout, unmeasured_rows
from audit_pipeline.index.lengths import norms, summarised
from audit_pipeline.index.pairing import Paired
from audit_pipeline.index.row_findings import row_findings
from audit_pipeline.index.searchability import filter_excludes, not_normalised
from audit_pipeline.index.snapshot import USABLE, TableSnapshot
from audit_pipeline.results import StageResult


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
    spread = summarised(norms(snapshot.vectors), snapshot.vector_state == USABLE)
    metric = metric_findings(snapshot.info, off, usable, spread)
    of_rows = row_findings(comparison, settings, paired)
    empty = empty_table(snapshot.info, settings.index, len(comparison.placeholders))
    lost = any(finding.code == "missing_rows" for finding in of_rows)  # which says the same of an empty table, and more
    findings = [
        *of_rows,
        *([] if lost else empty),
        *([] if empty else index_findings(snapshot.info, settings.index, len(comparison.placeholders))),
        *fts_findings(snapshot.info, settings.index),
        *(metric or not_normalised(comparison, snapshot, off, spread)),
        *filter_excludes(comparison, snapshot, settings.index.filter),
        *unmeasured_rows(comparison, paired, settings),
        *unmeasured_of_layout(snapshot),
    ]
    return StageResult(
        tables={"batch_integrity": integrity_table(comparison)},
        summary={"rows": snapshot.rows.num_rows, "batches": len(comparison.cells), "compared": comparison.compared},
        findings=findings,
    )
