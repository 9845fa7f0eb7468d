"""A table that holds no row at all is an error, told once: without a store by itself, with one by the rows it lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.index.integrity import check_corpus
from audit_pipeline.results import StageResult
from audit_pipeline_tests.index.builders import as_it_stands, audit_settings, chunks, foreign, snapshot_of, write


def audited(folder: Path, store: pa.Table | None = None) -> StageResult:
    snapshot = snapshot_of(folder / "db", folder / "work")
    rejected = None if store is None else schemas.REJECTED_CHUNKS.empty_table()
    settings = audit_settings(as_it_stands(folder / "db"), () if store is None else ("a",))
    return check_corpus(snapshot, store, rejected, None, settings)


def errors(result: StageResult) -> list[str]:
    return [finding.code for finding in result.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    ("ids", "said"),
    [([], "The table 'docs' holds no row"), (["__DUMMY__"], "holds 1 placeholder row and no other")],
    ids=["no row", "a placeholder alone"],
)
def test_a_table_without_rows_is_empty(tmp_path: Path, ids: list[str], said: str) -> None:
    write(tmp_path / "db", foreign(ids, np.zeros((len(ids), 16), dtype=np.float32)))
    (empty,) = [finding for finding in audited(tmp_path).findings if finding.severity == "error"]
    assert (empty.code, empty.scope, empty.n_compared) == ("index_empty", {}, 1)
    assert said in empty.message


def test_rows_that_the_store_has_and_an_empty_table_lacks_are_told_as_missing_alone(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign([], np.zeros((0, 16), dtype=np.float32)))
    assert errors(audited(tmp_path, chunks(["x", "y"]))) == ["missing_rows"]
    assert errors(audited(tmp_path, chunks([]))) == ["index_empty"]


def test_a_table_of_one_row_is_not_empty(tmp_path: Path) -> None:
    write(tmp_path / "db", foreign(["x"], np.eye(16, dtype=np.float32)[:1]))
    assert errors(audited(tmp_path)) == []
