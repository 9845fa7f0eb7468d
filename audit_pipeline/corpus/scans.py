"""What a source store holds, batch by batch: rows, counts, content hashes. Its files are read in store.py."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.batches import parse_batch_key, slug, slugs_of
from audit_pipeline.corpus.validation import Validated
from audit_pipeline.errors import AuditInputError
from audit_pipeline.schemas import CHUNKS


@dataclass(frozen=True)
class BatchInfo:
    """One batch as it stands in the store.

    ``content_hash`` covers every chunk field and every rejected row and does not depend on the order of rows or on
    how they are spread over files.
    """

    key: str
    source: str | None
    slug: str
    period: dt.date
    rows: int
    rejected: int
    content_hash: str


@dataclass(frozen=True)
class StoreScan:
    """Every batch of the store by key. ``earliest`` is the first row's own date (not the period's first day);
    ``unplaced`` counts rejected rows that belong to no batch because their date cannot be used. ``unread`` has the
    entries that could not be read, by name, in a scan that goes on without them: of their batches nothing is known.
    """

    batches: dict[str, BatchInfo]
    earliest: dt.date | None
    slugs: dict[str, str | None]
    unplaced: int = 0
    unread: dict[str, AuditInputError] = dataclasses.field(default_factory=dict)

    def unread_for(self, source_slug: str) -> AuditInputError | None:
        """Why the rows of a source are not all known; None where they are."""
        return unread_for(self.unread, source_slug)


@dataclass(frozen=True)
class StoreRows:
    """``chunks`` (schemas.CHUNKS, n_tokens null) sorted by chunk_id; ``rejected`` (schemas.REJECTED_CHUNKS)."""

    chunks: pa.Table
    rejected: pa.Table


class HeldRows:
    """The validated rows of a whole store in memory, about twice the bytes of the texts."""

    def __init__(
        self, validated: Validated, named: Iterable[str], unread: Mapping[str, AuditInputError] | None = None
    ) -> None:
        """``named`` are the sources that the settings name, ``unread`` the entries that could not be read."""
        self._rows = validated
        self._named = list(named)
        self.unread = dict(unread or {})
        self._chunks, self._rejected = _slices(validated.chunks["batch"]), _slices(validated.rejected["batch"])

    @cached_property
    def scan(self) -> StoreScan:
        """All batches with their content hashes. Raises AuditInputError where two sources share a slug."""
        rows, placed = self._rows, self._rows.rejected.filter(pc.is_valid(self._rows.rejected["batch"]))
        slugs = slugs_of([*self._named, *_distinct(rows.chunks["source"]), *_distinct(placed["source"])])
        batches: dict[str, BatchInfo] = {}
        for key in self.keys:
            batch = self.batch(key)
            period, source_slug = parse_batch_key(key)
            batches[key] = BatchInfo(
                key=key,
                source=slugs[source_slug],
                slug=source_slug,
                period=period,
                rows=len(batch.chunks),
                rejected=len(batch.rejected),
                content_hash=content_hash(batch.chunks, batch.rejected),
            )
        unplaced = rows.rejected["batch"].null_count
        return StoreScan(batches, pc.min(rows.chunks["ingestion_date"]).as_py(), slugs, unplaced, dict(self.unread))

    @property
    def keys(self) -> list[str]:
        """Every batch with a row, usable or not."""
        return sorted(self._chunks.keys() | self._rejected.keys())

    def batch(self, key: str) -> StoreRows:
        """The rows of one batch, empty tables where it holds nothing."""
        chunks, rejected = (slices.get(key, slice(0, 0)) for slices in (self._chunks, self._rejected))
        return StoreRows(
            self._rows.chunks.slice(chunks.start, chunks.stop - chunks.start),
            self._rows.rejected.slice(rejected.start, rejected.stop - rejected.start),
        )

    def all(self) -> StoreRows:
        """Every row by batch, chunks by id in each; rejected rows without a batch are the last."""
        return StoreRows(self._rows.chunks, self._rows.rejected)

    def unplaced(self) -> pa.Table:
        """Rejected rows that belong to no batch."""
        return self._rows.rejected.filter(self._rows.rejected["batch"].is_null())


def unread_for(unread: Mapping[str, AuditInputError], source_slug: str) -> AuditInputError | None:
    """The error of an entry that may hold rows of the source: its own, or one that takes every value found."""
    return next((error for name, error in unread.items() if name == "*" or slug(name) == source_slug), None)


def content_hash(chunks: pa.Table, rejected: pa.Table) -> str:
    """SHA-256 over a batch's chunk fields and rejected rows, whatever their order. Token counts are left out: they
    belong to the encoder.
    """
    digest = hashlib.sha256()
    fields = [name for name in CHUNKS.names if name not in ("text", "n_words", "n_tokens")]
    for table, names in ((chunks, fields), (rejected, ["chunk_id", "source", "batch", "reason", "text"])):
        ordered = table.select(names).combine_chunks().sort_by([(name, "ascending") for name in names])
        digest.update(len(ordered).to_bytes(8, "little"))
        for column in ordered.columns:
            _update(digest, column)
    return digest.hexdigest()


def _update(digest: hashlib._Hash, column: pa.ChunkedArray) -> None:
    """Validity, lengths and bytes of a column: no two different columns feed the digest alike."""
    strings = column.cast(pa.large_string()).combine_chunks()
    digest.update(strings.is_valid().to_numpy(zero_copy_only=False).tobytes())
    strings = strings.fill_null("")
    _, offsets_buffer, data = strings.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[strings.offset : strings.offset + len(strings) + 1]
    digest.update(np.diff(offsets).tobytes())
    if data is not None and len(offsets):
        digest.update(memoryview(data)[offsets[0] : offsets[-1]])


def _slices(batches: pa.ChunkedArray) -> dict[str, slice]:
    """Batch -> rows of a table sorted by batch (nulls last, in no slice)."""
    runs = pc.run_end_encode(batches.combine_chunks()) if len(batches) else None
    if runs is None:
        return {}
    ends = runs.run_ends.to_pylist()
    starts = [0, *ends[:-1]]
    keys = runs.values.to_pylist()
    return {key: slice(start, end) for key, start, end in zip(keys, starts, ends, strict=True) if key is not None}


def _distinct(values: pa.ChunkedArray) -> list[str | None]:
    return values.unique().to_pylist()
