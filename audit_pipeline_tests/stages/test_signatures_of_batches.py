"""The signature files of batches: what is refused when they are joined, and what makes it good again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline import schemas
from audit_pipeline.duplicates import signatures as module
from audit_pipeline.errors import AuditInputError
from audit_pipeline.stages.duplicates import signatures
from audit_pipeline.stages.ingest import generation_of, ingest_signatures
from audit_pipeline.stages.workspace import BatchManifest, Workspace
from audit_pipeline.state import write_json, write_table
from audit_pipeline_tests.stages.builders import workspace, write_rows

ROWS = [
    ("a1", "a", "2026-01-02", "the first text"),
    ("a2", "a", "2026-01-02", "the second text"),
    ("b1", "b", "2026-01-02", "another text"),
]
BATCH = "2026-01-02|a"


def ingested(folder: Path, rows: list[tuple[str, str, str, str]] = ROWS) -> Workspace:
    """The batches' chunks, signatures and manifests as an ingest leaves them; the table plays no part here."""
    write_rows(folder, rows)
    work = workspace(folder)
    for key, info in work.scan().batches.items():
        generation = generation_of(work, info)
        write_table(work.state.batch(key) / generation / "chunks.parquet", work.store.read_batch(key).chunks)
        write_json(work.state.batch(key) / "pending.json", {"generation": generation})
        ingest_signatures(work, key)
        period = info.period.isoformat()
        rows_of, settings = (info.rows, info.rejected, info.content_hash), work.settings_hash
        work.write_manifest(BatchManifest(key, info.source, period, *rows_of, settings, generation))
    return work


def test_materialising_the_signatures_of_a_refused_batch_again_is_the_way_out(tmp_path: Path) -> None:
    work = ingested(tmp_path)
    before = signatures(work)
    manifest = work.manifest(BATCH)
    assert manifest is not None
    path = work.generation(manifest) / "signatures.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(
        AuditInputError, match=r"batch 2026-01-02\|a: .*minhash_signatures of batch 2026-01-02\|a again"
    ):
        signatures(work)
    ingest_signatures(work, BATCH)
    assert signatures(work).equals(before)


def flipped(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1
    path.write_bytes(bytes(raw))


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    return lambda path: write_table(path, change(pq.read_table(path)))


def with_column(name: str, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> Callable[[Path], None]:
    place = schemas.SIGNATURES.get_field_index(name)
    return rewritten(lambda table: table.set_column(place, schemas.SIGNATURES.field(name), change(table[name])))


DAMAGE = {
    "a flipped bit": flipped,
    "signatures in another order": with_column("signature", lambda column: column.take(pa.array([1, 0]))),
    "one hash for all": with_column("normalised_sha256", lambda column: column.take(pa.array([0, 0]))),
    "a row less": rewritten(lambda table: table.slice(1)),
    "a row twice": rewritten(lambda table: table.take(pa.array([0, 1, 1]))),
    "no rows": rewritten(lambda table: table.slice(0, 0)),
}


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("way", DAMAGE)
def test_a_file_that_its_ingest_did_not_write_is_refused_and_not_taken_over(
    tmp_path: Path, way: str, recorded: bool
) -> None:
    work = ingested(tmp_path)
    before = signatures(work)
    manifest = work.manifest(BATCH)
    assert manifest is not None
    path = work.generation(manifest) / "signatures.parquet"
    DAMAGE[way](path)
    if not recorded:  # as an ingest of before there was a record left it: its rows can be counted
        path.with_suffix(".json").unlink()
        if pq.read_metadata(path).num_rows == 2:
            return
    with pytest.raises(AuditInputError, match=r"^batch 2026-01-02\|a: its .*minhash_signatures of batch .* again$"):
        signatures(work)
    ingest_signatures(work, BATCH)
    assert signatures(work).equals(before)


def test_a_file_of_before_there_was_a_record_is_read(tmp_path: Path) -> None:
    work = ingested(tmp_path)
    before = signatures(work)
    for record in tmp_path.rglob("signatures.json"):
        record.unlink()
    assert signatures(work).equals(before)


def test_a_batch_that_changed_signs_its_new_texts_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingested(tmp_path)
    signed: list[set[str]] = []
    honest = module.minhash_values
    monkeypatch.setattr(module, "minhash_values", lambda sets, n: signed.extend(sets) or honest(sets, n))
    work = ingested(tmp_path, [*ROWS, ("a3", "a", "2026-01-02", "a third text")])
    assert signed == [{"a third text"}]
    assert sorted(signatures(work)["chunk_id"].to_pylist()) == ["a1", "a2", "a3", "b1"]
    assert signatures(work).schema.equals(schemas.SIGNATURES)
