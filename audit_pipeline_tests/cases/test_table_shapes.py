"""Tables of every type, metric and index that LanceDB takes, through whole audits: a sound one gives no alarm."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from lancedb.index import HnswFlat, HnswPq, HnswSq, IvfFlat, IvfPq, IvfRq, IvfSq

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.inspection import proposal
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.command import findings
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.index.builders import lists

ROWS, SMALL, PROBES = 300, 40, 40


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return docstrings("dagster", ROWS)


@pytest.fixture(scope="module")
def vectors(fast_encoder: Encoder, texts: list[str]) -> np.ndarray:
    return fast_encoder.encode(texts)


def audited(folder: Path, model: Encoder, **index: Any) -> dict[str, Any]:
    attributes = {
        "name": "shapes",
        "encoder": {"model": str(model.files.folder)},
        "index": {"uri": "db", "table": "docs", "managed": False, **index},
        "sample": {"total": PROBES, "arms": 0, "ann_sweep": 0},
        "duplicates": {"floor_pairs": 1000},
    }
    workspace = Workspace(parse_settings(attributes, "test", folder), folder / "state")
    for asset in CORPUS_ASSETS:
        asset.stage(workspace)
    return load(folder / "state", "shapes").audit


def write(folder: Path, texts: list[str], column: pa.Array, **columns: Any) -> Any:
    rows = {"chunk_id": [f"c{i}" for i in range(len(texts))], "text": texts} | columns | {"vector": column}
    return lancedb.connect(str(folder / "db")).create_table("docs", pa.table(rows))


def alarms(audit: dict[str, Any]) -> set[str]:
    return findings(audit, "error", "warning")


INDEXES: dict[str, Callable[[str], Any]] = {
    "IVF_FLAT": lambda metric: IvfFlat(distance_type=metric, num_partitions=2),
    "IVF_SQ": lambda metric: IvfSq(distance_type=metric, num_partitions=2),
    "IVF_PQ": lambda metric: IvfPq(distance_type=metric, num_partitions=2, num_sub_vectors=192),
    "IVF_RQ": lambda metric: IvfRq(distance_type=metric, num_partitions=2, num_bits=8),
    "IVF_HNSW_FLAT": lambda metric: HnswFlat(distance_type=metric),
    "IVF_HNSW_SQ": lambda metric: HnswSq(distance_type=metric),
    "IVF_HNSW_PQ": lambda metric: HnswPq(distance_type=metric, num_sub_vectors=96),
}


@pytest.mark.parametrize(
    ("kind", "metric"),
    [
        ("IVF_FLAT", "cosine"),
        ("IVF_FLAT", "dot"),
        ("IVF_SQ", "l2"),
        ("IVF_PQ", "cosine"),
        ("IVF_RQ", "dot"),
        ("IVF_HNSW_FLAT", "l2"),
        ("IVF_HNSW_SQ", "cosine"),
        ("IVF_HNSW_PQ", "l2"),
    ],
)
def test_each_index_is_read_and_searched_as_what_it_is(
    tmp_path: Path,
    fast_encoder: Encoder,
    texts: list[str],
    vectors: np.ndarray,
    kind: str,
    metric: str,
) -> None:
    write(tmp_path, texts, lists(vectors)).create_index("vector", config=INDEXES[kind](metric))
    audit = audited(tmp_path, fast_encoder, metric=metric, search={"refine_factor": 10})
    index = audit["index"]
    assert (index["index_type"], index["indexed_rows"], index["metric"]) == (kind, ROWS, metric)
    assert index["plan"]["engine"] == "lancedb"
    assert alarms(audit) == set()
    assert audit["self_retrieval"]["self@1"]["value"] == 1
    assert audit["ann_recall"]["ann_recall@10"]["value"] >= 0.95


def odd_ids(n: int) -> list[uuid.UUID]:
    return [uuid.UUID(int=i * 7919 + 1, version=4) for i in range(n)]


def variable(vectors: np.ndarray) -> pa.Array:
    return pa.array([list(row) for row in vectors], pa.list_(pa.float32()))


SHAPES: dict[str, tuple[Callable[[list[str], np.ndarray], dict[str, Any]], dict[str, Any]]] = {
    "float16": (lambda texts, vectors: {"vector": lists(vectors, np.float16)}, {}),
    "float64": (lambda texts, vectors: {"vector": lists(vectors, np.float64)}, {}),
    "lists of no fixed size": (lambda texts, vectors: {"vector": variable(vectors)}, {}),
    "lengths that vary, under cosine": (
        lambda texts, vectors: {"vector": lists(vectors * np.linspace(0.2, 5, len(vectors))[:, None])},
        {},
    ),
    "large strings": (lambda texts, vectors: {"text": pa.array(texts, pa.large_string())}, {}),
    "string views": (lambda texts, vectors: {"text": pa.array(texts, pa.string_view())}, {}),
    "dictionaries": (
        lambda texts, vectors: {
            "text": pa.array(texts).dictionary_encode(),
            "source": pa.array(["a", "b"] * (len(texts) // 2)).dictionary_encode(),
        },
        {},
    ),
    "whole numbers as ids": (lambda texts, vectors: {"chunk_id": pa.array(range(len(texts)), pa.int64())}, {}),
    "unsigned ids": (lambda texts, vectors: {"chunk_id": pa.array(range(len(texts)), pa.uint32())}, {}),
    "ids of sixteen bytes": (
        lambda texts, vectors: {"chunk_id": pa.array([one.bytes for one in odd_ids(len(texts))], pa.binary(16))},
        {},
    ),
    "two vector columns": (
        lambda texts, vectors: {"other": lists(np.roll(vectors, 3, axis=0)), "image": lists(vectors[:, :8])},
        {"columns": {"vector": "vector"}},
    ),
    "another of two vector columns": (
        lambda texts, vectors: {"vector": lists(np.roll(vectors, 3, axis=0)), "right": lists(vectors)},
        {"columns": {"vector": "right"}},
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_sound_table_of_each_shape_gives_no_alarm(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str], vectors: np.ndarray, name: str
) -> None:
    columns, settings = SHAPES[name]
    some = texts[:SMALL]
    write(tmp_path, some, **{"column": lists(vectors[:SMALL])} | columns(some, vectors[:SMALL]))
    audit = audited(tmp_path, fast_encoder, **settings)
    assert alarms(audit) == set()
    assert audit["index"]["rows"] == SMALL
    assert audit["self_retrieval"]["self@1"] == {"value": 1.0, "low": 1.0, "high": 1.0, "n": SMALL}


def test_ids_of_sixteen_bytes_are_written_as_uuids(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str], vectors: np.ndarray
) -> None:
    ids = odd_ids(4)
    write(tmp_path, texts[:4], lists(vectors[:4]), chunk_id=pa.array([one.bytes for one in ids], pa.binary(16)))
    audited(tmp_path, fast_encoder)
    found = load(tmp_path / "state", "shapes").table("self_retrieval")
    assert sorted(found["chunk_id"]) == sorted(map(str, ids))


def test_null_vectors_are_named_and_nothing_else_is(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str], vectors: np.ndarray
) -> None:
    column = pa.FixedSizeListArray.from_arrays(
        pa.array(vectors[:SMALL].ravel()), vectors.shape[1], mask=pa.array([i in (3, 5) for i in range(SMALL)])
    )
    rows = pa.table({"chunk_id": [f"c{i}" for i in range(SMALL)], "text": texts[:SMALL], "vector": column})
    lancedb.connect(str(tmp_path / "db")).create_table("docs", rows, on_bad_vectors="null")
    audit = audited(tmp_path, fast_encoder)
    assert findings(audit, "error") == {"invalid_vectors"}
    (broken,) = [finding for finding in audit["findings"] if finding["code"] == "invalid_vectors"]
    assert (broken["evidence"]["states"], broken["examples"]) == ({"null": 2}, ["c3", "c5"])
    assert audit["causes"]["self"] == {"invalid_vector": 2}


def test_deleted_rows_are_gone_from_every_figure(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str], vectors: np.ndarray
) -> None:
    table = write(tmp_path, texts, lists(vectors))
    table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=2))
    table.delete("chunk_id IN ('c0', 'c7', 'c150')")
    audit = audited(tmp_path, fast_encoder)
    assert alarms(audit) == set()
    assert audit["index"]["rows"] == ROWS - 3
    assert audit["corpus"]["chunks"] == ROWS - 3
    assert "c7" not in set(load(tmp_path / "state", "shapes").table("self_retrieval")["chunk_id"])


def test_inspect_says_that_there_are_two_vector_columns(tmp_path: Path, texts: list[str], vectors: np.ndarray) -> None:
    write(tmp_path, texts[:SMALL], lists(vectors[:SMALL]), other=lists(vectors[:SMALL]))
    told = proposal(str(tmp_path / "db"), None, None)
    assert "2 vector columns: other, vector" in told
    single = tmp_path / "single"
    write(single, texts[:SMALL], lists(vectors[:SMALL]))
    assert "vector columns" not in proposal(str(single / "db"), None, None)
