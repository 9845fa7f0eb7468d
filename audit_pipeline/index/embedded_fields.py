"""Columns beside the chunk fields that a writer may have embedded with the text. Which of them it did is not asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.paths import is_text
from audit_pipeline.index.layouts import LLAMA_INDEX_NODE, Layout
from audit_pipeline.index.llama_index import before_text
from audit_pipeline.index.paths import as_strings, find_path

_TITLES = "heading title section header subject doc_title document_title page_title file_name filename".split()
_METADATA = ("metadata", "meta", "metadata_str")

Derived = dict[str, tuple[str, Callable[[pa.Table], pa.Array]]]
"""By field: the column it is made of, and how: rows -> (n,) string."""


def title_columns(schema: pa.Schema, taken: Sequence[str]) -> list[str]:
    """Columns of strings, or such fields of a metadata struct, named like a title and no chunk field already."""
    structs = [name for name in _METADATA if name in schema.names and pa.types.is_struct(schema.field(name).type)]
    inside = {f"{name}.{field.name}": field.type for name in structs for field in schema.field(name).type}
    kinds = {name: schema.field(name).type for name in schema.names} | inside
    named = [*_TITLES, *(f"{name}.{title}" for name in structs for title in _TITLES)]
    return [name for name in named if name in kinds and name not in taken and is_text(kinds[name])]


def derived_fields(schema: pa.Schema, layout: Layout) -> Derived:
    """What a layout puts before a text, and otherwise the lines of a row's metadata: fields for templates."""
    node = find_path(schema, LLAMA_INDEX_NODE) if layout.name == "llama_index" else None
    if node is not None:
        return {"before_text": (LLAMA_INDEX_NODE.partition(".")[0], lambda rows: before_text(node.values(rows)))}
    for name in _METADATA:
        if name in schema.names:
            kind = schema.field(name).type
            if pa.types.is_struct(kind) or is_text(kind):
                return {"metadata_lines": (name, partial(_lines_of_column, name))}
    return {}


def metadata_lines(metadata: pa.ChunkedArray) -> pa.Array:
    """``key: value`` lines of each row's metadata, (n,) string: a struct's plain fields, or those of a JSON object.

    Nulls and what is no plain value are left out, as are fields whose name begins with an underscore. Null where
    nothing is left.
    """
    column = metadata.combine_chunks()
    if not pa.types.is_struct(column.type):
        return pa.array([_lines_of_json(text) for text in column.cast(pa.string()).to_pylist()], pa.string())
    lines = pa.nulls(len(column), pa.string())
    for field in column.type:
        if field.name.startswith("_") or pa.types.is_nested(field.type):
            continue
        values = as_strings(pc.struct_field(column, field.name))
        line = pc.binary_join_element_wise(pa.scalar(field.name), values, ": ")
        # Not null_handling="skip": it leaves out whole rows of nulls, and the column becomes too short.
        lines = pc.coalesce(pc.binary_join_element_wise(lines, line, "\n"), lines, line)
    return lines


def _lines_of_column(name: str, rows: pa.Table) -> pa.Array:
    return metadata_lines(rows[name])


def _lines_of_json(text: str | None) -> str | None:
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    plain = {k: v for k, v in found.items() if not k.startswith("_") and isinstance(v, str | int | float)}
    return "\n".join(f"{key}: {value}" for key, value in plain.items())
