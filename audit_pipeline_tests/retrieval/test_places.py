import pyarrow as pa

from audit_pipeline.retrieval.places import with_places

BATCH = "2026-01-01|a"


def population(rows: list[tuple[str, str | None, int | None]]) -> pa.Table:
    """(chunk_id, doc_id, position) of each chunk."""
    ids, docs, positions = (pa.array([row[i] for row in rows]) for i in range(3))
    n = len(rows)
    return pa.table(
        {
            "chunk_id": ids,
            "source": ["a"] * n,
            "batch": [BATCH] * n,
            "ingestion_date": pa.nulls(n, pa.date32()),
            "length_band": ["0-39"] * n,
            "doc_id": docs.cast(pa.string()),
            "position": positions.cast(pa.int32()),
        }
    )


def test_places_follow_the_numbers_and_not_the_order_of_rows():
    chunks = population([("c", "d", 9), ("a", "d", 2), ("b", "d", 5), ("x", "e", 0), ("y", "e", 1), ("z", None, 0)])
    placed = with_places(chunks.select(["chunk_id"]), chunks)
    assert placed["position"].to_pylist() == ["last", "first", "middle", None, None, None]
    assert placed["document"].to_pylist() == ["d", "d", "d", "e", "e", None]


def test_ids_that_are_in_no_document_have_no_place():
    chunks = population([("a", "d", 0), ("b", "d", 1), ("c", "d", 2)])
    placed = with_places(pa.table({"chunk_id": ["c", "gone"]}), chunks)
    assert placed["position"].to_pylist() == ["last", None]
    assert with_places(pa.table({"answer_id": ["b"]}), chunks)["position"].to_pylist() == ["middle"]
