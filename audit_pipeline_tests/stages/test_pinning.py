"""An audit judges the table by the batches as the version that it pinned has them, whatever is brought in meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lancedb
import pytest

from audit_pipeline.corpus.sampling import STRATIFIED
from audit_pipeline.encoder.models import Encoder
from audit_pipeline.stages.changes import changed_batches
from audit_pipeline.stages.duplicates import signatures
from audit_pipeline.stages.index import corpus_integrity, vector_index
from audit_pipeline.stages.provenance import written_batches
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.managed import BATCH_STAGES
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.stages.builders import workspace

FIRST, SECOND, THIRD = "2026-01-02|docs", "2026-01-03|docs", "2026-01-04|docs"
TEXTS = docstrings("rich", 9)
AT_FIRST = {"a": (2, 0), "b": (2, 1), "c": (2, 2), "d": (3, 3), "e": (3, 4)}  # id -> day, which of the texts
ALL_STAGES = len(BATCH_STAGES)
TO_THE_COMMIT = 5
Open = Callable[[dict[str, tuple[int, int]]], Workspace]


@pytest.fixture
def opened(tmp_path: Path, fast_encoder: Encoder) -> Open:
    def of_new_process(rows: dict[str, tuple[int, int]]) -> Workspace:
        lines = [
            {"chunk_id": one, "ingestion_date": f"2026-01-0{day}", "text": TEXTS[text]}
            for one, (day, text) in rows.items()
        ]
        (tmp_path / "docs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        work = workspace(
            tmp_path,
            sources=[{"name": "docs", "uri": "docs.jsonl", "format": "jsonl"}],
            encoder={"model": str(fast_encoder.files.folder)},
        )
        work.__dict__["encoder"] = fast_encoder
        return work

    return of_new_process


def ingest(work: Workspace, *keys: str, stages: int = ALL_STAGES) -> None:
    for key in keys:
        for stage in BATCH_STAGES[:stages]:
            stage(work, key)


def table(work: Workspace) -> dict[str, tuple[str, str]]:
    rows = lancedb.connect(work.index_uri).open_table(work.settings.index.table).to_arrow().to_pylist()
    return {row["chunk_id"]: (row["batch"], row["text"]) for row in rows}


def judged_by(work: Workspace) -> dict[str, tuple[str, str]]:
    """id -> batch and text that the audit takes for right; every table of the batches has these ids, each once."""
    rows = work.population(["chunk_id", "batch", "text"]).to_pylist()
    ids = sorted(row["chunk_id"] for row in rows)
    assert len(set(ids)) == len(ids)
    assert sorted(work.batch_tables("probes", STRATIFIED)["chunk_id"].to_pylist()) == ids
    assert sorted(signatures(work)["chunk_id"].to_pylist()) == ids
    assert sum(one.rows for one in written_batches(work)) == len(ids)
    return {row["chunk_id"]: (row["batch"], row["text"]) for row in rows}


def told(work: Workspace) -> list[str]:
    return [finding.message for finding in corpus_integrity(work).findings if finding.code != "index_absent"]


LATER = {
    "a new batch": (THIRD, AT_FIRST | {"f": (4, 5)}),
    "rows that change, come and go": (FIRST, {"a": (2, 6), "c": (2, 2), "f": (2, 5), "d": (3, 3), "e": (3, 4)}),
    "a row of another batch": (FIRST, AT_FIRST | {"d": (2, 3)}),
    "an emptied batch": (SECOND, {one: row for one, row in AT_FIRST.items() if row[0] == 2}),
}


@pytest.mark.parametrize("later", LATER)
def test_batches_that_are_brought_in_during_an_audit_change_nothing_of_it(later: str, opened: Open) -> None:
    audited = opened(AT_FIRST)
    ingest(audited, FIRST, SECOND)
    before = table(audited)
    vector_index(audited)
    key, rows = LATER[later]
    ingest(opened(rows), key)
    assert table(audited) != before == judged_by(audited)
    assert told(audited) == []
    for change in changed_batches(opened(rows)):
        ingest(opened(rows), change.key)
    vector_index(audited)  # the next audit
    assert table(audited) == judged_by(audited)
    assert told(audited) == []


@pytest.mark.parametrize("later", LATER)
def test_a_batch_that_is_committed_and_not_finished_is_judged_as_it_was_committed(later: str, opened: Open) -> None:
    work = opened(AT_FIRST)
    ingest(work, FIRST, SECOND)
    before = table(work)
    key, rows = LATER[later]
    work = opened(rows)
    ingest(work, key, stages=TO_THE_COMMIT - 1)
    vector_index(work)
    assert judged_by(work) == before
    absent = "which the table " + ("does not have" if key == THIRD else "has as before")
    assert told(work) == [f"Not measured: 1 batch whose last ingest had not finished, {absent}: {key}."]
    BATCH_STAGES[TO_THE_COMMIT - 1](work, key)
    for name in ("probes.parquet", "signatures.parquet"):  # which its run may make after the commit
        for file in work.state.batch(key).glob(f"*/{name}"):
            file.unlink()
    vector_index(work)
    assert table(work) == judged_by(work) != before
    assert told(work) == []


def test_the_files_of_an_earlier_state_stay_until_no_audit_needs_them(opened: Open) -> None:
    work = opened(AT_FIRST)
    ingest(work, FIRST, SECOND)
    vector_index(work)

    def states() -> int:
        return sum(path.is_dir() for path in work.state.batch(FIRST).iterdir())

    for number, kept in ((5, 2), (6, 2), (7, 2)):
        ingest(opened(AT_FIRST | {"a": (2, number)}), FIRST)
        assert states() == kept
    vector_index(work)
    ingest(opened(AT_FIRST | {"a": (2, 8)}), FIRST)
    assert (states(), judged_by(work)["a"]) == (2, (FIRST, TEXTS[7]))
