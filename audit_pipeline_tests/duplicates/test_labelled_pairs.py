import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.corpus.text import sha256_hex
from audit_pipeline.duplicates.labelled_pairs import read_labelled_pairs, validate_labelled_pairs
from audit_pipeline.duplicates.rows import nodes_of
from audit_pipeline_tests.duplicates.snapshots import at_degrees, snapshot_of

ROWS = [
    {"chunk_id_a": "b", "chunk_id_b": "a", "duplicate": True, "origin": "corpus"},
    {"chunk_id_a": "a", "chunk_id_b": "c", "duplicate": False, "origin": "constructed"},
]


def nodes():
    return nodes_of(snapshot_of(["text a", "text b", "text c"], at_degrees(0, 10, 80), ids=["a", "b", "c"]))


def validated(*rows):
    return validate_labelled_pairs(
        pa.Table.from_pylist([{**ROWS[0], "duplicate": "true", **row} for row in rows]), nodes()
    )


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_the_three_formats_read_alike(tmp_path, suffix):
    path = tmp_path / f"pairs{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    else:
        path.write_text(
            "chunk_id_a,chunk_id_b,duplicate,origin\nb,a,true,corpus\na,c,0,constructed\n", encoding="utf-8"
        )
    labels = validate_labelled_pairs(read_labelled_pairs(path), nodes())
    assert list(zip(labels.a.tolist(), labels.b.tolist(), strict=True)) == [(0, 1), (0, 2)]
    assert labels.duplicate.tolist() == [True, False]
    assert labels.corpus.tolist() == [True, False]
    assert labels.invalid == {}


def test_numeric_ids_in_csv_stay_as_written(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("chunk_id_a,chunk_id_b,duplicate,origin\n007,08,yes,corpus\n", encoding="utf-8")
    assert read_labelled_pairs(path)["chunk_id_a"].to_pylist() == ["007"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
def test_a_csv_is_read_as_a_spreadsheet_saved_it(tmp_path, delimiter):
    # With Excel's mark, its line ends, an id that reads as a missing value, and a text in a column that is not used.
    lines = ["chunk_id_a,chunk_id_b,duplicate,origin,text_a", 'NA,b,yes,corpus,"one\ntwo"', "a,c,no,,"]
    path = tmp_path / "pairs.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).replace(",", delimiter).encode())
    assert read_labelled_pairs(path).to_pylist() == [
        {"chunk_id_a": "NA", "chunk_id_b": "b", "duplicate": "yes", "origin": "corpus"},
        {"chunk_id_a": "a", "chunk_id_b": "c", "duplicate": "no", "origin": None},
    ]


def test_pairs_that_cannot_be_used_are_counted_by_reason():
    good_hash = sha256_hex(pa.array(["text a"]))[0].as_py()
    labels = validated(
        {"chunk_id_a": "a", "chunk_id_b": "b", "text_sha256_a": good_hash},
        {"chunk_id_a": "a", "chunk_id_b": "gone"},
        {"chunk_id_a": "a", "chunk_id_b": "a"},
        {"chunk_id_a": "a", "chunk_id_b": "c", "text_sha256_a": "0" * 64},
        {"chunk_id_a": "a", "chunk_id_b": "c", "duplicate": "maybe"},
        {"chunk_id_a": "a", "chunk_id_b": "c", "origin": "elsewhere"},
    )
    assert list(zip(labels.a.tolist(), labels.b.tolist(), strict=True)) == [(0, 1)]
    assert labels.invalid == {"bad_value": 2, "same_id": 1, "text_changed": 1, "unknown_id": 1}


def test_one_pair_in_both_classes_is_used_in_neither_and_the_same_judgement_twice_counts_once():
    labels = validated(
        {"chunk_id_a": "a", "chunk_id_b": "b"},
        {"chunk_id_a": "b", "chunk_id_b": "a"},
        {"chunk_id_a": "a", "chunk_id_b": "c"},
        {"chunk_id_a": "c", "chunk_id_b": "a", "duplicate": "false"},
    )
    assert list(zip(labels.a.tolist(), labels.b.tolist(), strict=True)) == [(0, 1)]
    assert labels.invalid == {"contradictory": 2}


def test_a_pair_without_a_usable_vector_has_no_cosine_to_judge():
    vectors = at_degrees(0, 10)
    vectors[1] = 0
    snapshot = snapshot_of(["x", "y"], vectors, ids=["a", "b"])
    labels = validate_labelled_pairs(pa.Table.from_pylist([{**ROWS[0], "duplicate": "1"}]), nodes_of(snapshot))
    assert len(labels) == 0
    assert labels.invalid == {"no_cosine": 1}
