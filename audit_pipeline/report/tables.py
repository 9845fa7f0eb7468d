"""Puts the published tables into their Arrow schemas and their order. What the columns mean belongs to the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.schemas import TABLES

SORT_KEYS: dict[str, tuple[str, ...]] = {
    "self_retrieval": ("probe_id",),
    "held_out_retrieval": ("probe_id",),
    "labelled_retrieval": ("query_id",),
    "labelled_documents": ("query_id", "rank", "document"),
    "retrieved": ("run", "query_id", "rank", "chunk_id"),
    "qrels": ("run", "query_id", "chunk_id"),
    "ann_recall": ("run", "query_id"),
    "formatting_arms": ("run", "arm"),
    "observed_retrieval": ("query_id",),
    "strata": ("run", "dimension", "source", "ingestion_date", "length_band", "position", "document", "measure"),
    "candidate_pairs": ("chunk_id_a", "chunk_id_b"),
    "similarity_floor": ("scope", "statistic"),
    "threshold_sweep": ("threshold",),
    "duplicate_clusters": ("cluster_id", "chunk_id"),
    "batch_integrity": ("batch",),
}


def conform(name: str, table: pa.Table) -> pa.Table:
    """The table with exactly the columns and types of its schema, sorted by its keys.

    Raises ValueError naming table and column where a column is missing or unknown, a value does not fit its type, or
    a column that may not be null holds one: a defect of the stage that made it.
    """
    schema = TABLES[name]
    missing = [field.name for field in schema if field.name not in table.column_names]
    unknown = [column for column in table.column_names if column not in schema.names]
    if missing or unknown:
        raise ValueError(f"table {name}: columns missing {missing}, unknown {unknown}")
    columns = []
    for field in schema:
        column = table[field.name]
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise ValueError(f"table {name}, column {field.name}: {error}") from error
        if not field.nullable and column.null_count:
            raise ValueError(f"table {name}, column {field.name}: {column.null_count} nulls where none may be")
        columns.append(column)
    conformed = pa.Table.from_arrays(columns, schema=schema)
    if _in_order(conformed, SORT_KEYS[name]):
        return conformed  # sorting copies, and millions of pairs come sorted
    return conformed.sort_by([(key, "ascending") for key in SORT_KEYS[name]]).combine_chunks()


def _in_order(table: pa.Table, keys: Sequence[str]) -> bool:
    """Whether the rows stand as ``sort_by`` would put them; False also where that is not looked at (null, NaN)."""
    rows = len(table)
    if any(table[key].null_count or pa.types.is_floating(table[key].type) for key in keys):
        return rows < 2
    tied = pa.chunked_array([pa.repeat(pa.scalar(True), max(rows - 1, 0))])
    for key in keys:
        earlier, later = table[key].slice(0, max(rows - 1, 0)), table[key].slice(1)
        if pc.any(pc.and_(tied, pc.greater(earlier, later))).as_py():
            return False
        tied = pc.and_(tied, pc.equal(earlier, later))
    return True


def conform_all(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Every published table; one that no stage made is empty. Raises ValueError for a name without a schema."""
    unknown = [name for name in tables if name not in TABLES]
    if unknown:
        raise ValueError(f"tables without a schema: {unknown}")
    return {
        name: conform(name, tables[name]) if name in tables else schema.empty_table() for name, schema in TABLES.items()
    }
