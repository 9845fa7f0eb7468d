from __future__ import annotations

import pyarrow as pa
import pytest

from audit_pipeline.report.tables import SORT_KEYS, conform, conform_all
from audit_pipeline.schemas import TABLES


def test_columns_are_cast_and_put_in_order() -> None:
    table = pa.table(
        {"relevance": pa.array([1, 2], pa.int64()), "run": ["self"] * 2, "chunk_id": ["b", "a"], "query_id": ["q", "q"]}
    )
    conformed = conform("qrels", table)
    assert conformed.schema.equals(TABLES["qrels"])
    assert conformed["chunk_id"].to_pylist() == ["a", "b"]
    assert conformed["relevance"].to_pylist() == [2, 1]


def test_a_null_where_none_may_be_names_the_column() -> None:
    table = pa.table({"run": ["self"], "query_id": ["q"], "chunk_id": pa.array([None], pa.string()), "relevance": [1]})
    with pytest.raises(ValueError, match="table qrels, column chunk_id: 1 nulls"):
        conform("qrels", table)


def test_a_value_that_does_not_fit_its_type_is_refused() -> None:
    table = pa.table({"run": ["self"], "query_id": ["q"], "chunk_id": ["c"], "relevance": [2**40]})
    with pytest.raises(ValueError, match="column relevance"):
        conform("qrels", table)


def test_tables_no_stage_made_are_there_and_empty() -> None:
    tables = conform_all({})
    assert set(tables) == set(TABLES)
    assert all(table.num_rows == 0 for table in tables.values())


def test_every_table_has_an_order_by_columns_it_holds() -> None:
    assert set(SORT_KEYS) == set(TABLES)
    for name, keys in SORT_KEYS.items():
        assert set(keys) <= set(TABLES[name].names)
