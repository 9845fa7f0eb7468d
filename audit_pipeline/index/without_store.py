"""What a table says of its own losses and leftovers where no source store does. Comparing with one is comparison.py."""

from __future__ import annotations

from audit_pipeline.findings import Finding
from audit_pipeline.index.documents import Documents
from audit_pipeline.index.generations import generations
from audit_pipeline.index.positions import position_gaps
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.index.versions import row_history, rows_fell
from audit_pipeline.index_settings import IndexSettings


def findings_without_store(snapshot: TableSnapshot, settings: IndexSettings, uri: str) -> list[Finding]:
    """generations, position_gaps and rows_fell, all info: without a store nobody can say whether it was meant."""
    findings = []
    if "doc_id" not in snapshot.absent:
        documents = Documents.of(snapshot.rows)
        if "text" not in snapshot.absent:
            findings += generations(snapshot, documents)
        if "position" not in snapshot.absent:
            named = settings.columns.get("position")
            findings += position_gaps(snapshot, documents, named if isinstance(named, str) else None)
    return findings + rows_fell(row_history(uri, snapshot.info.pinned, settings.storage_options))
