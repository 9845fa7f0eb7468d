"""Reading a table at one version, block by block, also where that is taken away. Rows are understood elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.connection import first_line

_ROWS_AT_ONCE = 8192
# What LanceDB says when a clean-up took away a file of the version it reads.
_FILE_GONE = re.compile(r"Not found: \S*(\.lance\b|/_indices/|/_versions/)")


def check_out(table: Any, version: int, name: str) -> None:
    """Pin the table to a version. Raises AuditInputError where that cannot be read."""
    try:
        table.checkout(version)
    except (OSError, RuntimeError, ValueError) as error:
        raise AuditInputError(
            f"index.table: version {version} of table {name!r} cannot be read ({first_line(error)}): "
            "audit the newest version"
        ) from error


def blocks(table: Any, columns: Sequence[str], *, row_ids: bool = False) -> Iterator[pa.RecordBatch]:
    """The table's columns in table order. Raises AuditInputError where its version is removed meanwhile."""
    query = table.search().select(list(columns))
    try:
        yield from (query.with_row_id(True) if row_ids else query).to_batches(batch_size=_ROWS_AT_ONCE)
    except (OSError, RuntimeError, ValueError) as error:
        gone = version_gone(error, table)
        if gone is None:
            raise
        raise gone from error


def version_gone(error: BaseException, table: Any) -> AuditInputError | None:
    """What to say of an error that means that the writer removed the version which is read; None of any other."""
    if not _FILE_GONE.search(str(error)):
        return None
    return AuditInputError(
        f"index.table: the writer removed version {table.version} of table {table.name!r} while it was audited: run "
        "again, and keep versions for as long as an audit takes"
    )
