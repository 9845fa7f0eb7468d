"""Names of queries in exported files: never that of a document. The tables keep the names they have."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_PREFIX = "query:"


def apart_from_documents(tables: list[pa.Table], documents: list[pa.ChunkedArray]) -> list[pa.Table]:
    """The tables (run, query_id, ...), the queries of a run with a prefix where one of them is called as a document.

    Evaluators (beir, mteb) drop a result whose id is the query's own. A team's own query ids may well be such.
    """
    taken = pc.unique(
        pa.chunked_array([chunk for ids in documents for chunk in ids.cast(pa.string()).chunks], pa.string())
    )
    runs = sorted({run for table in tables for run in pc.unique(table["run"]).to_pylist()})
    for run in runs:
        prefix = ""
        while any(_collides(table, run, prefix, taken) for table in tables):
            prefix += _PREFIX
        if prefix:
            tables = [_renamed(table, run, prefix) for table in tables]
    return tables


def _collides(table: pa.Table, run: str, prefix: str, taken: pa.Array) -> bool:
    own = table["query_id"].filter(pc.equal(table["run"], run))
    named = pc.binary_join_element_wise(pa.scalar(prefix), own.cast(pa.string()), "")
    return bool(pc.any(pc.is_in(named, value_set=taken)).as_py())


def _renamed(table: pa.Table, run: str, prefix: str) -> pa.Table:
    column = table.schema.get_field_index("query_id")
    named = pc.binary_join_element_wise(pa.scalar(prefix), table["query_id"].cast(pa.string()), "")
    ids = pc.if_else(pc.equal(table["run"], run), named, table["query_id"].cast(pa.string()))
    return table.set_column(column, table.schema.field(column), ids)
