"""Sets of ids, in one piece or in chunks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from audit_pipeline.corpus.arrays import among, one_array, without

PLAIN = pa.array(["a", "b", "a", None, "c"], pa.string())
CHUNKED = pa.chunked_array([["a", "b"], ["a", None], ["c"]], pa.string())


@pytest.mark.parametrize("ids", [PLAIN, CHUNKED], ids=["plain", "chunked"])
@pytest.mark.parametrize("others", [pa.array(["c", "a"]), pa.chunked_array([["c"], ["a"]])], ids=["plain", "chunked"])
def test_ids_are_told_apart_by_whether_they_stand_among_others(
    ids: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray
) -> None:
    found = among(ids, others)
    assert isinstance(found, pa.Array)
    assert found.to_pylist() == [True, False, True, False, True]
    assert without(ids, others).to_pylist() == ["b", None]


def test_nothing_stands_among_none_and_none_has_nothing() -> None:
    none = pa.chunked_array([], pa.string())
    assert among(PLAIN, none).to_pylist() == [False] * 5
    assert without(CHUNKED, none).to_pylist() == PLAIN.to_pylist()
    assert without(none, PLAIN).to_pylist() == []
    assert one_array(none) == pa.array([], pa.string())
    assert one_array(CHUNKED) == PLAIN
