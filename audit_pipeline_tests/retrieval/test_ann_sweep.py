"""The sweep on real LanceDB indexes of each type, its figures again by plain LanceDB calls and numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lancedb import index as lance

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.index.reach import reach_of
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval import ann_sweep
from audit_pipeline.retrieval.ann_recall import run_ann_recall
from audit_pipeline.retrieval.ann_sweep import run_ann_sweep
from audit_pipeline_tests.index.builders import as_it_stands, foreign, snapshot_of, unit_vectors, write

ROWS, DIMENSION, QUERIES = 1500, 32, 40
CENTRES = unit_vectors(60, DIMENSION)
VECTORS = (np.repeat(CENTRES, 25, axis=0) + 1.5 * unit_vectors(ROWS, DIMENSION, seed=5)).astype(np.float32)
ASKED = (CENTRES[:QUERIES] + 1.5 * unit_vectors(QUERIES, DIMENSION, seed=6)).astype(np.float32)

Tables = Callable[[Any], tuple[Path, Any]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    numbers = itertools.count()

    def make(config: Any) -> tuple[Path, Any]:
        uri = tmp_path_factory.mktemp("sweep") / f"db{next(numbers)}"
        kinds = ["rare" if n % 5 == 0 else "usual" for n in range(ROWS)]
        table = write(uri, foreign([f"c{n}" for n in range(ROWS)], VECTORS, kind=kinds))
        if config is not None:
            table.create_index("vector", config=config)
        return uri, table

    return make


def swept(uri: Path, work: Path, queries: np.ndarray = ASKED, **index: Any) -> StageResult:
    sample = {"ann_sweep": index.pop("ann_sweep", 100)}
    settings = IndexAuditSettings.model_validate(
        {
            "name": "test",
            "encoder": {"kind": "none"},
            "index": as_it_stands(uri, **index).model_dump(exclude_unset=True),
            "sample": sample,
        }
    )
    snapshot = snapshot_of(uri, work, **index)
    named = pa.table({"query_id": [f"q{n}" for n in range(len(queries))], "run": ["held_out"] * len(queries)})
    recalled = run_ann_recall(snapshot, named, queries, settings)
    drawn = queries[: sample["ann_sweep"]]
    reach = reach_of(snapshot, np.full(len(drawn), -1))
    return run_ann_sweep(snapshot, drawn, reach, recalled.summary, settings)


def plain_recall(table: Any, queries: np.ndarray, rare: bool = False, **settings: int | None) -> float:
    """ann_recall@10 by plain LanceDB calls and numpy in float64."""
    unit = VECTORS.astype(np.float64) / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    shares = []
    for query in queries:
        search = table.search(query).distance_type("cosine").limit(10)
        search = search.where("kind = 'rare'") if rare else search
        for name, value in settings.items():
            search = search if value is None else getattr(search, name)(value)
        found = [int(name[1:]) for name in search.to_arrow()["chunk_id"].to_pylist()]
        scores = unit @ (query.astype(np.float64) / np.linalg.norm(query))
        reachable = scores[::5] if rare else scores
        shares.append(np.mean(scores[found] >= np.sort(reachable)[-10] - 1e-6))
    return float(np.mean(shares))


def row_of(result: StageResult, mark: str) -> dict[str, Any]:
    (row,) = [row for row in result.summary["settings"] if row[mark]]
    return row


def assert_figures(result: StageResult, table: Any, queries: np.ndarray = ASKED, rare: bool = False) -> None:
    for row in result.summary["settings"]:
        graph = {} if row["ef"] is None else {"ef": row["ef"]}
        expected = plain_recall(
            table, queries, rare, nprobes=row["nprobes"], refine_factor=row["refine_factor"], **graph
        )
        assert row["ann_recall@10"]["value"] == pytest.approx(expected, abs=1e-9), row
        assert row["ann_recall@10"]["n"] == len(queries)
        assert 0 < row["median_ms"] <= row["p90_ms"]


def test_starved_nprobes_are_raised_to_what_reaches_the_limit(tables: Tables, tmp_path: Path) -> None:
    uri, table = tables(lance.IvfFlat(distance_type="cosine", num_partitions=12))
    result = swept(uri, tmp_path, search={"nprobes": 1})
    assert_figures(result, table)
    # Forty queries that find everything have a lower bound of .912, under the limit.
    assert (result.summary["partitions"], result.summary["status"], result.summary["sure"]) == (12, "raise", False)
    present, chosen = row_of(result, "present"), row_of(result, "recommended")
    assert (present["nprobes"], present["times_present"]["median"]) == (1, 1.0)
    assert chosen["nprobes"] > 1
    assert plain_recall(table, ASKED, nprobes=chosen["nprobes"]) >= 0.95 > plain_recall(table, ASKED, nprobes=1)
    (finding,) = result.findings
    assert (finding.code, finding.severity, finding.n_compared) == ("ann_recall_low", "warning", QUERIES)
    yaml = f"search: {{nprobes: {chosen['nprobes']}}}"
    assert (result.summary["yaml"], finding.evidence["settings"]) == (yaml, yaml)
    assert finding.remedy.startswith(f"Search with `{yaml}`: of {len(result.summary['settings'])} settings tried")
    # The clean twin: the settings it names.
    after = swept(uri, tmp_path, search={"nprobes": chosen["nprobes"]})
    assert after.findings == []
    assert after.summary["status"] in ("as_it_is", "cheaper")


def test_coarse_codes_are_re_ranked(tables: Tables, tmp_path: Path) -> None:
    uri, table = tables(lance.IvfPq(distance_type="cosine", num_partitions=2, num_sub_vectors=16, num_bits=4))
    result = swept(uri, tmp_path)
    assert_figures(result, table)
    chosen = row_of(result, "recommended")
    assert result.summary["status"] == "raise"
    assert chosen["refine_factor"] is not None
    assert f"refine_factor: {chosen['refine_factor']}" in result.findings[0].remedy
    unrefined = [row for row in result.summary["settings"] if row["refine_factor"] is None]
    assert max(row["ann_recall@10"]["value"] for row in unrefined) < 0.95


@pytest.mark.parametrize(
    "config",
    [
        lance.IvfSq(distance_type="cosine", num_partitions=4),
        lance.IvfRq(distance_type="cosine", num_partitions=4),
        lance.HnswSq(distance_type="cosine"),
        lance.HnswPq(distance_type="cosine", num_sub_vectors=8),
        lance.HnswFlat(distance_type="cosine", num_partitions=3),
    ],
    ids=lambda config: type(config).__name__,
)
def test_every_type_is_measured_as_what_it_is(tables: Tables, tmp_path: Path, config: Any) -> None:
    uri, table = tables(config)
    result = swept(uri, tmp_path, ASKED[:20])
    assert_figures(result, table, ASKED[:20])
    assert row_of(result, "present")


def test_a_sound_index_needs_no_change(tables: Tables, tmp_path: Path) -> None:
    uri, _ = tables(lance.HnswFlat(distance_type="cosine"))
    result = swept(uri, tmp_path, search={"ef": 32})  # the smallest there is
    assert (result.summary["status"], result.summary["yaml"], result.findings) == ("as_it_is", None, [])
    assert result.summary["text"].startswith("Nothing needs changing: the search returns ")
    assert not any(row["recommended"] for row in result.summary["settings"])
    assert row_of(result, "present")["ef"] == 32


def test_codes_that_no_setting_helps_are_to_be_built_again(tables: Tables, tmp_path: Path) -> None:
    uri, table = tables(lance.IvfPq(distance_type="cosine", num_partitions=1, num_sub_vectors=2, num_bits=4))
    result = swept(uri, tmp_path)
    assert_figures(result, table)
    assert (result.summary["status"], result.summary["yaml"]) == ("unreached", None)
    assert result.findings[0].remedy.startswith("None of the 3 settings tried reaches 95% (the best: ")
    assert "more num_sub_vectors" in result.findings[0].remedy


def test_the_filter_is_the_applications(tables: Tables, tmp_path: Path) -> None:
    uri, table = tables(lance.IvfFlat(distance_type="cosine", num_partitions=12))
    result = swept(uri, tmp_path, filter="kind = 'rare'", search={"nprobes": 2})
    assert_figures(result, table, rare=True)


def test_without_an_index_or_without_queries_nothing_is_swept(tables: Tables, tmp_path: Path) -> None:
    uri, _ = tables(None)
    exact = swept(uri, tmp_path).summary
    assert exact == {
        "n": 0,
        "status": "not_measured",
        "reason": "every search is exact: no ANN index",
        "settings": [],
    }
    uri, _ = tables(lance.IvfFlat(distance_type="cosine", num_partitions=12))
    off = swept(uri, tmp_path, ann_sweep=0, search={"nprobes": 1})
    assert (off.summary["n"], off.summary["reason"]) == (0, "sample.ann_sweep is 0")
    assert off.findings[0].remedy.startswith("Raise nprobes, ef or refine_factor")


def test_a_slow_table_is_measured_with_fewer_queries(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ann_sweep, "_SECONDS", 0.0)
    uri, _ = tables(lance.IvfFlat(distance_type="cosine", num_partitions=4))
    summary = swept(uri, tmp_path).summary
    assert (summary["n"], summary["queries"]) == (20, QUERIES)
    assert {row["ann_recall@10"]["n"] for row in summary["settings"]} == {20}
