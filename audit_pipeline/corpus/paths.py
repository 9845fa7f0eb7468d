"""How settings name a place in rows: column, struct field, key of a JSON string. Chunk fields are cast elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UUID_BYTES = 16
_JSON = "$."
_JOIN, _ESCAPE, _NULL = "|", "\\", "\\N"


@dataclass(frozen=True)
class FieldPath:
    """A column, the struct fields below it, and the keys of the JSON string that stands there."""

    parts: tuple[str, ...]
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join(self.parts) + (_JSON + ".".join(self.keys) if self.keys else "")

    @property
    def column(self) -> str:
        return self.parts[0]

    def values(self, rows: pa.Table) -> pa.Array:
        """The values of all rows; what stands under a JSON key is a string, whatever it is there."""
        array = rows[self.parts[0]].combine_chunks()
        for part in self.parts[1:]:
            array = pc.struct_field(array, part)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return json_values(array, self.keys) if self.keys else array


def spelt_path(name: str) -> FieldPath:
    """The path that a name spells where no column is called so."""
    plain, dollar, keys = name.partition(_JSON)
    return FieldPath(tuple(plain.split(".")), tuple(keys.split(".")) if dollar else ())


def find_field(schema: pa.Schema, name: str) -> FieldPath | None:
    """The place of that name in rows of this schema; None where there is none. A whole column's name wins."""
    if name in schema.names:
        return FieldPath((name,))
    plain, dollar, keys = name.partition(_JSON)
    parts = plain.split(".") if plain not in schema.names else [plain]
    if parts[0] not in schema.names:
        return None
    kind = schema.field(parts[0]).type
    for part in parts[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    if not dollar:
        return FieldPath(tuple(parts))
    return FieldPath(tuple(parts), tuple(keys.split("."))) if keys and is_text(kind) else None


def json_values(array: pa.Array, keys: Sequence[str]) -> pa.Array:
    """What stands under the keys of each JSON string, as strings; null where a row is no JSON object or lacks them."""
    return pa.array([_json_value(value, keys) for value in array.cast(pa.string()).to_pylist()], pa.string())


def _json_value(text: str | None, keys: Sequence[str]) -> str | None:
    try:
        value: Any = json.loads(text) if text else None
    except ValueError:
        return None
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def as_strings(array: pa.Array) -> pa.Array:
    """Strings, numbers, UUIDs as strings; a column of floats without fractions held integers. Raises TypeError."""
    kind = array.type
    if is_text(kind) or pa.types.is_null(kind) or pa.types.is_integer(kind):
        return array.cast(pa.string())
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        # pandas turns integers with gaps into floats: 7.0 was written as 7.
        whole = pc.all(pc.equal(array, pc.floor(array))).as_py() is not False
        return (array.cast(pa.int64(), safe=False) if whole else array).cast(pa.string())
    if pa.types.is_decimal(kind):
        return decimals_as_strings(array)
    if pa.types.is_fixed_size_binary(kind):
        return bytes_as_strings(array)
    raise TypeError(f"{kind} is neither text nor number")


def decimals_as_strings(array: pa.Array) -> pa.Array:
    """Decimals as strings, as integers where none has a fraction: databases write NUMERIC ids with a scale."""
    try:
        whole = pa.decimal256(array.type.precision, 0)
        return array.cast(pa.decimal256(array.type.precision, array.type.scale)).cast(whole).cast(pa.string())
    except pa.ArrowInvalid:
        return array.cast(pa.string())


def bytes_as_strings(array: pa.Array) -> pa.Array:
    """Bytes of a fixed length in hexadecimal digits; sixteen of them are a UUID and are written as one."""
    width, digits = array.type.byte_width, "0123456789abcdef"
    if not len(array) or not width:
        return pa.array([None] * len(array), pa.string())
    raw = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    halves = np.stack([raw >> 4, raw & 15], axis=-1).reshape(len(array), 2 * width)
    letters = np.frombuffer(digits.encode(), np.uint8)[halves]
    if width == UUID_BYTES:
        letters = np.insert(letters, [8, 12, 16, 20], ord("-"), axis=1)
    texts = np.ascontiguousarray(letters).view(f"S{letters.shape[1]}").ravel().astype(str)
    return pa.array(texts, pa.string(), mask=array.is_null().to_numpy(zero_copy_only=False))


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    r"""The parts of a composite name joined by ``|``, so that two names are equal only where all parts are.

    A ``|`` or ``\`` within a part is written ``\|`` or ``\\``, a null part ``\N``; null where all parts are null.
    """
    parts = []
    every_null = None
    for array in arrays:
        escaped = pc.replace_substring(array, _ESCAPE, _ESCAPE * 2)
        parts.append(pc.replace_substring(escaped, _JOIN, _ESCAPE + _JOIN).fill_null(_NULL))
        every_null = array.is_null() if every_null is None else pc.and_(every_null, array.is_null())
    whole = pc.binary_join_element_wise(*parts, _JOIN)
    return pc.if_else(every_null, pa.scalar(None, pa.string()), whole)


def is_text(kind: pa.DataType) -> bool:
    """Whether the type, or that of a dictionary's values, is one of Arrow's string types."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value)


def keys_of_json(array: pa.Array) -> list[str]:
    """The keys that stand in the first rows' JSON objects, sorted, for messages."""
    found: set[str] = set()
    for text in array.slice(0, 100).cast(pa.string()).to_pylist():
        try:
            value = json.loads(text) if text else None
        except ValueError:
            continue
        found |= set(value) if isinstance(value, dict) else set()
    return sorted(found)
