"""Vector columns as float32 matrices with a state for each row. Where the column comes from is in reading.py."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from audit_pipeline.index.snapshot import INFINITE, NAN, NULL, USABLE, WRONG_DIMENSION, ZERO


def is_vector_type(kind: pa.DataType) -> bool:
    """Whether a column of this type can hold one vector a row: a list of floats, of fixed or variable size."""
    lists = pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return lists and pa.types.is_floating(kind.value_type)


def most_frequent_length(columns: Iterable[pa.Array]) -> int:
    """The commonest length among the non-null lists of all columns, the larger of equals; 0 without any."""
    counts: dict[int, int] = {}
    for column in columns:
        lengths = column.value_lengths().drop_null().to_numpy()
        for length, count in zip(*np.unique(lengths, return_counts=True), strict=True):
            counts[int(length)] = counts.get(int(length), 0) + int(count)
    return max(counts, key=lambda length: (counts[length], length), default=0)


def to_matrix(column: pa.Array, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """(vectors (n, d) float32, state (n,) uint8) of one list column; rows that are not usable are all zero.

    A vector too short or too long for its length to be told in float32 counts as zero or as infinite.
    """
    matrix = np.zeros((len(column), dimension), dtype=np.float32)
    state = np.full(len(column), USABLE, dtype=np.uint8)
    null = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        fits = ~null & (size == dimension)
        if size == dimension:
            values = _floats(column.values.slice(column.offset * size, len(column) * size))
            matrix[fits] = values.reshape(-1, size)[fits]
    else:
        offsets = column.offsets.to_numpy()
        fits = ~null & (np.diff(offsets) == dimension)
        values = _floats(column.values)
        matrix[fits] = values[offsets[:-1][fits, None] + np.arange(dimension)]
    state[~fits] = WRONG_DIMENSION
    state[null] = NULL
    finite = np.isfinite(matrix)
    state[fits & ~finite.all(axis=1)] = INFINITE
    state[fits & np.isnan(matrix).any(axis=1)] = NAN
    # LanceDB squares in float32: a length whose square is nothing or infinite there has no direction for it either.
    with np.errstate(over="ignore", invalid="ignore"):
        squared = np.einsum("ij,ij->i", matrix, matrix)
    state[(state == USABLE) & ~np.isfinite(squared)] = INFINITE
    state[(state == USABLE) & (squared < np.finfo(np.float32).tiny)] = ZERO
    matrix[state != USABLE] = 0
    return matrix, state


def _floats(values: pa.Array) -> np.ndarray:
    """float32 values; a null component is NaN, a value too large for float32 becomes infinite."""
    with np.errstate(over="ignore"):
        floats = np.array(values.to_numpy(zero_copy_only=False), dtype=np.float32)
    if values.null_count:
        floats[values.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return floats
