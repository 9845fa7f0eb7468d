"""The ANN index over a table, its metric, and lengths off 1."""

from __future__ import annotations

from pathlib import Path

import lancedb
import numpy as np
import pytest

from audit_pipeline_tests.index.audited import (
    IDS,
    audited,
    codes,
    four_cells,
    stored_as,
    told,
)
from audit_pipeline_tests.index.builders import (
    foreign,
    unit_vectors,
    write,
)


def test_a_listed_index_over_a_placeholder_row_covers_nothing(tmp_path: Path) -> None:
    dummy = foreign(["__DUMMY__"], np.zeros((1, 16), dtype=np.float32))
    table = write(tmp_path / "db", dummy)
    table.create_index("vector", config=lancedb.index.IvfFlat(distance_type="l2"))
    table.add(foreign([f"c{n}" for n in range(2000)], unit_vectors(2000)))
    result = audited(tmp_path, None, None, ())
    assert told(result, "placeholder_rows")[0].examples == ["__DUMMY__"]
    assert not codes(result) & {"invalid_vectors", "metric_mismatch"}
    (empty,) = told(result, "index_empty")
    assert (empty.severity, empty.evidence["indexed_rows"], empty.evidence["unindexed_rows"]) == ("error", 1, 2000)
    assert told(result, "index_stale") == []


def test_an_ivf_pq_index_on_a_hundred_rows_is_empty_although_it_is_listed(tmp_path: Path) -> None:
    table = write(tmp_path / "db", foreign([f"c{n}" for n in range(100)], unit_vectors(100)))
    table.create_index("vector", config=lancedb.index.IvfPq(distance_type="cosine"))
    (empty,) = told(audited(tmp_path, None, None, ()), "index_empty")
    assert (empty.severity, empty.share, empty.evidence["indexed_rows"]) == ("error", 1.0, 0)


def test_rows_outside_the_index_are_a_warning_and_an_error_where_the_search_skips_them(tmp_path: Path) -> None:
    table = write(tmp_path / "db", foreign([f"c{n}" for n in range(600)], unit_vectors(600)))
    table.create_index("vector", config=lancedb.index.HnswSq(distance_type="cosine"))
    assert not codes(audited(tmp_path, None, None, ())) & {"index_stale", "index_empty", "index_absent"}
    table.add(foreign([f"late{n}" for n in range(20)], unit_vectors(20, seed=3)))
    for fast, severity in ((False, "warning"), (True, "error")):
        (stale,) = told(audited(tmp_path, None, None, (), search={"fast_search": fast}), "index_stale")
        assert (stale.severity, stale.evidence["unindexed_rows"]) == (severity, 20)
        assert stale.share == pytest.approx(20 / 620)


def test_fast_search_without_an_index_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign(IDS, unit_vectors(8)))
    (stale,) = told(audited(tmp_path, None, None, (), search={"fast_search": True}), "index_stale")
    assert (stale.severity, stale.share) == ("error", 1.0)


def test_another_metric_than_the_indexs_matters_only_where_lengths_differ(tmp_path: Path) -> None:
    vectors = unit_vectors(400)
    stretched = (vectors * np.random.default_rng(1).uniform(0.2, 5, size=(400, 1))).astype(np.float32)
    for name, rows in (("unit", vectors), ("stretched", stretched)):
        table = write(tmp_path / name / "db", foreign([f"c{n}" for n in range(400)], rows))
        table.create_index("vector", config=lancedb.index.IvfFlat(distance_type="cosine", num_partitions=2))
    assert not codes(audited(tmp_path / "unit", None, None, (), metric="l2")) & {"metric_mismatch", "not_normalised"}
    result = audited(tmp_path / "stretched", None, None, (), metric="l2")
    (mismatch,) = told(result, "metric_mismatch")
    assert mismatch.evidence["index_metric"] == "cosine"
    assert told(result, "not_normalised") == []  # one defect, told once
    assert not codes(audited(tmp_path / "stretched", None, None, ())) & {"metric_mismatch", "not_normalised"}


def test_lengths_off_one_are_an_error_under_dot_and_a_hint_where_a_few_differ_under_cosine(tmp_path: Path) -> None:
    store = four_cells(10)
    vectors = unit_vectors(40)
    vectors[:10] *= 3  # the cell (a, D1)
    write(tmp_path / "db", stored_as(store, vectors))
    cell = {"source": "a", "ingestion_date": "2026-01-02"}
    (dot,) = told(audited(tmp_path, store, metric="dot"), "not_normalised")
    assert (dot.severity, dot.scope, dot.share) == ("error", cell, 1.0)
    (cosine,) = told(audited(tmp_path, store), "not_normalised")
    assert (cosine.severity, cosine.scope) == ("warning", cell)


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_vectors_of_one_length_off_1_are_a_warning_for_they_rank_as_under_cosine(tmp_path: Path, metric: str) -> None:
    vectors = unit_vectors(400) * np.float32(2.5)
    table = write(tmp_path / "db", foreign([f"c{n}" for n in range(400)], vectors))
    table.create_index("vector", config=lancedb.index.IvfFlat(distance_type="cosine", num_partitions=2))
    result = audited(tmp_path, None, None, (), metric=metric)
    (off,) = told(result, "not_normalised")
    assert (off.severity, off.scope, off.share) == ("warning", {}, 1.0)
    assert f"all have length 2.5, so that they rank under {metric} as under cosine" in off.message
    assert off.evidence["lengths"] == pytest.approx({"shortest": 2.5, "median": 2.5, "longest": 2.5})
    assert told(result, "metric_mismatch") == []
    vectors[0] *= 1.1  # one row that wins whatever it says
    write(tmp_path / "mixed" / "db", foreign([f"c{n}" for n in range(400)], vectors))
    (off,) = told(audited(tmp_path / "mixed", None, None, (), metric=metric), "not_normalised")
    assert off.severity == "error"
    assert "long vectors win or lose whatever they say" in off.message
