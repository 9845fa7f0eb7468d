import numpy as np
import pyarrow as pa

from audit_pipeline.duplicates.rows import nodes_of
from audit_pipeline_tests.duplicates.snapshots import at_degrees, shuffled, snapshot_of


def test_nodes_stand_in_id_order_whatever_the_order_of_the_rows():
    snapshot = snapshot_of(["x", "y", "z"], at_degrees(0, 30, 90), ids=["b", "c", "a"], sources=["q", "p", None])
    for table in (snapshot, shuffled(snapshot, 1), shuffled(snapshot, 2)):
        nodes = nodes_of(table)
        assert nodes.chunk_ids.to_pylist() == ["a", "b", "c"]
        assert list(nodes.texts(np.array([2, 0]))) == ["y", "z"]
        assert [nodes.source_name(code) for code in nodes.source] == ["(none)", "q", "p"]


def test_cosines_are_those_of_the_angles_and_none_where_a_vector_is_missing():
    vectors = at_degrees(0, 60, 90, 0) * np.array([[1], [5], [0.1], [0]])
    nodes = nodes_of(snapshot_of(["a", "b", "c", "d"], vectors))
    cosine = nodes.cosines(np.array([0, 0, 0]), np.array([1, 2, 3]))
    assert np.allclose(cosine[:2], [0.5, 0.0], atol=1e-7)
    assert np.isnan(cosine[2])


def test_vectors_of_two_roles_are_not_compared_and_unknown_roles_are():
    batches = ["d|a", "d|b", "d|c"]
    nodes = nodes_of(
        snapshot_of(["a", "b", "c"], at_degrees(0, 0, 0), batches=batches), {"d|a": "query", "d|b": "none"}
    )
    cosine = nodes.cosines(np.array([0, 0, 1]), np.array([1, 2, 2]))
    assert np.isnan(cosine[0])
    assert np.allclose(cosine[1:], 1)


def test_one_row_stands_for_a_repeated_id_whatever_the_order_of_the_rows():
    vectors = at_degrees(0, 10, 20)
    vectors[0] = 0
    snapshot = snapshot_of(["broken", "second", "first"], vectors, ids=["a", "a", "a"])
    for table in (snapshot, shuffled(snapshot, 1), shuffled(snapshot, 2)):
        nodes = nodes_of(table)
        assert len(nodes) == 1
        assert list(nodes.texts(np.array([0]))) == ["first"]


def test_one_document_id_in_two_sources_is_two_documents():
    nodes = nodes_of(snapshot_of(["x"] * 4, documents=["d", "d", "d", None], sources=["p", "q", "p", "p"]))
    assert nodes.document[0] == nodes.document[2]
    assert nodes.document[0] != nodes.document[1]
    assert nodes.document[3] == -1


def test_a_table_without_rows_has_no_nodes():
    nodes = nodes_of(snapshot_of([], np.empty((0, 2))))
    assert len(nodes) == 0
    assert nodes.unit_vectors(np.empty(0, dtype=np.int64)).shape == (0, 2)


def test_ids_that_come_as_dictionaries_are_the_same_nodes():
    nodes = nodes_of(snapshot_of(["x", "y", "z"], at_degrees(0, 30, 90), ids=["b", "c", "a"]))
    blocks = [pa.array(ids, pa.string()) for ids in (["c", "a", "c"], [], ["gone", "b"])]
    encoded = pa.chunked_array([block.dictionary_encode() for block in blocks])  # each block has its own dictionary
    assert nodes.node_of(pa.chunked_array(blocks)).tolist() == [2, 0, 2, -1, 1]
    assert nodes.node_of(encoded).tolist() == [2, 0, 2, -1, 1]
    assert nodes.node_of(encoded.slice(1, 3)).tolist() == [0, 2, -1]
