"""Writing the managed table: one atomic commit per batch. No ANN index is built here, no table of others written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock

from audit_pipeline.corpus.arrays import among, one_array, without
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.batch_rows import batch_session, rows_elsewhere, rows_of_batch
from audit_pipeline.index.commits import KEEP_VERSIONS, with_retries
from audit_pipeline.index.connection import connect, find_table, sql_string

_DELETIONS_IN_A_FILTER = 5000
_MOST_FILES = 500  # small ones; each batch is a file, and looking for the next batch opens all of them
_PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}


@dataclass(frozen=True)
class ReplaceReport:
    """What one batch's commit did; ``version`` is None where there was nothing to write and no table."""

    version: int | None
    inserted: int
    updated: int
    deleted: int

    @property
    def changed(self) -> bool:
        return bool(self.inserted or self.updated or self.deleted)


def replace_batch(
    uri: str,
    table: str,
    chunks: pa.Table,
    vectors: np.ndarray,
    batch: str,
    *,
    storage_options: dict[str, str] | None = None,
    taking: Callable[[pa.Table], None] | None = None,
    creating: Callable[[], None] | None = None,
) -> ReplaceReport:
    """Make ``chunks`` all that the table holds of one batch, in one commit.

    ``chunks`` has the columns of ``schemas.CHUNKS`` and may be empty: then the batch's rows are deleted. ``vectors``
    (n, d) float32 are aligned with it. The table is created on first use. Rows that are there already, equal in every
    column, are not written again; without any change there is no new version. A row whose chunk_id stands in another
    batch moves; where it stands in this one as well, since another writer has added it, it goes there, in a commit of
    its own. ``taking`` is called with such rows (chunk_id, batch) before either, where there are any, and ``creating``
    before the table is made, where there is none. Several
    processes may write at once, the same batch too: chunk_id is the table's primary key, by which LanceDB sees that two
    commits bring one id, and makes the later one anew. Where hundreds of batches have left a small file each, these are
    joined, which is a commit that changes no row. Raises AuditInputError for bad vectors or columns unlike the table's.
    """
    _check_rows(chunks, vectors, batch)
    rows = chunks if chunks.num_rows == 0 else _keyed(chunks.append_column("vector", _fixed_size_lists(vectors)))
    return with_retries(lambda: _replace(uri, table, rows, batch, storage_options, taking, creating))


def _replace(
    uri: str,
    name: str,
    rows: pa.Table,
    batch: str,
    storage_options: dict[str, str] | None,
    taking: Callable[[pa.Table], None] | None,
    creating: Callable[[], None] | None,
) -> ReplaceReport:
    database = connect(uri, storage_options, create=True, session=batch_session())
    target = find_table(database, name)
    if target is None:
        if rows.num_rows == 0:
            return ReplaceReport(None, 0, 0, 0)
        # Of two processes that create one table at once both may succeed, and the rows of one are gone.
        with _creating(uri, name):
            if find_table(database, name) is None:
                if creating is not None:
                    creating()
                created = database.create_table(name, rows)
                return ReplaceReport(created.version, rows.num_rows, 0, 0)
        return _replace(uri, name, rows, batch, storage_options, taking, creating)
    if rows.num_rows == 0:
        held = f"batch = {sql_string(batch)}"
        gone = target.count_rows(held)
        if gone:
            target.delete(held)
        return ReplaceReport(target.version, 0, 0, gone)
    _check_schema(rows, target.schema, name)
    _declare_key(target)
    present = rows_of_batch(target, batch, rows.schema.names)
    repeated = _repeated(present["chunk_id"])
    if len(repeated):
        # Two writers that inserted one new key without the primary key: such rows are taken out, then written once.
        target.delete(f"batch = {sql_string(batch)} AND chunk_id IN ({_literals(repeated)})")
        present = present.filter(pc.invert(among(present["chunk_id"], repeated)))
    elsewhere = rows_elsewhere(target, batch, one_array(rows["chunk_id"]))
    if taking is not None and len(elsewhere):
        taking(elsewhere)
    doubled = one_array(elsewhere["chunk_id"]).filter(among(elsewhere["chunk_id"], present["chunk_id"])).unique()
    for start in range(0, len(doubled), _DELETIONS_IN_A_FILTER):
        # Rows that something else has added: of the two the one that stands under this batch is left.
        some = doubled.slice(start, _DELETIONS_IN_A_FILTER)
        target.delete(f"batch != {sql_string(batch)} AND chunk_id IN ({_literals(some)})")
    deleted = len(repeated) + len(doubled)
    changed = rows.filter(pa.array(~_unchanged(rows, present)))
    gone_ids = without(present["chunk_id"], rows["chunk_id"])
    if changed.num_rows == 0 and len(gone_ids) == 0:
        return ReplaceReport(target.version, 0, 0, deleted)
    if len(gone_ids) <= _DELETIONS_IN_A_FILTER:
        # Unchanged rows stay where they are, and so inside the ANN index.
        source, condition = changed, f"batch = {sql_string(batch)} AND chunk_id IN ({_literals(gone_ids)})"
    else:
        source, condition = rows, f"batch = {sql_string(batch)}"
    if source.num_rows == 0:
        target.delete(condition)
        return ReplaceReport(target.version, 0, 0, deleted + len(gone_ids))
    merge = target.merge_insert("chunk_id").when_matched_update_all().when_not_matched_insert_all()
    if len(gone_ids):
        merge = merge.when_not_matched_by_source_delete(condition)
    done = merge.execute(source)
    if target.stats()["fragment_stats"]["num_small_fragments"] > _MOST_FILES:
        target.optimize(cleanup_older_than=KEEP_VERSIONS)
    return ReplaceReport(target.version, done.num_inserted_rows, done.num_updated_rows, done.num_deleted_rows + deleted)


