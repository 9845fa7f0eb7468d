"""The application's filter where it names columns in braces, filled from a row's own values. It runs no search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.paths import is_text
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.connection import sql_string
from audit_pipeline.index.paths import FieldPath, find_path
from audit_pipeline.spelling import did_you_mean

_QUOTED = ('"', "`")


@dataclass(frozen=True)
class Value:
    """A place of the filter that a row fills: the columns and fixed texts that make up one SQL literal, in order."""

    parts: tuple[str | FieldPath, ...]

    @property
    def columns(self) -> list[FieldPath]:
        return [part for part in self.parts if isinstance(part, FieldPath)]


Piece = str | Value


@dataclass(frozen=True)
class FilterTemplate:
    """A filter as SQL text and the values between it; without a value it is the same for every row."""

    pieces: tuple[Piece, ...]

    @property
    def columns(self) -> list[FieldPath]:
        """The columns that the filter names in braces, each once."""
        values = [piece for piece in self.pieces if isinstance(piece, Value)]
        return list(dict.fromkeys(path for value in values for path in value.columns))

    @property
    def fixed(self) -> str:
        """The text of a filter without values."""
        return "".join(piece for piece in self.pieces if isinstance(piece, str))


def parse_filter(text: str, schema: pa.Schema) -> FilterTemplate:
    """A filter whose ``{column}`` stand for the row's own value, within quotes or not; ``{{`` and ``}}`` are braces.

    A column is one of the table's, or a path into a struct. Raises AuditInputError for braces that do not pair and
    for columns that the table lacks or that hold no single values.
    """
    pieces: list[Piece] = []
    literal: list[str | FieldPath] | None = None  # the parts of the string literal that is open
    identifier = ""  # the quote that opened an identifier
    for token in _tokens(text):
        if identifier:
            pieces.append(token)
            identifier = "" if token == identifier else identifier
        elif literal is not None:
            if token == "'":
                pieces.append(_closed(literal))
                literal = None
            elif len(token) > 1 and token[0] == "{" and token[-1] == "}":
                literal.append(_column(token[1:-1], schema))
            else:
                literal.append("'" if token == "''" else token[0])
        elif token == "'":
            literal = []
        elif len(token) > 1 and token[0] == "{" and token[-1] == "}":
            pieces.append(Value((_column(token[1:-1], schema),)))
        elif token == "''":
            pieces.append("''")
        else:
            identifier = token if token in _QUOTED else ""
            pieces.append(token[0])
    if literal is not None:
        raise AuditInputError("index.filter: a quote is never closed: write '' for a quote within a string")
    return FilterTemplate(tuple(pieces))


def _tokens(text: str) -> Iterator[str]:
    """Single characters, doubled quotes and braces, and whole ``{column}``."""
    place = 0
    while place < len(text):
        if text[place : place + 2] in ("{{", "}}", "''"):
            yield text[place : place + 2]
            place += 2
        elif text[place] == "{":
            end = text.find("}", place)
            if end < 0 or end == place + 1:
                raise _odd_brace()
            yield text[place : end + 1]
            place = end + 1
        elif text[place] == "}":
            raise _odd_brace()
        else:
            yield text[place]
            place += 1


def _odd_brace() -> AuditInputError:
    return AuditInputError(
        "index.filter: a brace without its partner or without a column: write {column} for the row's own value, "
        "and {{ or }} for a brace that is meant as it is"
    )


def _closed(parts: list[str | FieldPath]) -> Piece:
    """A string literal that was read to its end: fixed text joined, and whole where no column stands in it."""
    if not any(isinstance(part, FieldPath) for part in parts):
        return sql_string("".join(part for part in parts if isinstance(part, str)))
    joined: list[str | FieldPath] = []
    for part in parts:
        if joined and isinstance(part, str) and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return Value(tuple(joined))


def _column(name: str, schema: pa.Schema) -> FieldPath:
    path = find_path(schema, name)
    if not isinstance(path, FieldPath) or path.keys:
        raise AuditInputError(
            f"index.filter: the table has no column {name!r}{did_you_mean(name, schema.names)}: name a column or a "
            f"struct's field in braces ({', '.join(schema.names)}), or write {{{{ and }}}} for braces meant as they are"
        )
    kind = schema.field(path.parts[0]).type
    for part in path.parts[1:]:
        kind = kind.field(part).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    elsewhere = pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC")
    if elsewhere or not (
        is_text(kind)
        or pa.types.is_null(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_decimal(kind)
    ):
        raise AuditInputError(
            f"index.filter: column {name!r} is of type {kind}, which cannot be filled in: "
            "name one of strings, numbers, booleans, dates, or timestamps in UTC"
        )
    return path


class RowFilter:
    """A template with the values of all rows of one table, ``columns`` (n rows, the top-level columns it names)."""

    def __init__(self, template: FilterTemplate, columns: pa.Table) -> None:
        self.template = template
        self.names = [str(path) for path in template.columns]
        arrays = [path.values(columns) for path in template.columns]
        self.codes, first = _distinct(arrays, columns.num_rows)
        """(n,) int64: rows of one code have equal values, and so one filter."""
        self._values = [array.take(pa.array(first)) for array in arrays]
        self._filled: dict[int, str] = {}

    @property
    def distinct(self) -> int:
        """Number of different filters that the rows fill."""
        return len(self._values[0])

    def filled(self, code: int) -> str:
        """The filter as the application sends it for rows of this code, with SQL literals; a null is NULL."""
        if code not in self._filled:
            values = dict(zip(self.template.columns, self._values, strict=True))
            self._filled[code] = "".join(
                piece if isinstance(piece, str) else _literal(piece, values, code) for piece in self.template.pieces
            )
        return self._filled[code]

    @property
    def example(self) -> str:
        """One filled filter; of a table without rows, every value NULL."""
        if self.distinct:
            return self.filled(0)
        return "".join(piece if isinstance(piece, str) else "NULL" for piece in self.template.pieces)

    @property
    def over_columns(self) -> str:
        """The filter with the columns themselves for values: true of a row exactly where its own filled filter is."""
        return "".join(piece if isinstance(piece, str) else _expression(piece) for piece in self.template.pieces)

    @cached_property
    def shown(self) -> pa.Array:
        """(n,) string: the row's values as a JSON object by column name."""
        plain = [_plain(values).to_pylist() for values in self._values]
        objects = [
            json.dumps(dict(zip(self.names, row, strict=True)), ensure_ascii=False) for row in zip(*plain, strict=True)
        ]
        return pa.array(objects, pa.string()).take(pa.array(self.codes))


