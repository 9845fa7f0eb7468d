"""A managed table that cannot be written."""

from __future__ import annotations

from collections.abc import Callable

import lancedb
import numpy as np

from audit_pipeline.index import managed
from audit_pipeline.index.managed import replace_batch
from audit_pipeline_tests.index.builders import chunks, unit_vectors
from audit_pipeline_tests.messages.case import Case, World

BATCH = "2026-01-02|a"


def managed_table(dimension: int) -> Callable[[World], object]:
    """The cause that is a batch of vectors for a managed table of dimension 16."""

    def cause(world: World) -> None:
        uri = str(world.folder / "t.lance")
        replace_batch(uri, "chunks", chunks(["x"]), unit_vectors(1), BATCH)
        replace_batch(uri, "chunks", chunks(["y"]), unit_vectors(1, dimension), BATCH)

    return cause


def table_of_others(world: World) -> None:
    uri = str(world.folder / "t.lance")
    lancedb.connect(uri).create_table("other", [{"id": 1, "vector": [1.0, 2.0]}])
    replace_batch(uri, "other", chunks(["y"]), unit_vectors(1), BATCH)


def vectors_of_a_broken_model(world: World) -> None:
    vectors = unit_vectors(2)
    vectors[1, 3] = np.nan
    replace_batch(str(world.folder / "t.lance"), "chunks", chunks(["y", "z"]), vectors, BATCH)


def another_writer(world: World) -> None:
    """A writer that commits before each of our attempts, which needs a race: each attempt is told so here."""

    def conflict(*_: object) -> None:
        raise RuntimeError("lance error: Retryable commit conflict for version 7\nand more lines")

    world.patch.setattr("time.sleep", lambda seconds: None)
    world.patch.setattr(managed, "_replace", conflict)
    replace_batch(str(world.folder / "t.lance"), "chunks", chunks(["y"]), unit_vectors(1), BATCH)


CASES = [
    Case(
        "a managed table of another model",
        managed_table(8),
        "index.table: table 'chunks' holds vectors of dimension 16, the encoder gives 8: "
        "name another table for another model, or delete this one to rebuild it",
    ),
    Case(
        "a managed table that something else wrote",
        table_of_others,
        "index.table: the managed table 'other' has other columns (lacks ['batch', …], has ['id'] too): "
        "it was written by something else; name another table, or set index.managed to false",
    ),
    Case(
        "a model that gives no numbers",
        vectors_of_a_broken_model,
        "batch '2026-01-02|a': the encoder gave 1 vectors with NaN or infinite values: check its model and dtype",
    ),
    Case(
        "another writer that does not stop",
        another_writer,
        "index.table: another writer keeps changing the table (lance error: Retryable commit conflict for version 7): "
        "stop it and run again",
    ),
]
