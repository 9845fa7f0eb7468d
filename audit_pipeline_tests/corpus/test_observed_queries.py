from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit_pipeline.corpus import observed_queries
from audit_pipeline.corpus.observed_queries import OBSERVED_QUERIES, ObservedQueries, read_observed_queries

ROWS: list[dict[str, Any]] = [
    {"query": "bears", "vector": [1.0, 0.5], "returned_ids": ["c1", "c2"]},
    {"query": "bears", "vector": [0.25, 0.5], "returned_ids": ["c2"]},  # the same question again
    {"query": "caves", "vector": None, "returned_ids": []},
    {"query": None, "vector": [1.0, 2.0, 4.0], "returned_ids": None},
    {"query": "ice", "vector": [], "returned_ids": ["c9", None]},
]


def jsonl(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def parquet(folder: Path, rows: list[dict[str, Any]], vector: pa.DataType | None = None) -> Path:
    path = folder / "log.parquet"
    schema = pa.schema(
        [("query", pa.string()), ("vector", vector or pa.list_(pa.float64())), ("returned_ids", pa.list_(pa.string()))]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def read(path: Path, most: int = 99, seed: int = 0) -> ObservedQueries:
    return read_observed_queries(path, most, seed)


def test_both_formats_give_the_same_rows(tmp_path: Path) -> None:
    one, other = read(jsonl(tmp_path, ROWS)), read(parquet(tmp_path, ROWS))
    assert one.rows.schema == OBSERVED_QUERIES
    assert one.rows.equals(other.rows)
    assert (one.given, other.given) == (5, 5)
    found = {(row["query"], tuple(row["vector"] or ())): row["returned_ids"] for row in one.rows.to_pylist()}
    assert found == {
        ("bears", (1.0, 0.5)): ["c1", "c2"],
        ("bears", (0.25, 0.5)): ["c2"],
        ("caves", ()): [],
        (None, (1.0, 2.0, 4.0)): None,
        ("ice", ()): ["c9", None],
    }
    assert [row["vector"] for row in one.rows.to_pylist() if row["query"] in ("caves", "ice")].count(None) == 1


def test_a_query_is_named_by_the_hash_of_its_text_and_a_repeated_one_is_numbered(tmp_path: Path) -> None:
    rows = read(jsonl(tmp_path, ROWS)).rows.to_pylist()
    bears = hashlib.sha256(b"bears").hexdigest()[:12]
    assert sorted(row["query_id"] for row in rows if row["query"] == "bears") == [bears, f"{bears}-2"]
    assert len({row["query_id"] for row in rows}) == len(rows)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(ROWS))), most=st.integers(1, 6))
def test_the_order_of_the_file_and_the_size_of_its_blocks_change_nothing(
    tmp_path: Path, order: list[int], most: int
) -> None:
    first = read(jsonl(tmp_path, ROWS), most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observed_queries, "_ROWS_AT_ONCE", 2)
        for write in (jsonl, parquet):
            again = read(write(tmp_path, [ROWS[place] for place in order]), most)
            assert again.rows.equals(first.rows)
            assert (len(again.rows), again.given) == (min(most, 5), 5)


def test_another_seed_takes_other_rows_of_a_long_log(tmp_path: Path) -> None:
    path = jsonl(tmp_path, [{"query": f"q{i}", "vector": [1.0, i]} for i in range(200)])
    taken = [set(read(path, 20, seed).rows["query"].to_pylist()) for seed in (0, 0, 1)]
    assert taken[0] == taken[1]
    assert taken[0] != taken[2]
    assert len(taken[2]) == 20


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float16()), pa.list_(pa.float32(), 2), pa.large_list(pa.float64()), pa.list_(pa.int32())]
)
def test_vectors_of_every_kind_of_list_are_read(tmp_path: Path, kind: pa.DataType) -> None:
    values: list[Any] = [1, 2] if pa.types.is_integer(kind.value_type) else [np.float16(1), np.float16(2)]
    path = parquet(tmp_path, [{"query": "a", "vector": values, "returned_ids": None}], kind)
    assert read(path).rows["vector"].to_pylist() == [[1.0, 2.0]]


def test_whole_numbers_are_ids_as_well_and_a_column_may_lack(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query": ["a"], "returned_ids": [[7, 12]], "user": ["me"]}), tmp_path / "log.parquet")
    for path in (tmp_path / "log.parquet", jsonl(tmp_path, [{"query": "a", "returned_ids": [7, 12], "user": "me"}])):
        (row,) = read(path).rows.to_pylist()
        assert (row["returned_ids"], row["vector"]) == (["7", "12"], None)


def test_a_log_without_rows_is_empty(tmp_path: Path) -> None:
    assert read(jsonl(tmp_path, [])).given == 0
    assert len(read(parquet(tmp_path, [])).rows) == 0