def _creating(uri: str, name: str) -> AbstractContextManager[object]:
    """The lock of a table's creation, which ends with its process; in an object store only Dagster's pool guards it."""
    if "://" in uri:
        return nullcontext()
    Path(uri).mkdir(parents=True, exist_ok=True)
    return FileLock(Path(uri) / f".{name}.creating.lock")


def _check_rows(chunks: pa.Table, vectors: np.ndarray, batch: str) -> None:
    if vectors.shape[:1] != (chunks.num_rows,):
        raise ValueError(f"{chunks.num_rows} chunks, vectors {vectors.shape}")
    if chunks.num_rows == 0:
        return
    repeated = _repeated(chunks["chunk_id"])
    if len(repeated):
        raise ValueError(f"batch {batch!r}: chunk_id {repeated[0].as_py()!r} stands on two rows")
    others = pc.unique(chunks["batch"]).to_pylist()
    if others != [batch]:
        raise ValueError(f"rows of {others} handed over as batch {batch!r}")
    bad = int((~np.isfinite(vectors).all(axis=1)).sum())
    if bad:
        raise AuditInputError(
            f"batch {batch!r}: the encoder gave {bad} vectors with NaN or infinite values: check its model and dtype"
        )


def _fixed_size_lists(vectors: np.ndarray) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def _keyed(rows: pa.Table) -> pa.Table:
    """The rows with chunk_id marked as the primary key; a table that is created from them has it."""
    place = rows.schema.get_field_index("chunk_id")
    return rows.cast(rows.schema.set(place, rows.schema.field(place).with_metadata(_PRIMARY_KEY)))


def _declare_key(target: Any) -> None:
    """Make chunk_id the primary key of a table that was created without one; a nullable column cannot be."""
    field = target.schema.field("chunk_id")
    if not field.nullable and not any(key.startswith(next(iter(_PRIMARY_KEY))) for key in field.metadata or {}):
        target.set_unenforced_primary_key("chunk_id")


def _check_schema(rows: pa.Table, present: pa.Schema, name: str) -> None:
    missing = sorted(set(rows.schema.names) - set(present.names))
    extra = sorted(set(present.names) - set(rows.schema.names))
    if missing or extra:
        raise AuditInputError(
            f"index.table: the managed table {name!r} has other columns (lacks {missing}, has {extra} too): "
            "it was written by something else; name another table, or set index.managed to false"
        )
    wanted, stored = rows.schema.field("vector").type, present.field("vector").type
    if wanted.list_size != getattr(stored, "list_size", None):
        size = getattr(stored, "list_size", stored)
        raise AuditInputError(
            f"index.table: table {name!r} holds vectors of dimension {size}, the encoder gives {wanted.list_size}: "
            "name another table for another model, or delete this one to rebuild it"
        )


def _unchanged(rows: pa.Table, present: pa.Table) -> np.ndarray:
    """(n,) bool: rows that stand in ``present`` with the same values in every column."""
    place = pc.index_in(one_array(rows["chunk_id"]), value_set=one_array(present["chunk_id"]))
    known = place.is_valid().to_numpy(zero_copy_only=False)
    same = known.copy()
    at = place.drop_null()
    for name in rows.schema.names:
        new = one_array(rows[name]).filter(pa.array(known))
        old = one_array(present[name]).take(at)
        if name == "vector":
            size = new.type.list_size
            equal = (_matrix(new, size) == _matrix(old, size)).all(axis=1)
        else:
            both_null = pc.and_(pc.is_null(new), pc.is_null(old))
            equal = pc.or_(pc.fill_null(pc.equal(new, old.cast(new.type)), False), both_null)
            equal = equal.to_numpy(zero_copy_only=False)
        same[known] &= equal
    return same


def _matrix(vectors: pa.Array, size: int) -> np.ndarray:
    return np.asarray(vectors.flatten().to_numpy(zero_copy_only=False)).reshape(-1, size)


def _repeated(ids: pa.ChunkedArray) -> pa.Array:
    counts = ids.value_counts()
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1)).sort()


def _literals(ids: pa.Array | pa.ChunkedArray) -> str:
    return ", ".join(sql_string(value) for value in ids.to_pylist())
