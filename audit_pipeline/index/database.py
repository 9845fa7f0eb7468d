"""The further tables of a database, and which tables are of one shape. They are read, never written."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.connection import connect, open_table, table_names
from audit_pipeline.index.vectors import is_vector_type

ALL_TABLES = "*"
# Listing versions reads a file of each, at every look. A table that is made anew seldom comes to as many, and hardly to
# the same number with as many rows and bytes.
MOST_LISTED = 200


class Database:
    """Schemas and columns of a database's other tables, each at its newest version."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._names = frozenset(table_names(connection))

    def schema(self, table: str) -> pa.Schema | None:
        """The schema of a table, None where there is none of that name."""
        return open_table(self._connection, table).schema if table in self._names else None

    def read(self, table: str, columns: list[str]) -> pa.Table:
        return open_table(self._connection, table).search().select(columns).to_arrow()


def tables_of_one_shape(connection: Any) -> tuple[list[str], list[str]]:
    """(names of the tables that share the commonest schema with a vector, names of the others), both sorted.

    Raises AuditInputError where no table has a vector, or where two shapes are equally common.
    """
    shapes = {name: open_table(connection, name).schema for name in table_names(connection)}
    keys = {
        name: str(schema.remove_metadata())
        for name, schema in shapes.items()
        if any(is_vector_type(column.type) for column in schema)
    }
    if not keys:
        raise AuditInputError(
            f"index.table: no table in {connection.uri} has a vector column; "
            f"tables are {', '.join(shapes) or '(none)'}: correct index.uri"
        )
    (shape, count), *rest = Counter(keys.values()).most_common()
    if rest and rest[0][1] == count:
        other = [name for name, key in keys.items() if key == rest[0][0]]
        own = [name for name, key in keys.items() if key == shape]
        raise AuditInputError(
            f"index.table: '*' takes tables of one shape, but {own[0]!r} and {other[0]!r} in {connection.uri} differ "
            "and no shape is the commonest: name one table"
        )
    taken = sorted(name for name, key in keys.items() if key == shape)
    return taken, sorted(set(shapes) - set(taken))


def newest_versions(
    uri: str, table: str, storage_options: dict[str, str] | None = None
) -> dict[str, tuple[int, list[int | str]]]:
    """By table (``*``: each that it takes) its newest version, and what tells it from the version of the same number
    of a table that was dropped and made again: rows, bytes, and when it was written.

    Raises AuditInputError as reading does.
    """
    connection = connect(uri, storage_options)
    names = tables_of_one_shape(connection)[0] if table == ALL_TABLES else [table]
    found = {}
    for name in names:
        opened = open_table(connection, name)
        stats = opened.stats()
        marks: list[int | str] = [int(stats["num_rows"]), int(stats["total_bytes"])]
        if opened.version <= MOST_LISTED:
            marks.append(max(str(one["timestamp"]) for one in opened.list_versions()))
        found[name] = (int(opened.version), marks)
    return found
