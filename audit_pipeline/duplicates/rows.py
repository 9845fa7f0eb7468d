"""The rows of a table as the duplicate lanes see them: one node per chunk id, in id order. No lane belongs here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.text import is_blank
from audit_pipeline.duplicates.regime import QueryRole
from audit_pipeline.index.snapshot import USABLE, TableSnapshot

_NO_DATE = np.iinfo(np.int32).max
_TEXT_BLOCK = 8192
_PAIR_BLOCK = 8192
_NORM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Nodes:
    """The distinct chunk ids of a table. A node is an id's place in ascending order, so a < b holds for ids as well.

    Arrays are (n,) and aligned: ``row`` is the ordinal in the snapshot, ``source``/``document``/``role`` are codes
    with -1 for unknown, ``date`` is in days with the largest value for unknown, ``position`` has -1 for unknown,
    ``usable`` says whether the row holds a vector with a direction, and a text it can be of. With ``asked`` the cosine
    of a pair is that of the newer node's text in the query role and the older one's stored vector (regime query): a
    text is checked against those that are stored already, so an unordered pair has one score.
    """

    snapshot: TableSnapshot
    chunk_ids: pa.Array
    row: np.ndarray
    source: np.ndarray
    sources: list[str]
    document: np.ndarray
    role: np.ndarray
    date: np.ndarray
    position: np.ndarray
    usable: np.ndarray
    asked: QueryRole | None = None

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def seniority(self) -> np.ndarray:
        """(n,) rank by (ingestion date, chunk id), 0 the earliest; undated rows come last."""
        rank = np.empty(len(self), dtype=np.int64)
        rank[np.argsort(self.date, kind="stable")] = np.arange(len(self))
        return rank

    @cached_property
    def norms(self) -> np.ndarray:
        """(n,) float64 norms of the stored vectors, 1 where a row has no usable one."""
        norms = np.ones(len(self))
        for start in range(0, len(self), _TEXT_BLOCK):
            block = self.snapshot.vectors[self.row[start : start + _TEXT_BLOCK]].astype(np.float64)
            norms[start : start + _TEXT_BLOCK] = np.sqrt(np.einsum("ij,ij->i", block, block))
        norms[~self.usable | (norms == 0)] = 1.0
        return norms

    @property
    def all_unit(self) -> bool:
        """Whether every vector that cosines are taken of has norm 1, in either role."""
        norms = [self.norms[self.usable]]
        if self.asked is not None:
            norms.append(self.asked.norms[self.asked.place[self.row[self.usable]]])
        return all(bool(np.all(np.abs(part - 1) <= _NORM_TOLERANCE)) for part in norms)

    def source_name(self, code: int) -> str:
        return self.sources[code] if code >= 0 else "(none)"

    def node_of(self, chunk_ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Node of each id, (len,) int64, -1 where the table has no such id. The ids may come as dictionaries."""
        if pa.types.is_dictionary(chunk_ids.type):
            chunks = chunk_ids.chunks if isinstance(chunk_ids, pa.ChunkedArray) else [chunk_ids]
            parts = [self.node_of(chunk.dictionary)[chunk.indices.to_numpy()] for chunk in chunks]
            return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        found = pc.index_in(chunk_ids, value_set=self.chunk_ids)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)

    def ids(self, nodes: np.ndarray) -> pa.Array:
        return self.chunk_ids.take(pa.array(nodes, type=pa.int64()))

    def texts(self, nodes: np.ndarray) -> Iterator[str]:
        """Texts of the nodes in the order given; only a block of them is in memory as Python strings."""
        column = self.snapshot.rows["text"]
        for start in range(0, len(nodes), _TEXT_BLOCK):
            taken = column.take(pa.array(self.row[nodes[start : start + _TEXT_BLOCK]], type=pa.int64()))
            for text in taken.to_pylist():
                yield text or ""

    def unit_vectors(self, nodes: np.ndarray) -> np.ndarray:
        """(len(nodes), d) float32 vectors of norm 1, in the order given."""
        unit = np.empty((len(nodes), self.snapshot.vectors.shape[1]), dtype=np.float32)
        for start in range(0, len(nodes), _TEXT_BLOCK):
            part = nodes[start : start + _TEXT_BLOCK]
            unit[start : start + _TEXT_BLOCK] = self.snapshot.vectors[self.row[part]] / self.norms[part, None]
        return unit

    def unit_queries(self, nodes: np.ndarray) -> np.ndarray:
        """(len(nodes), d) float32 vectors of norm 1 that the nodes' texts are searched for with."""
        if self.asked is None:
            return self.unit_vectors(nodes)
        unit = np.empty((len(nodes), self.snapshot.vectors.shape[1]), dtype=np.float32)
        for start in range(0, len(nodes), _TEXT_BLOCK):
            place = self.asked.place[self.row[nodes[start : start + _TEXT_BLOCK]]]
            unit[start : start + _TEXT_BLOCK] = self.asked.vectors[place] / self.asked.norms[place, None]
        return unit

    def cosines(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Cosine of each pair of nodes in float64, (len,); NaN where a side has no usable vector or the roles differ.

        Vectors of different roles are not comparable: the prompt alone moves their cosine.
        """
        cosine = np.full(len(a), np.nan)
        known = np.flatnonzero(self.usable[a] & self.usable[b] & self.comparable(a, b))
        vectors = self.snapshot.vectors
        for start in range(0, len(known), _PAIR_BLOCK):
            part = known[start : start + _PAIR_BLOCK]
            newer, older = self._by_age(a[part], b[part])
            left, norms = self._asking(newer)
            right = vectors[self.row[older]].astype(np.float64)
            cosine[part] = np.einsum("ij,ij->i", left.astype(np.float64), right) / (norms * self.norms[older])
        return np.clip(cosine, -1.0, 1.0)

    def _by_age(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The newer node of each pair by (ingestion date, chunk id), and the older; undated rows are the newest."""
        swapped = self.seniority[a] < self.seniority[b]
        return np.where(swapped, b, a), np.where(swapped, a, b)

    def _asking(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The vectors of the nodes as those that ask, and their norms."""
        if self.asked is None:
            return self.snapshot.vectors[self.row[nodes]], self.norms[nodes]
        place = self.asked.place[self.row[nodes]]
        return self.asked.vectors[place], self.asked.norms[place]

    def comparable(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(len,) bool: the two nodes are not known to carry vectors of different roles."""
        return (self.role[a] == self.role[b]) | (self.role[a] < 0) | (self.role[b] < 0)


def nodes_of(snapshot: TableSnapshot, roles: Mapping[str, str] | None = None, asked: QueryRole | None = None) -> Nodes:
    """Nodes of a snapshot. ``roles`` maps batch keys to the role found for them; batches left out are unknown.
    ``asked`` is given under regime query: a row without a vector in the query role is as good as without one.

    Where an id stands on several rows, one row stands for it: the first by (usable vector, text), whatever the
    order of the rows in the table.
    """
    table = snapshot.rows
    usable = snapshot.vector_state == USABLE
    if "text" not in snapshot.absent:  # the vector of nothing at all tells nothing of how alike texts are
        usable &= ~is_blank(table["text"]).to_numpy(zero_copy_only=False)
    if asked is not None:
        usable &= asked.usable
    ids = table["chunk_id"].combine_chunks()
    if isinstance(ids, pa.ChunkedArray):
        ids = pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], type=pa.string())
    if len(snapshot.repeated_ids):
        keys = pa.table({"id": ids, "unusable": pa.array(~usable), "text": table["text"]})
        order = pc.sort_indices(
            keys, sort_keys=[("id", "ascending"), ("unusable", "ascending"), ("text", "ascending")]
        ).to_numpy()
    else:
        order = pc.sort_indices(ids).to_numpy()
    ordered = ids.take(pa.array(order))
    first = np.ones(len(ordered), dtype=bool)
    if len(ordered) > 1:
        first[1:] = pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    row = order[first].astype(np.int64)
    taken = pa.array(row)
    source_column = _column(table, "source", pa.string()).take(taken)
    source = _codes(source_column)
    document = _codes(_column(table, "doc_id", pa.string()).take(taken))
    batch = _column(table, "batch", pa.string()).take(taken)
    days = _column(table, "ingestion_date", pa.date32()).take(taken).cast(pa.int32())
    position = _column(table, "position", pa.int32()).take(taken)
    return Nodes(
        snapshot=snapshot,
        chunk_ids=ids.take(taken),
        row=row,
        source=source,
        sources=sorted(name for name in pc.unique(source_column).to_pylist() if name is not None),
        # One doc_id in two sources is two documents.
        document=np.where(document < 0, -1, document * (int(source.max(initial=-1)) + 2) + source + 1),
        role=_role_codes(batch, roles or {}),
        date=days.fill_null(_NO_DATE).to_numpy(zero_copy_only=False),
        position=position.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64),
        usable=usable[row],
        asked=asked,
    )


def _column(table: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    if name not in table.column_names:
        return pa.nulls(len(table), type=kind)
    column = table[name].cast(kind)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=kind)


def _codes(values: pa.Array) -> np.ndarray:
    """Codes 0.. of the values in ascending order, -1 for null."""
    encoded = values.dictionary_encode()
    rank = np.empty(len(encoded.dictionary), dtype=np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(indices < 0, -1, rank[indices] if len(rank) else -1)


def _role_codes(batch: pa.Array, roles: Mapping[str, str]) -> np.ndarray:
    names = sorted(set(roles.values()))
    encoded = batch.dictionary_encode()
    code = {name: number for number, name in enumerate(names)}
    known = np.array([code.get(roles.get(key, ""), -1) for key in encoded.dictionary.to_pylist()], dtype=np.int64)
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(indices < 0, -1, known[indices] if len(known) else -1)
