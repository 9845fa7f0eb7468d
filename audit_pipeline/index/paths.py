"""Places in a table and in the other tables of its database. Those within one set of rows are corpus/paths.py's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.paths import FieldPath, as_strings, find_field, keys_of_json
from audit_pipeline.errors import AuditInputError

_LOOKUP = re.compile(r"^(?P<table>[^\[\]]+)\[(?P<key>[^\[\]=]+)=(?P<on>[^\[\]=]+)\]\.(?P<field>.+)$")


class OtherTables(Protocol):
    """The further tables of the same database."""

    def schema(self, table: str) -> pa.Schema | None: ...

    def read(self, table: str, columns: list[str]) -> pa.Table: ...


@dataclass(frozen=True)
class LookedUp:
    """A field of another table, by its key: ``documents[id=document_id].uri``."""

    on: FieldPath
    keys: pa.Array = field(compare=False)
    found: pa.Array = field(compare=False)
    name: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def column(self) -> str:
        return self.on.column

    def values(self, rows: pa.Table) -> pa.Array:
        """The other table's value for each row; null where its key is not there."""
        return self.found.take(pc.index_in(as_strings(self.on.values(rows)), value_set=self.keys))


Path = FieldPath | LookedUp


def find_path(schema: pa.Schema, name: str, others: OtherTables | None = None) -> Path | None:
    """The place of that name in a table of this schema; None where there is none. A whole column's name wins."""
    lookup = _LOOKUP.match(name)
    if lookup is None or name in schema.names:
        return find_field(schema, name)
    return _lookup(schema, lookup, name, others)


def _lookup(schema: pa.Schema, lookup: re.Match[str], name: str, others: OtherTables | None) -> LookedUp | None:
    other = others.schema(lookup["table"]) if others is not None else None
    on = find_path(schema, lookup["on"])
    if others is None or other is None or not isinstance(on, FieldPath):
        return None
    key, wanted = find_path(other, lookup["key"]), find_path(other, lookup["field"])
    if not isinstance(key, FieldPath) or not isinstance(wanted, FieldPath):
        return None
    rows = others.read(lookup["table"], list(dict.fromkeys([key.column, wanted.column])))
    return LookedUp(on, as_strings(key.values(rows)), wanted.values(rows), name)


def refuse_lost_keys(path: FieldPath, rows: pa.Table, values: pa.Array, label: str) -> None:
    """Raise AuditInputError where a path that the settings name finds nothing in any row of a JSON column."""
    if not path.keys or not len(values) or values.null_count < len(values):
        return
    keys = keys_of_json(FieldPath(path.parts).values(rows))
    raise AuditInputError(
        f"index.columns: {str(path)!r} for {label} finds nothing in any row; "
        f"keys of {'.'.join(path.parts)!r} are {', '.join(keys) or '(no JSON object)'}: name one of them"
    )
