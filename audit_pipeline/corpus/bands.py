"""Length bands of chunks. Drawing probes from them is in sampling.py."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_STARTS = (0, 40, 128, 256, 512, 1024, 2048)
LENGTH_BANDS = ("0-39", "40-127", "128-255", "256-511", "512-1023", "1024-2047", "2048+")


def length_band(n_tokens: pa.Array | pa.ChunkedArray, n_words: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Band of each chunk, (n,) string, by its tokens; where these are null its words stand in.

    Words undercount tokens by about a quarter, so bands with and without an encoder are not comparable.
    """
    lengths = pc.coalesce(n_tokens, n_words)
    if isinstance(lengths, pa.ChunkedArray):
        lengths = lengths.combine_chunks()
    bands = np.searchsorted(_STARTS, lengths.to_numpy(zero_copy_only=False), side="right") - 1
    return pa.array(LENGTH_BANDS, pa.string()).take(pa.array(bands))
