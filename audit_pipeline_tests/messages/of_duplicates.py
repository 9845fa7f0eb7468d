"""Messages of the near-duplicate search: where it runs, and the signature files of batches."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.minhash_pairs import join_bands
from audit_pipeline.duplicates.signatures import compute_signatures, join_signatures, read_signatures, write_signatures
from audit_pipeline_tests.messages.case import Case, World

KEY = "2026-01-02|s"
SIGNATURES = np.zeros((2, 4), dtype=np.uint32)


def ray_that_is_not_installed(world: World) -> None:
    world.patch.setattr(importlib.util, "find_spec", lambda name: None)
    join_bands(SIGNATURES, 2, 5, "ray")


def two_runners_in_one_process(world: World) -> None:
    join_bands(SIGNATURES, 2, 5, "native")
    world.patch.setattr(importlib.util, "find_spec", lambda name: name)
    join_bands(SIGNATURES, 2, 5, "ray")


def signature_file(change: Callable[[pa.Table], pa.Table] | None) -> Callable[[World], object]:
    """The cause that is a batch whose signature file is not what its ingest wrote; None where it is cut short."""

    def cause(world: World) -> None:
        path, settings = world.folder / "signatures.parquet", DuplicateSettings()
        made = compute_signatures(pa.table({"chunk_id": ["a"], "text": ["a few words"]}), settings)
        pq.write_table(made if change is None else change(made), path)
        if change is None:
            path.write_bytes(path.read_bytes()[:200])
        join_signatures({KEY: read_signatures(path, KEY)}, settings)

    return cause


def written_then_changed(rows: int, damage: bool) -> Callable[[World], object]:
    """The cause that is a file of one row, changed by a byte after it was written or of a batch of ``rows`` rows."""

    def cause(world: World) -> None:
        path, settings = world.folder / "signatures.parquet", DuplicateSettings()
        write_signatures(path, compute_signatures(pa.table({"chunk_id": ["a"], "text": ["a few words"]}), settings))
        if damage:
            path.write_bytes(path.read_bytes() + b" ")
        read_signatures(path, KEY, rows=rows)

    return cause


def shortened(table: pa.Table) -> pa.Table:
    short = pa.array([table["signature"][0].as_py()[:256]], type=pa.binary())
    return table.set_column(4, table.schema.field("signature"), short)


CASES = [
    Case(
        "a signature file that was cut short",
        signature_file(None),
        "batch 2026-01-02|s: its signature file cannot be read (Parquet magic bytes not found in footer. …): "
        "materialise minhash_signatures of batch 2026-01-02|s again",
    ),
    Case(
        "a signature file of something else",
        signature_file(lambda table: table.select(["chunk_id", "status"])),
        "batch 2026-01-02|s: its signature file has other columns (chunk_id, status): "
        "materialise minhash_signatures of batch 2026-01-02|s again",
    ),
    Case(
        "a signature file that was changed since",
        written_then_changed(1, damage=True),
        "batch 2026-01-02|s: its signature file is not as its ingest wrote it: "
        "materialise minhash_signatures of batch 2026-01-02|s again",
    ),
    Case(
        "a signature file of other rows",
        written_then_changed(1200, damage=False),
        "batch 2026-01-02|s: its signature file has 1 row, the batch 1,200: "
        "materialise minhash_signatures of batch 2026-01-02|s again",
    ),
    Case(
        "signatures of another length",
        signature_file(shortened),
        "batch 2026-01-02|s: 1 of its 1 signatures are not the 512 bytes of 128 permutations: "
        "materialise minhash_signatures of batch 2026-01-02|s again",
    ),
    Case(
        "Ray that is not installed",
        ray_that_is_not_installed,
        "duplicates.runner is ray, but Ray is not installed: install audit-pipeline[ray], or set it to native",
    ),
    Case(
        "two runners in one process",
        two_runners_in_one_process,
        "duplicates.runner is ray, but this process runs Daft on native already: "
        "give the audits of one project the same runner",
    ),
]