def _distinct(arrays: list[pa.Array], n: int) -> tuple[np.ndarray, np.ndarray]:
    """(code of each row, first row of each code), codes in the order of their first rows; null is a value."""
    codes = np.zeros(n, np.int64)
    for array in arrays:
        encoded = array.dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * (len(encoded.dictionary) + 1) + own, return_inverse=True)[1]
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[codes], first[order]


def _literal(value: Value, values: dict[FieldPath, pa.Array], code: int) -> str:
    """The SQL literal of one place; NULL where any of its columns is null."""
    own = [values[path][code] for path in value.columns]
    if not all(scalar.is_valid for scalar in own):
        return "NULL"
    if len(value.parts) == 1:
        return _scalar_literal(own[0])
    texts = iter(own)
    return sql_string("".join(part if isinstance(part, str) else str(_text(next(texts))) for part in value.parts))


def _scalar_literal(scalar: pa.Scalar) -> str:
    kind = scalar.type
    text = str(_text(scalar))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if pa.types.is_floating(kind) and not np.isfinite(float(text)):
            return f"cast('{text}' as double)"
        # A sign after another operator would change what it says: "a -{b}".
        return f"({text})" if text.startswith("-") else text
    if pa.types.is_decimal(kind):
        return f"cast('{text}' as decimal({kind.precision}, {kind.scale}))"
    if pa.types.is_date(kind):
        return f"date '{text}'"
    if pa.types.is_timestamp(kind):
        return f"timestamp '{text}'"
    return sql_string(text)


def _text(scalar: pa.Scalar) -> Any:
    """A value as it stands within a literal; all digits of a float, timestamps in UTC without a zone."""
    if pa.types.is_floating(scalar.type):
        return repr(float(scalar.as_py()))
    return _plain(pa.array([scalar.as_py()], scalar.type)).cast(pa.string())[0].as_py()


def _plain(values: pa.Array) -> pa.Array:
    """Values as JSON has them: dates, timestamps and decimals as strings."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp(kind.unit)).cast(pa.string())
    if pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return (values.cast(pa.date32()) if pa.types.is_date(kind) else values).cast(pa.string())
    if pa.types.is_floating(kind):
        # JSON has no word for NaN and infinities.
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind))
    return values


def _expression(value: Value) -> str:
    columns = {path: ".".join(f"`{name}`" for name in path.parts) for path in value.columns}
    if len(value.parts) == 1:
        return columns[value.columns[0]]
    texts = [sql_string(part) if isinstance(part, str) else f"cast({columns[part]} as string)" for part in value.parts]
    return f"({' || '.join(texts)})"
