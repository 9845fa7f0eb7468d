"""Writes a finished report and swaps it in whole: the last good report survives any failure. It computes nothing."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.report.audit_json import dump_audit, validate_audit
from audit_pipeline.report.beir import ExportTexts, write_beir
from audit_pipeline.report.clusters_view import largest_clusters
from audit_pipeline.report.excerpts import cut_excerpts
from audit_pipeline.report.page import render_page
from audit_pipeline.report.query_names import apart_from_documents
from audit_pipeline.report.tables import conform_all
from audit_pipeline.report.trec import write_trec
from audit_pipeline.report_settings import ReportSettings

log = logging.getLogger(__name__)


def publish(
    report_dir: Path,
    audit: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    excerpts: pa.Table | None,
    settings: ReportSettings,
    exported: ExportTexts,
) -> None:
    """Writes audit.json, audit.html, tables/*.parquet, trec/ and beir/ to ``report_dir`` (DIR/reports/<name>).

    ``tables`` are keyed as in ``audit_pipeline.schemas.TABLES``; those not given are written empty. ``excerpts`` has
    chunk_id and text of the chunks the page may show as examples (``report.excerpts.wanted_chunk_ids`` lists them);
    ``settings.text`` decides how much of a text is shown, and ``exported`` is written with its texts where that is
    ``full``, else with its ids alone. Everything is written beside ``report_dir`` first; only a
    complete report takes its place. Raises AuditShapeError or ValueError where a part has the wrong shape.
    """
    recover(report_dir)
    validate_audit(audit)
    conformed = conform_all(tables)
    texts = cut_excerpts(excerpts, settings.text)
    page = render_page(audit, texts, largest_clusters(conformed["duplicate_clusters"]))
    report_dir.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{report_dir.name}.new-", dir=report_dir.parent))
    try:
        # mkdtemp makes private folders; a report is as readable as any other file of the state folder.
        made.chmod(0o777 & ~_umask())
        (made / "audit.json").write_text(dump_audit(audit), encoding="utf-8")
        (made / "audit.html").write_text(page, encoding="utf-8")
        (made / "tables").mkdir()
        for name, table in conformed.items():
            pq.write_table(table, made / "tables" / f"{name}.parquet", compression="zstd")
        _write_exports(made, conformed["retrieved"], conformed["qrels"], exported, settings)
        _swap(made, report_dir)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _write_exports(
    folder: Path, retrieved: pa.Table, qrels: pa.Table, exported: ExportTexts, settings: ReportSettings
) -> None:
    texts = exported if settings.text == "full" else exported.withheld()
    documents = [texts.corpus["chunk_id"], retrieved["chunk_id"], qrels["chunk_id"]]
    retrieved, qrels, queries = apart_from_documents([retrieved, qrels, texts.queries], documents)
    write_trec(folder / "trec", retrieved, qrels)
    write_beir(folder / "beir", replace(texts, queries=queries), qrels)


def recover(report_dir: Path) -> None:
    """Puts the last good report back where a process was killed between the two renames of a swap."""
    previous = _previous(report_dir)
    if previous.is_dir():
        if report_dir.exists():
            shutil.rmtree(previous)
        else:
            log.warning("%s: the last report was being replaced when its process ended; it is back", report_dir)
            previous.rename(report_dir)
    for left in report_dir.parent.glob(f".{report_dir.name}.new-*"):
        shutil.rmtree(left, ignore_errors=True)


def _swap(made: Path, report_dir: Path) -> None:
    """Folders cannot replace each other in one rename, so the old one steps aside first and returns on failure."""
    previous = _previous(report_dir)
    if report_dir.exists():
        report_dir.rename(previous)
    try:
        made.rename(report_dir)
    except BaseException:
        if previous.exists() and not report_dir.exists():
            previous.rename(report_dir)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def _previous(report_dir: Path) -> Path:
    return report_dir.with_name(f".{report_dir.name}.previous")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
