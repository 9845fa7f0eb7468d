"""From the values of a column, of whatever type, to those of a chunk field. Which column it is stands in columns."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import one_array
from audit_pipeline.corpus.dates import days_of, holds_dates
from audit_pipeline.corpus.paths import (
    bytes_as_strings,
    decimals_as_strings,
    is_text,
)
from audit_pipeline.errors import AuditInputError


@dataclass(frozen=True)
class Where:
    """What a message about an entry's file names."""

    source: str
    file: str

    def __str__(self) -> str:
        return f"source {self.source!r}, {self.file}"


def array_of(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array of plain values: chunks joined, extension and dictionary types undone."""
    array = one_array(values)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def to_string(array: pa.Array, field: str, name: str, where: Where) -> tuple[pa.Array, np.ndarray]:
    """(strings, rows that are not valid UTF-8). Numbers are taken for every field but the text.

    Raises AuditInputError for another type.
    """
    kind = array.type
    none_invalid = np.zeros(len(array), dtype=bool)
    if pa.types.is_null(kind):
        return array.cast(pa.string()), none_invalid
    if is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return decoded(array)
    if field != "text" and (pa.types.is_integer(kind) or pa.types.is_date(kind)):
        return array.cast(pa.string()), none_invalid
    if field != "text" and pa.types.is_fixed_size_binary(kind):
        return bytes_as_strings(array), none_invalid
    if field != "text" and pa.types.is_decimal(kind):
        return decimals_as_strings(array), none_invalid
    if field != "text" and pa.types.is_floating(kind):
        # pandas turns a column of integers with gaps into floats: 7.0 was written as 7, and the gap may be a NaN.
        try:
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
            return array.cast(pa.int64()).cast(pa.string()), none_invalid
        except pa.ArrowInvalid:
            pass
    raise _unusable(array, field, name, where, "strings" if field == "text" else "strings or integers")


def decoded(array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """(strings, rows that are not valid UTF-8), byte for byte: Arrow takes a string column of a file on trust."""
    invalid = np.zeros(len(array), dtype=bool)
    try:
        strings = array.cast(pa.string())
        strings.validate(full=True)
        return strings, invalid
    except pa.ArrowInvalid:
        values: list[str | None] = []
        for ordinal, raw in enumerate(array.cast(pa.binary(), safe=False).to_pylist()):
            try:
                values.append(None if raw is None else raw.decode("utf-8"))
            except UnicodeDecodeError:
                invalid[ordinal] = True
                values.append(raw.decode("utf-8", "replace"))
        return pa.array(values, pa.string()), invalid


def to_position(array: pa.Array, name: str, where: Where) -> pa.Array:
    """int32 positions. Raises AuditInputError for a type, or a value, that is no such number."""
    try:
        if pa.types.is_binary(array.type) or is_text(array.type):
            array = pc.utf8_trim_whitespace(array.cast(pa.string()))
            array = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array).cast(pa.float64())
        if pa.types.is_floating(array.type):  # of pandas, where some have none
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
        if any(holds(array.type) for holds in numbers):
            return array.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise _unusable(array, "position", name, where, "whole numbers under 2^31") from error
    raise _unusable(array, "position", name, where, "whole numbers under 2^31")


def to_date(array: pa.Array, name: str, where: Where, zone: ZoneInfo) -> tuple[pa.Array, np.ndarray]:
    """(date32 days in the zone, rows whose value is no date).

    Raises AuditInputError for a type that holds no dates.
    """
    if pa.types.is_binary(array.type) or is_text(array.type):
        array, _ = decoded(array)
    if not holds_dates(array.type):
        raise _unusable(array, "ingestion_date", name, where, "dates, timestamps, strings or epoch numbers")
    return days_of(array, zone)


def _unusable(array: pa.Array, field: str, name: str, where: Where, wanted: str) -> AuditInputError:
    return AuditInputError(
        f"{where}: column {name!r} for {field} is of type {array.type}, expected {wanted}: "
        f"convert it, or name another column under columns: {{{field}: ...}}"
    )
