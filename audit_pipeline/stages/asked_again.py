"""The sentences that another audit held out, from its report. Where they stand in this corpus is corpus/'s to find."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.asked_again import ASKED
from audit_pipeline.errors import AuditInputError
from audit_pipeline.report.saved import open_report
from audit_pipeline.state import read_table

_COLUMNS = ("eligible", "overlap", *ASKED.names)


def asked_sentences(like: str) -> pa.Table:
    """The sentences behind the held-out figures of the report ``like``, as ASKED, in the order of their hashes.

    Raises AuditInputError where that folder is no report, or holds no sentence that can be asked again.
    """
    try:
        folder = open_report(Path(like)).folder
    except AuditInputError as error:
        raise AuditInputError(f"sample.like: {error}") from error
    path = folder / "tables" / "held_out_retrieval.parquet"
    try:
        table = read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise AuditInputError(
            f"sample.like: {path}: this table is missing or cannot be read: name the whole folder of a report"
        ) from error
    lacking = [name for name in _COLUMNS if name not in table.column_names]
    if lacking:
        raise AuditInputError(
            f"sample.like: {path}: no column {lacking[0]!r}: run that audit again with this version, then this one"
        )
    # Those that stand elsewhere too are in no figure of that audit.
    kept = pc.and_(table["eligible"], pc.invert(table["overlap"].fill_null(False)))
    asked = table.filter(pc.and_(kept, table["held_sha256"].is_valid())).select(ASKED.names)
    if not len(asked):
        raise AuditInputError(
            f"sample.like: {folder}: no sentence was held out in that audit: name another report, or remove the field"
        )
    return asked.cast(ASKED).sort_by([("held_sha256", "ascending"), ("doc_id", "ascending")])
