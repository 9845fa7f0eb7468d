"""The text that was embedded: a column or a template over a row's fields. Encoding it is not done here."""

from __future__ import annotations

import string

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import one_array
from audit_pipeline.corpus.text import is_blank
from audit_pipeline.errors import AuditInputError
from audit_pipeline.spelling import did_you_mean


def embedded_texts(rows: pa.Table, embed_text: str | None) -> pa.Array:
    """What the encoder was given for each row, (n,) string without nulls.

    ``embed_text`` is None (the text), the name of a column, or a template such as ``"{heading}\\n\\n{text}"``; a null
    field counts as the empty string. Raises AuditInputError for a field that the rows do not have and for a template
    that is not one.
    """
    if embed_text is None:
        return _column(rows, "text", "text")
    if "{" not in embed_text:
        return _column(rows, embed_text, embed_text)
    pieces: list[pa.Array | pa.Scalar] = []
    for literal, name in template_fields(embed_text):
        if literal:
            pieces.append(pa.scalar(literal))
        if name is not None:
            pieces.append(_column(rows, name, embed_text))
    joined = pc.binary_join_element_wise(*pieces, pa.scalar(""))
    return one_array(joined)


def without_fields(rows: pa.Table, embed_text: str | None) -> np.ndarray:
    """(n,) bool: rows that have nothing for a template to put beside their text, each of its other fields being empty.

    False throughout where the text stands alone, or not in the template at all.
    """
    names = [] if embed_text is None or "{" not in embed_text else [name for _, name in template_fields(embed_text)]
    others = [name for name in names if name not in (None, "text")]
    if "text" not in names or not others:
        return np.zeros(rows.num_rows, dtype=bool)
    empty = [is_blank(_column(rows, str(name), str(embed_text))) for name in others]
    return np.logical_and.reduce([mask.to_numpy(zero_copy_only=False) for mask in empty])


def template_fields(template: str) -> list[tuple[str, str | None]]:
    """(literal, field after it or None) in order; ``{{`` and ``}}`` are braces. Raises AuditInputError."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise AuditInputError(
            f"index.embed_text: {template!r} is no template ({error}): write fields as {{heading}}"
        ) from error
    fields = [(literal, name) for literal, name, specification, conversion in parts]
    if any(specification or conversion or name == "" for _, name, specification, conversion in parts):
        raise AuditInputError(f"index.embed_text: {template!r} holds more than plain fields: write them as {{heading}}")
    if all(name is None for _, name in fields):
        raise AuditInputError(f"index.embed_text: {template!r} names no field: write at least {{text}}")
    return fields


def _column(rows: pa.Table, name: str, embed_text: str) -> pa.Array:
    if name not in rows.column_names:
        meant = did_you_mean(name, rows.column_names)
        raise AuditInputError(
            f"index.embed_text: {embed_text!r} names {name!r}, which the rows do not have{meant}: "
            f"use one of {', '.join(rows.column_names)}"
        )
    column = rows[name]
    try:
        text = column if pa.types.is_string(column.type) else column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise AuditInputError(
            f"index.embed_text: column {name!r} is a {column.type}, which is no text: name a text column"
        ) from error
    return one_array(pc.fill_null(text, ""))
