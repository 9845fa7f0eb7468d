"""A table that plain LanceDB calls wrote, audited from a dozen lines: what is said is true, and nothing is touched."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lancedb.index import IvfPq

from audit_pipeline.encoder.models import Encoder
from audit_pipeline_tests.cases.command import findings, run_command
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.index.builders import lists

ROWS, K, PROBES = 700, 10, 2
HINT = "kb.lance/_versions/latest_version_hint.json"
CATEGORIES = ("howto", "reference", "Release notes")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    found = docstrings("dagster", ROWS)
    assert len(set(found)) == ROWS
    return found


@pytest.fixture(scope="module")
def vectors(fast_encoder: Encoder, texts: list[str]) -> np.ndarray:
    return fast_encoder.encode(texts)


def write_table(folder: Path, texts: list[str], vectors: np.ndarray) -> Any:
    """Ids, names and types of another writer's own, 16-bit vectors, and a coarse index for l2."""
    rows = {
        "key": [f"kb:{i * 7:05}" for i in range(len(texts))],
        "body": texts,
        "category": [CATEGORIES[i % 3] for i in range(len(texts))],
        "emb": lists(vectors, np.float16),
    }
    table = lancedb.connect(str(folder / "db")).create_table("kb", pa.table(rows))
    table.create_index("emb", config=IvfPq(distance_type="l2", num_partitions=8, num_sub_vectors=48))
    return table


def write_settings(folder: Path, model: Encoder) -> Path:
    lines = f"""\
type: audit_pipeline.IndexAudit
attributes:
  name: foreign
  encoder: {{model: {model.files.folder}}}
  index:
    uri: db
    table: kb
    managed: false
    metric: l2
    columns: {{chunk_id: key, text: body, vector: emb, source: category}}
    search: {{limit: {K}, nprobes: {PROBES}}}
  sample: {{total: 2000}}
"""
    assert len(lines.splitlines()) == 12
    path = folder / "defs.yaml"
    path.write_text(lines, encoding="utf-8")
    return path


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def at_version(folder: Path, version: int) -> Any:
    table = lancedb.connect(str(folder / "db")).open_table("kb")
    table.checkout(version)
    return table


def searched(table: Any, queries: np.ndarray) -> list[list[str]]:
    """Keys that a plain LanceDB search returns, one query after another."""
    return [
        table.search(query, vector_column_name="emb")
        .distance_type("l2")
        .nprobes(PROBES)
        .limit(K)
        .select(["key", "_distance"])
        .to_arrow()["key"]
        .to_pylist()
        for query in queries
    ]


def assert_figures_are_those_of(table: Any, folder: Path, audit: dict[str, Any], encoder: Encoder) -> None:
    """self@1, self@10 and ann_recall@10 again: by plain LanceDB calls, distances by numpy in float64."""
    rows = table.to_arrow()
    keys, stored = rows["key"].to_pylist(), np.array(rows["emb"].to_pylist(), dtype=np.float64)
    own = searched(table, encoder.encode(rows["body"].to_pylist()))
    first = sum(found[0] == key for found, key in zip(own, keys, strict=True))
    among = sum(key in found for found, key in zip(own, keys, strict=True))
    figures = audit["self_retrieval"]
    assert figures["n"] == len(keys)
    assert figures["self@1"]["value"] == pytest.approx(first / len(keys))
    assert figures["self@10"]["value"] == pytest.approx(among / len(keys))

    work = folder / "state" / "audits" / "foreign"
    (plan,) = work.rglob("held_out_plan.parquet")
    held = {row["chunk_id"]: row["held"] for row in pq.read_table(plan).to_pylist() if row["eligible"]}
    assert len(held) >= 50
    queries = encoder.encode(list(held.values())).astype(np.float64)
    place = {key: i for i, key in enumerate(keys)}
    shares = []
    for query, found in zip(queries, searched(table, queries.astype(np.float32)), strict=True):
        distances = ((stored - query) ** 2).sum(axis=1)
        reach = np.sort(distances)[K - 1] + 1e-6
        shares.append(sum(distances[place[key]] <= reach for key in found) / K)
    assert audit["ann_recall"]["n"] == len(shares)
    assert audit["ann_recall"]["ann_recall@10"]["value"] == pytest.approx(np.mean(shares), abs=1e-9)


