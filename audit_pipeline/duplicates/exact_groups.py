"""Groups of chunks with one normalised text, and who stands for each. The text is normalised elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.text import is_blank, normalised_sha256
from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.rows import Nodes
from audit_pipeline.duplicates.shingles import NO_SIGNATURE
from audit_pipeline.duplicates.signatures import (
    check_same_scheme,
    compute_signatures,
    scheme_of_settings,
    scheme_of_table,
)


@dataclass(frozen=True)
class ExactGroups:
    """Exact groups over n nodes.

    ``representative`` (n,) is the node that stands for each node's text (itself where the text is unique), -1 where
    a text has no words and takes part in no lane. ``signatures`` is aligned with the nodes and has the columns given.
    ``wordless`` counts the rows with such a text of which something can be seen (emoji, rules), ``wordless_copies``
    those of them whose text is that of another one of them: in no pair, so they are told apart.
    """

    representative: np.ndarray
    signatures: pa.Table
    groups: int
    redundant_rows: int
    implied_pairs: int
    wordless: int
    wordless_copies: int

    @property
    def representatives(self) -> np.ndarray:
        """Nodes that stand for a text, ascending."""
        return np.flatnonzero(self.representative == np.arange(len(self.representative)))

    def star(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (a < b) of each representative with its copies: enough to tie the group, never k^2 pairs."""
        member = np.flatnonzero(
            (self.representative >= 0) & (self.representative != np.arange(len(self.representative)))
        )
        centre = self.representative[member]
        return np.minimum(member, centre), np.maximum(member, centre)


def group_exact(nodes: Nodes, signatures: pa.Table, settings: DuplicateSettings) -> ExactGroups:
    """Exact groups of the nodes by the hash of their normalised text.

    The representative is the earliest row (ingestion date, chunk id) among those with a usable vector, so that a
    group with one broken vector still has a place in the neighbour lane. Rows that no batch signed (orphans of a
    managed table), or that hold another text than the one that was signed, are signed here. Raises AuditInputError
    where the signatures were made otherwise.
    """
    aligned = _align(nodes, signatures, settings)
    representative, sizes = stand_for(aligned, nodes.usable, nodes.seniority)
    seen = _seen_wordless(nodes, aligned)
    return ExactGroups(
        representative=representative,
        signatures=aligned,
        groups=int(np.count_nonzero(sizes > 1)),
        redundant_rows=int((sizes - 1).sum()),
        implied_pairs=int((sizes * (sizes - 1) // 2).sum()),
        wordless=len(seen),
        wordless_copies=len(seen) - len(pc.unique(seen)),
    )


def stand_for(signatures: pa.Table, usable: np.ndarray, seniority: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(representative (n,) as in ExactGroups, size of each group) of n rows by hash, usable vector and age."""
    encoded = pa.concat_arrays(signatures["normalised_sha256"].chunks or [pa.array([], type=pa.string())])
    codes = encoded.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    status = signatures["status"].to_numpy(zero_copy_only=False)
    taking_part = np.flatnonzero(status != NO_SIGNATURE)
    order = taking_part[np.lexsort((seniority[taking_part], ~usable[taking_part], codes[taking_part]))]
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = codes[order][1:] != codes[order][:-1]
    sizes = np.diff(np.append(np.flatnonzero(starts), len(order)))
    representative = np.full(len(signatures), -1, dtype=np.int64)
    representative[order] = np.repeat(order[starts], sizes)
    return representative, sizes


def _seen_wordless(nodes: Nodes, signatures: pa.Table) -> pa.ChunkedArray:
    """The hashes of the texts that hold no word, but something that a reader sees."""
    wordless = pc.equal(signatures["status"], NO_SIGNATURE)
    texts = nodes.snapshot.rows["text"].take(pa.array(nodes.row)).filter(wordless)
    return signatures["normalised_sha256"].filter(wordless).filter(pc.invert(pc.fill_null(is_blank(texts), True)))


def _align(nodes: Nodes, signatures: pa.Table, settings: DuplicateSettings) -> pa.Table:
    """One signature row per node, each of the text that the pinned row holds."""
    if len(signatures):
        stored = scheme_of_table(signatures, "minhash_signatures")
        check_same_scheme(stored, scheme_of_settings(settings), "minhash_signatures", "these settings")
    place = nodes.node_of(signatures["chunk_id"])
    where = np.full(len(nodes), -1, dtype=np.int64)
    known = place >= 0
    where[place[known]] = np.flatnonzero(known)
    signed = np.flatnonzero(where >= 0)
    # A batch is signed from its store; the table's row may have been changed since. What it holds now decides.
    own = normalised_sha256(nodes.snapshot.rows["text"].take(pa.array(nodes.row[signed])))
    told = signatures["normalised_sha256"].take(pa.array(where[signed]))
    same = pc.or_(pc.fill_null(pc.equal(told, own), False), pc.and_(told.is_null(), own.is_null()))
    where[signed[~same.to_numpy()]] = -1
    unsigned = np.flatnonzero(where < 0)
    if len(unsigned):
        text = pa.array(nodes.texts(unsigned), type=pa.string())
        extra = compute_signatures(pa.table({"chunk_id": nodes.ids(unsigned), "text": text}), settings)
        where[unsigned] = len(signatures) + np.arange(len(unsigned))
        extra = extra.select(signatures.column_names)
        signatures = pa.concat_tables([signatures.replace_schema_metadata(None), extra.replace_schema_metadata(None)])
    return signatures.take(pa.array(where, type=pa.int64()))
