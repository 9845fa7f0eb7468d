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


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (["b", "a"], ["c", "c"]),
        (["a", "a", "a"], ["c", "b", "d"]),
        (["a", "é", "z"], ["b", "b", "b"]),  # bytes decide: é comes after z
        (["a", "a", "b"], ["b", "c", "a"]),
        (["a"], ["b"]),
        ([], []),
    ],
    ids=["first key", "second key", "bytes", "in order", "one row", "no row"],
)
def test_rows_come_sorted_by_all_keys_in_one_order(a: list[str], b: list[str]) -> None:
    pairs = TABLES["candidate_pairs"].empty_table()
    values = {
        "chunk_id_a": a,
        "chunk_id_b": b,
        "lanes": [["exact"]] * len(a),
        "verified": [True] * len(a),
        "window": [False] * len(a),
    }
    table = pa.table({name: values.get(name, [None] * len(a)) for name in pairs.column_names})
    found = conform("candidate_pairs", table)
    rows = list(zip(found["chunk_id_a"].to_pylist(), found["chunk_id_b"].to_pylist(), strict=True))
    assert rows == sorted(zip(a, b, strict=True), key=lambda row: [part.encode() for part in row])


def test_sorted_rows_are_not_copied() -> None:
    ids = pa.array([f"{number:04}" for number in range(1000)])
    table = pa.table({"run": ["self"] * 1000, "query_id": ids, "chunk_id": ids, "relevance": pa.array([1] * 1000)})
    found = conform("qrels", table)
    assert found["query_id"].chunk(0).buffers()[2].address == ids.buffers()[2].address
