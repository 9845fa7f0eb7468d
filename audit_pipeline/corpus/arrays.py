"""Arrow columns as one array each, and as sets of ids: what stands in another, and what does not. No table is read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The same values without chunks."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def among(ids: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> pa.Array:
    """(ids,) bool: whether each stands among the others."""
    return one_array(pc.is_in(ids, value_set=one_array(others)))


def without(ids: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The ids that do not stand among the others, in their order; chunked where ``ids`` are."""
    return ids.filter(pc.invert(among(ids, others)))
