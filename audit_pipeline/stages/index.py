"""The corpus-wide stages on the table: pinned and indexed, then compared with the source store. No probe here."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.corpus.reasons import TEXTLESS
from audit_pipeline.corpus.rejections import rejection_findings
from audit_pipeline.corpus.text import count_words, is_blank, sha256_hex
from audit_pipeline.encoder.sampling import fields_of
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.pairing import Paired, pair_with_store
from audit_pipeline.index.placeholders import placeholder_rows
from audit_pipeline.index.provenance import provenance_findings
from audit_pipeline.memory import give_back
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.row_anomalies import TABLE_ROW
from audit_pipeline.stages.batches import unfinished_findings
from audit_pipeline.stages.pinning import pin_batches
from audit_pipeline.stages.provenance import provenance_as_configured, written_batches
from audit_pipeline.stages.texts import with_tokens
from audit_pipeline.stages.workspace import Workspace, corpus_stage

if TYPE_CHECKING:
    from audit_pipeline.index.snapshot import TableSnapshot

_CELLS = pa.schema([schemas.CHUNKS.field(name) for name in ("chunk_id", "source", "ingestion_date", "batch")])


@corpus_stage
def vector_index(workspace: Workspace) -> StageResult:
    """Brings the ANN index of a managed table up to date, pins the table's version, and says what should be in it."""
    from audit_pipeline.index.building import build_vector_index
    from audit_pipeline.index.connection import holds_table

    settings = workspace.settings.index
    built = None
    if settings.managed:
        if not holds_table(workspace.index_uri, settings.table, settings.storage_options):
            raise AuditInputError(f"{workspace.settings.name}: {_why_no_table(workspace)}")
        workspace.progress("building the ANN index", 0, 1)
        built = build_vector_index(
            workspace.index_uri,
            settings.table,
            settings.vector_index,
            settings.metric,
            storage_options=settings.storage_options,
        )
    snapshot = open_table(workspace, None)
    tables: dict[str, pa.Table] = {}
    store_rows = None
    paired = Paired()
    if settings.managed:
        pin_batches(workspace, snapshot.info.pinned)
    else:
        tables, paired = population_as_it_stands(workspace, snapshot)
        store_rows = len(tables["population"]) if workspace.settings.sources else None
    # Kept for the stages after this one: reading the vectors again would take as long as reading them once.
    workspace.opened = snapshot
    info = asdict(snapshot.info)
    return StageResult(
        tables,
        {
            "index": info,
            "versions": snapshot.info.pinned,
            "built": built,
            "store_rows": store_rows,
            "paired": asdict(paired),
        },
    )


def _why_no_table(workspace: Workspace) -> str:
    manifests = workspace.manifests()
    if not manifests:
        return (
            "no batch has been brought in yet, so there is no table to audit: run audit-pipeline run, or backfill of "
            "one source"
        )
    if any(manifest.rows for manifest in manifests):
        return "the table is gone that had its batches: run audit-pipeline run, which makes it anew"
    return "the sources hold no usable row: check their uri, columns and dates"


def open_table(workspace: Workspace, versions: dict[str, int] | None) -> TableSnapshot:
    """The table at a version (None: the newest), rows placed in the cells of the source store where there is one."""
    from audit_pipeline.index.reading import open_snapshot

    settings = workspace.settings
    named = [source.name for source in settings.sources if source.name != "*"]
    first_audit = workspace.state.read_memory().get("first_audit", workspace.today.isoformat())
    return open_snapshot(
        settings.index,
        workspace.index_uri,
        workspace.state.corpus / "snapshot",
        undated=dt.date.fromisoformat(first_audit),
        source=named[0] if len(named) == 1 else None,
        grain=settings.ingestion_grain,
        zone=settings.zone,
        version=versions,
        embed_fields=fields_of(settings.index.embed_text),
        progress=workspace.progress,
    )


def pinned_snapshot(workspace: Workspace) -> TableSnapshot:
    """The table at the version that vector_index pinned, opened once per process."""
    from audit_pipeline.index.reading import adopt_store_cells

    versions = workspace.summary("vector_index")["versions"]
    if workspace.pinned is None or workspace.pinned.info.pinned != versions:
        opened, workspace.opened = workspace.opened, None
        snapshot = opened if opened and opened.info.pinned == versions else open_table(workspace, versions)
        if workspace.has_store:
            snapshot = adopt_store_cells(snapshot, cells_of_store(workspace))
        workspace.pinned = snapshot
        give_back()
    return workspace.pinned