@pytest.mark.page
def test_another_teams_index_is_audited_from_a_dozen_lines_and_left_as_it_was(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str], vectors: np.ndarray
) -> None:
    table = write_table(tmp_path, texts, vectors)
    before, version = files(tmp_path / "db"), table.version
    code, audit = run_command(write_settings(tmp_path, fast_encoder), tmp_path / "state")
    assert files(tmp_path / "db") == before
    assert lancedb.connect(str(tmp_path / "db")).open_table("kb").version == version

    assert code == 0
    assert findings(audit, "error") == set()
    index = audit["index"]
    assert (index["version"], index["rows"], index["metric"]) == (version, ROWS, "l2")
    assert (index["index_type"], index["indexed_rows"], index["unindexed_rows"]) == ("IVF_PQ", ROWS, 0)
    assert_figures_are_those_of(at_version(tmp_path, version), tmp_path, audit, fast_encoder)
    recall, self_at_1 = audit["ann_recall"]["ann_recall@10"]["value"], audit["self_retrieval"]["self@1"]["value"]
    assert recall < 0.95  # the index is coarse: the audit has to say so
    assert ("ann_recall_low" in findings(audit, "warning")) is True
    assert ("self_low" in findings(audit, "warning")) == (self_at_1 < 0.98)
    assert [row["source"] for row in audit["self_retrieval"]["by_source"]] == sorted(CATEGORIES)
    assert sum(row["chunks"] for row in audit["self_retrieval"]["by_source"]) == ROWS
    # 16-bit storage is no fault of any row, and what no store was there for is not measured.
    assert {row["role"] for row in audit["roles"]} <= {"passage", "not_applicable"}
    unmeasured = {check for finding in audit["findings"] for check in finding["evidence"].get("checks", [])}
    assert {"missing_rows", "orphan_rows", "text_drift"} <= unmeasured


@contextmanager
def writing(folder: Path, vectors: np.ndarray) -> Iterator[list[int]]:
    """Another process's writer at work: it appends, deletes and optimises; gives the versions it made."""
    stop, made, failed = threading.Event(), list[int](), list[Exception]()
    table = lancedb.connect(str(folder / "db")).open_table("kb")

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            rows = {
                "key": [f"new:{number}:{i}" for i in range(4)],
                "body": [f"A row that came during the audit, {number} {i}." for i in range(4)],
                "category": ["intruder"] * 4,
                "emb": lists(-vectors[:4], np.float16),
            }
            try:
                for action in (
                    lambda: table.add(pa.table(rows)),  # noqa: B023
                    lambda: table.delete(f"key = 'kb:{number * 7:05}'"),  # noqa: B023
                    table.optimize,
                ):
                    known = {one["version"] for one in table.list_versions()}
                    action()
                    made.extend(one["version"] for one in table.list_versions() if one["version"] not in known)
            except Exception as error:
                failed.append(error)
                return
            time.sleep(0.2)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while not made and not failed:
            time.sleep(0.01)
        yield made
    finally:
        stop.set()
        thread.join()
    assert not failed, failed


def test_while_others_write_one_version_is_read_and_nothing_is_written(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str], vectors: np.ndarray
) -> None:
    table = write_table(tmp_path, texts, vectors)
    before, first = files(tmp_path / "db"), table.version
    config = write_settings(tmp_path, fast_encoder)
    with writing(tmp_path, vectors) as made:
        _, audit = run_command(config, tmp_path / "state")
        during = len(made)
    pinned = audit["index"]["version"]
    newest = lancedb.connect(str(tmp_path / "db")).open_table("kb")
    assert during >= 3
    assert first < pinned < newest.version  # the others went on after the audit had begun
    at_pinned = at_version(tmp_path, pinned)
    assert audit["index"]["rows"] == at_pinned.count_rows()
    assert_figures_are_those_of(at_pinned, tmp_path, audit, fast_encoder)
    after = files(tmp_path / "db")
    del before[HINT]  # the writers' own pointer at their newest version
    assert {name: after.get(name) for name in before} == before
    versions = {one["version"] for one in newest.list_versions()}
    assert versions - set(range(1, first + 1)) == set(made)
    assert json.dumps(audit)  # plain JSON whatever was written meanwhile
