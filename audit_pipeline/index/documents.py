"""Which document each row of a table belongs to, and where in it the row stands. What follows from it is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import one_array

UNKNOWN = -1
_NO_DOCUMENT = pa.array(["", "none", "null", "nan", "undefined"])
"""What writers put where a row has no document; compared without case and white space."""


@dataclass(frozen=True)
class Documents:
    """``code`` (n,) int64 of each row's document (source and doc_id together), ``position`` (n,) int64; -1 unknown."""

    code: np.ndarray
    position: np.ndarray

    @classmethod
    def of(cls, rows: pa.Table) -> Documents:
        """From the columns source, doc_id and position of a table's rows."""
        source, doc_id = one_array(rows["source"]), one_array(rows["doc_id"])
        known = pc.is_valid(known_documents(doc_id))
        document = doc_id.dictionary_encode().indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        owner = source.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        code = np.where(
            known.to_numpy(zero_copy_only=False),
            document * (int(owner.max(initial=-1)) + 2) + owner + 1,
            UNKNOWN,
        )
        position = one_array(rows["position"]).fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(code, np.where(position < 0, UNKNOWN, position))


def known_documents(doc_id: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The ids of documents, null where the writer put a word for none."""
    own = one_array(doc_id)
    folded = pc.utf8_lower(pc.utf8_trim_whitespace(own))
    known = pc.and_(pc.is_valid(own), pc.invert(pc.is_in(folded, value_set=_NO_DOCUMENT)))
    return pc.if_else(known, own, pa.scalar(None, own.type))
