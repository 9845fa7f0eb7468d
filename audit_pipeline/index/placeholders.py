"""Rows that writers leave as stand-ins, on purpose. They are counted once and never probed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import one_array
from audit_pipeline.corpus.text import is_blank
from audit_pipeline.index.snapshot import NULL, ZERO

_PLACEHOLDER = r"^__\w+__$"


def blank_texts(rows: pa.Table) -> pa.Array:
    """(n,) bool: rows whose text is nothing but white space and characters that nobody sees."""
    return is_blank(rows["text"])


def placeholder_rows(rows: pa.Table, vector_state: np.ndarray, zeros_meant: bool = False) -> np.ndarray:
    """(n,) bool: stand-ins such as ``__DUMMY__``, rows without both text and vector, and zero vectors that are meant.

    ``zeros_meant`` says that the writer puts zeros where nothing was embedded; elsewhere a zero vector is a fault.
    """
    text, ids = one_array(rows["text"]), one_array(rows["chunk_id"])
    named = pc.or_(pc.match_substring_regex(text, _PLACEHOLDER), pc.match_substring_regex(ids, _PLACEHOLDER))
    blank = blank_texts(rows).to_numpy(zero_copy_only=False)
    empty = (vector_state == ZERO) | (vector_state == NULL)
    meant = (vector_state == ZERO) & zeros_meant
    return named.to_numpy(zero_copy_only=False) | (blank & empty) | meant
