"""Grids of ANN settings by index type, and single searches under them against plain LanceDB calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lancedb import index as lance

from audit_pipeline.index.ann_settings import AnnSettings, as_yaml, grid_of, present_settings
from audit_pipeline.index.vector_index import VectorIndex
from audit_pipeline.index_settings import SearchSettings
from audit_pipeline_tests.index.builders import foreign, snapshot_of, unit_vectors, write

TYPES = ("IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ")


def index_of(kind: str, rows: int = 50_000) -> VectorIndex:
    return VectorIndex("v", kind, "cosine", rows, 0)


def grid(kind: str, partitions: int, rows: int = 50_000, **search: Any) -> tuple[AnnSettings, list[AnnSettings]]:
    declared = SearchSettings(**search)
    present = present_settings(declared, index_of(kind, rows), partitions)
    return present, grid_of(present, index_of(kind, rows), partitions, declared.limit)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("partitions", [1, 12, 300, 5000])
@pytest.mark.parametrize(
    "search", [{}, {"nprobes": 1}, {"nprobes": 40, "refine_factor": 7, "ef": 1000}, {"limit": 100, "ef": None}]
)
def test_every_grid_is_small_and_holds_the_present_settings(kind: str, partitions: int, search: dict[str, Any]) -> None:
    present, tried = grid(kind, partitions, **search)
    assert present in tried
    assert len(tried) == len(set(tried)) <= 28
    limit = search.get("limit", 10)
    for one in tried:
        assert 1 <= one.nprobes <= partitions
        assert (one.ef is not None) == ("HNSW" in kind)
        assert one.ef is None or one.ef >= limit * (one.refine_factor or 1)
    refined = {one.refine_factor for one in tried} - {None}
    assert refined or kind.endswith("FLAT")
    assert refined <= {present.refine_factor} or not kind.endswith("FLAT")


def test_ivf_flat_varies_the_partitions_alone() -> None:
    present, tried = grid("IVF_FLAT", 64, nprobes=4)
    assert present == AnnSettings(4)
    assert [one.nprobes for one in tried] == [1, 2, 4, 8, 16, 32, 64]
    assert {(one.ef, one.refine_factor) for one in tried} == {(None, None)}


def test_unset_settings_are_lancedbs_own() -> None:
    assert present_settings(SearchSettings(), index_of("IVF_PQ"), 300) == AnnSettings(20)
    assert present_settings(SearchSettings(), index_of("IVF_PQ"), 6) == AnnSettings(6)  # all there are
    own_ef = SearchSettings(ef=None, refine_factor=3)
    assert present_settings(own_ef, index_of("IVF_HNSW_SQ"), 1) == AnnSettings(1, 45, 3)  # 1.5 x 10 x 3


def test_a_graph_of_one_partition_varies_ef_and_refine() -> None:
    _, tried = grid("IVF_HNSW_SQ", 1)
    assert {one.nprobes for one in tried} == {1}
    assert {one.ef for one in tried} == {32, 64, 128, 256, 512}
    assert {one.refine_factor for one in tried} == {None, 3}


def test_more_than_half_a_million_rows_are_not_tried_unless_the_application_does() -> None:
    _, tried = grid("IVF_FLAT", 1000, rows=10_000_000, nprobes=10)
    assert max(one.nprobes for one in tried) == 50  # of 10,000 rows each
    _, tried = grid("IVF_FLAT", 1000, rows=10_000_000, nprobes=200)
    assert max(one.nprobes for one in tried) == 200


def test_the_yaml_names_what_changes_and_what_is_declared() -> None:
    declared = SearchSettings(nprobes=4, refine_factor=5)
    present = AnnSettings(4, None, 5)
    assert as_yaml(AnnSettings(16, None, 5), declared, present) == "search: {nprobes: 16, refine_factor: 5}"
    assert as_yaml(AnnSettings(4, None, None), declared, present) == "search: {nprobes: 4, refine_factor: null}"
    unset = SearchSettings(ef=None)
    assert as_yaml(AnnSettings(1, 64), unset, AnnSettings(1, 15)) == "search: {ef: 64}"


@pytest.mark.parametrize(
    ("config", "partitions"),
    [
        (lance.IvfFlat(distance_type="cosine", num_partitions=7), 7),
        (lance.IvfPq(distance_type="cosine", num_partitions=3, num_sub_vectors=4), 3),
        (lance.HnswSq(distance_type="cosine", num_partitions=2), 2),
    ],
)
def test_partitions_and_answers_are_those_of_plain_lancedb(tmp_path: Path, config: Any, partitions: int) -> None:
    vectors = unit_vectors(900, 16)
    tenants = ["t" if n % 3 else "u" for n in range(900)]
    table = write(tmp_path / "db", foreign([f"c{n}" for n in range(900)], vectors, tenant=tenants))
    table.create_index("vector", config=config)
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work", search={"nprobes": 1, "ef": None})
    assert snapshot.ann is not None
    assert snapshot.ann.partitions() == partitions
    query = unit_vectors(1, 16, seed=4)[0]
    ef = 32 if "Hnsw" in type(config).__name__ else None

    def plain(nprobes: int, condition: str | None = None, **more: int) -> list[int]:
        search = table.search(query).distance_type("cosine").limit(10).nprobes(nprobes)
        for name, value in more.items():
            search = getattr(search, name)(value)
        search = search if condition is None else search.where(condition)
        return [int(name[1:]) for name in search.to_arrow()["chunk_id"].to_pylist()]

    graph = {} if ef is None else {"ef": ef}
    assert snapshot.ann.ask(query, 10)[0].tolist() == plain(1)
    every, seconds = snapshot.ann.ask(query, 10, AnnSettings(partitions, ef, 2), None)
    assert every.tolist() == plain(partitions, **graph, refine_factor=2)
    assert seconds > 0
    own, _ = snapshot.ann.ask(query, 10, AnnSettings(partitions, ef), "tenant = 'u'")
    assert own.tolist() == plain(partitions, "tenant = 'u'", **graph)
    assert (own % 3 == 0).all()


def test_a_table_without_an_index_has_no_ann_search(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign([f"c{n}" for n in range(20)], unit_vectors(20)))
    assert snapshot_of(tmp_path / "db", tmp_path / "work").ann is None


def test_short_answers_are_padded(tmp_path: Path) -> None:
    table = write(tmp_path / "db", foreign([f"c{n // 2}" for n in range(600)], unit_vectors(600)))
    table.create_index("vector", config=lance.IvfFlat(distance_type="cosine", num_partitions=1))
    snapshot = snapshot_of(tmp_path / "db", tmp_path / "work", filter="chunk_id in ('c1', 'c2')")
    assert snapshot.ann is not None
    rows, _ = snapshot.ann.ask(snapshot.vectors[2], 10)
    assert np.count_nonzero(rows >= 0) == 2  # each of the two ids once
    assert rows[0] == 2