def cells_of_store(workspace: Workspace) -> pa.Table:
    """chunk_id, source, ingestion_date and batch of the store's rows; also of those without text that stand in a table
    of others: they are of that batch as well. A managed table never holds them.
    """
    cells = workspace.population(_CELLS.names)
    if workspace.settings.index.managed:
        return cells
    rejected = workspace.rejected()
    textless = pc.is_in(rejected["reason"], value_set=pa.array(TEXTLESS))
    known = pc.is_in(rejected["chunk_id"], value_set=cells["chunk_id"].combine_chunks())
    placed = pc.and_(rejected["chunk_id"].is_valid(), rejected["batch"].is_valid())
    rows = rejected.filter(pc.and_(pc.and_not(textless, known), placed))
    dates = pa.array([parse_batch_key(key)[0] for key in rows["batch"].to_pylist()], pa.date32())
    columns = [rows["chunk_id"], rows["source"], dates, rows["batch"]]
    return pa.concat_tables([cells.cast(_CELLS), pa.table(columns, schema=_CELLS)])


def population_as_it_stands(workspace: Workspace, snapshot: TableSnapshot) -> tuple[dict[str, pa.Table], Paired]:
    """What should be findable in a table of others, and how the source store's rows were paired with the table's.

    These are the store's rows where there is one that can be compared with the table, else the table's own.
    """
    paired = Paired()
    rejected = schemas.REJECTED_CHUNKS.empty_table()
    chunks = None
    if workspace.settings.sources:
        rows = workspace.store.read_all(workspace.progress)
        pairing = pair_with_store(snapshot, rows.chunks, rows.rejected)
        paired = pairing.paired
        if paired.by != "nothing":
            chunks, rejected = with_table_fields(pairing.chunks, snapshot.rows), pairing.rejected
    if chunks is None:
        real = ~placeholder_rows(snapshot.rows, snapshot.vector_state, snapshot.zeros_meant)
        table_rows = snapshot.rows.append_column(TABLE_ROW, pa.array(np.arange(snapshot.rows.num_rows)))
        real_rows = table_rows.filter(pa.array(real))
        chunks = with_table_fields(as_chunks(real_rows), real_rows)
    return {"population": with_tokens(workspace, chunks), "rejected": rejected}, paired


def with_table_fields(chunks: pa.Table, rows: pa.Table) -> pa.Table:
    """The chunks with what only the table knows of these ids: further fields, and headings and documents where the
    store has none at all. The embedded text may name them.
    """
    place = pc.index_in(chunks["chunk_id"], value_set=rows["chunk_id"].combine_chunks())
    for name in rows.column_names:
        if name not in chunks.column_names:
            chunks = chunks.append_column(name, rows[name].take(place))
        elif name in ("doc_id", "heading", "position") and chunks[name].null_count == len(chunks):
            column = chunks.schema.get_field_index(name)
            chunks = chunks.set_column(column, chunks.schema.field(name), rows[name].take(place))
    return chunks


def as_chunks(rows: pa.Table) -> pa.Table:
    """Table rows as schemas.CHUNKS, hashes and words counted; rows without any text are nothing to probe."""
    rows = rows.filter(pc.invert(is_blank(rows["text"])))
    columns = {name: rows[name] for name in rows.column_names if name in schemas.CHUNKS.names}
    columns["text_sha256"] = sha256_hex(rows["text"])
    columns["n_words"] = count_words(rows["text"])
    arrays = [columns.get(field.name, pa.nulls(len(rows), field.type)).cast(field.type) for field in schemas.CHUNKS]
    return pa.table(arrays, schema=schemas.CHUNKS)


@corpus_stage
def corpus_integrity(workspace: Workspace) -> StageResult:
    """All rows of the table against the source store: ids, texts, vectors, norms, index coverage."""
    from audit_pipeline.index.integrity import check_corpus
    from audit_pipeline.index.without_store import findings_without_store
    from audit_pipeline.retrieval.self_checks import retrieval_self_checks

    settings = workspace.settings
    snapshot = pinned_snapshot(workspace)
    # First of all stages that measure: figures from a broken instrument must not even be computed.
    self_checks = retrieval_self_checks(snapshot)
    encoder = workspace.encoder
    population = workspace.population()
    rejected = workspace.rejected() if workspace.has_store else None
    result = check_corpus(
        snapshot,
        population if workspace.has_store else None,
        rejected,
        encoder.max_tokens if encoder else None,
        settings,
        lengths=None if workspace.has_store else population.select(["chunk_id", "batch", "n_tokens"]),
        paired=Paired(**workspace.paired),
    )
    result.summary["self_checks"] = self_checks
    if settings.index.managed:
        configured = provenance_as_configured(workspace)
        result.findings += provenance_findings(written_batches(workspace), configured, settings.ingest_job)
        result.findings += unfinished_findings(workspace)
    if not workspace.has_store:
        result.findings += findings_without_store(snapshot, settings.index, workspace.index_uri)
    if rejected is not None:
        result.findings += rejection_findings(
            rejected, population, managed=settings.index.managed, in_table=snapshot.chunk_ids
        )
    return result


def can_probe(workspace: Workspace) -> bool:
    """Whether there is an encoder whose vectors have the table's dimension."""
    dimension = workspace.summary("vector_index")["index"]["dimension"]
    return workspace.encoder is not None and workspace.encoder.dimension == dimension
