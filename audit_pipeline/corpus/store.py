"""The source store of an audit: its batches, and the validated rows of one or of all. Formats are in readers.py."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import display_source, parse_batch_key, slug, slugs_of
from audit_pipeline.corpus.columns import RAW, Seen
from audit_pipeline.corpus.dates import UTC
from audit_pipeline.corpus.docstrings import read_docstrings
from audit_pipeline.corpus.files import find_files
from audit_pipeline.corpus.lance_tables import read_lance, refuse_audited_table
from audit_pipeline.corpus.readers import read_file
from audit_pipeline.corpus.validation import Validated, validate
from audit_pipeline.errors import AuditInputError
from audit_pipeline.results import Progress, no_progress
from audit_pipeline.schemas import CHUNKS
from audit_pipeline.source_settings import SourceSettings


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
        return _unread_for(self.unread, source_slug)


@dataclass(frozen=True)
class StoreRows:
    """``chunks`` (schemas.CHUNKS, n_tokens null) sorted by chunk_id; ``rejected`` (schemas.REJECTED_CHUNKS)."""

    chunks: pa.Table
    rejected: pa.Table


class SourceStore:
    """What should be in the index, held as Arrow from one scan to the next: about twice the bytes of the texts."""

    def __init__(
        self, settings: IndexAuditSettings, *, today: dt.date, start_date: dt.date | None, index_uri: str | None = None
    ) -> None:
        """``index_uri`` is where the audited table lies if the settings leave that to the state folder."""
        self._settings = settings
        self._index_uri = settings.index.uri or index_uri
        self._today = today
        self._start_date = start_date
        self._validated: Validated | None = None
        self._unread: dict[str, AuditInputError] = {}
        self._slices: tuple[dict[str, slice], dict[str, slice]] = ({}, {})

    def scan(self, progress: Progress = no_progress, *, partial: bool = False) -> StoreScan:
        """All batches with their content hashes, read anew; ``read_batch`` and ``read_all`` then give what it saw.

        Raises AuditInputError where a source cannot be read; a ``partial`` scan goes on with the others.
        """
        self._validated = None
        rows = self._load(progress)
        if not partial:
            self._refuse_unread()
        chunk_slices, rejected_slices = self._slices
        named = [source.name for source in self._settings.sources if source.name != "*"]
        slugs = slugs_of([*named, *_distinct(rows.chunks["source"]), *self._rejected_sources(rows)])
        batches: dict[str, BatchInfo] = {}
        for key in sorted(chunk_slices.keys() | rejected_slices.keys()):
            batch = self._batch(rows, key)
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
        return StoreScan(batches, pc.min(rows.chunks["ingestion_date"]).as_py(), slugs, unplaced, dict(self._unread))

    def read_batch(self, key: str) -> StoreRows:
        """The rows of one cell, empty tables where it holds nothing; consistent with ``scan``.

        Raises AuditInputError where its source cannot be read, whatever is wrong with the others.
        """
        _, source_slug = parse_batch_key(key)
        rows = self._load(no_progress)
        error = _unread_for(self._unread, source_slug)
        if error is not None:
            raise error
        return self._batch(rows, key)

    def read_all(self, progress: Progress = no_progress) -> StoreRows:
        """Every row of the store, sorted by chunk_id; rejected rows without a batch too. Raises AuditInputError."""
        rows = self._load(progress)
        self._refuse_unread()
        return StoreRows(rows.chunks.sort_by("chunk_id"), rows.rejected)

    def unplaced(self) -> pa.Table:
        """Rejected rows (schemas.REJECTED_CHUNKS) that belong to no batch, since their date cannot be used."""
        rejected = self._load(no_progress).rejected
        return rejected.filter(rejected["batch"].is_null())

    def _load(self, progress: Progress) -> Validated:
        if self._validated is None:
            raw = pa.concat_tables([RAW.empty_table(), *self._read(progress)])
            self._validated = validate(
                raw, grain=self._settings.ingestion_grain, today=self._today, start_date=self._start_date
            )
            self._slices = (_slices(self._validated.chunks["batch"]), _slices(self._validated.rejected["batch"]))
        return self._validated

    def _read(self, progress: Progress) -> list[pa.Table]:
        tables: list[pa.Table] = []
        sources = [entry for entry in self._settings.sources if not entry.retired]
        self._unread = {}
        for done, entry in enumerate(sources):
            progress("reading sources", done, len(sources))
            try:
                if self._index_uri is not None:
                    refuse_audited_table(entry, self._index_uri, self._settings.index)
                tables += read_entry(entry, self._settings.zone)
            except AuditInputError as error:
                self._unread[entry.name] = error
        progress("reading sources", len(sources), len(sources))
        return tables

    def _refuse_unread(self) -> None:
        for error in self._unread.values():
            raise error

    def _batch(self, rows: Validated, key: str) -> StoreRows:
        chunks, rejected = (slices.get(key, slice(0, 0)) for slices in self._slices)
        return StoreRows(
            rows.chunks.slice(chunks.start, chunks.stop - chunks.start),
            rows.rejected.slice(rejected.start, rejected.stop - rejected.start),
        )

    def _rejected_sources(self, rows: Validated) -> list[str | None]:
        return _distinct(rows.rejected.filter(pc.is_valid(rows.rejected["batch"]))["source"])


def read_entry(entry: SourceSettings, zone: ZoneInfo = UTC) -> list[pa.Table]:
    """The RAW rows of one entry of the source store, dated by the zone's days: those of its name, all for "*".

    Raises AuditInputError where the data cannot be read, or has rows of which none carries the entry's name: taken
    for an emptied source, that would delete its rows from a managed index.
    """
    if entry.format == "docstrings":
        return list(read_docstrings(entry, zone))
    blocks: list[pa.Table] = []
    others: set[str | None] = set()
    seen = Seen()
    for block in _blocks_of(entry, seen, zone):
        if entry.name != "*":
            others.update(block["source"].unique().to_pylist())
            block = block.filter(pc.fill_null(pc.equal(block["source"], entry.name), False))
        blocks.append(block)
    if seen.undated and "ingestion_date" in seen.fields and entry.ingestion_date is None:
        blocks = [_undated(block) if _origin(block) in seen.undated else block for block in blocks]
    for field, named in entry.columns.items() if blocks else ():
        if named is not None and field not in seen.fields:
            raise AuditInputError(
                f"source {entry.name!r}: no row of {entry.uri} has the column {named!r}{seen.hint(field)}: "
                f"correct columns: {{{field}: ...}}"
            )
    if others and entry.name not in others:
        values = sorted(repr(display_source(value)) for value in others)
        more = ", ..." if len(values) > 5 else ""
        raise AuditInputError(
            f"source {entry.name!r}: no row of {entry.uri} has this source but {', '.join(values[:5])}{more}: "
            "correct the name, or use '*' for all of them"
        )
    return blocks


def _blocks_of(entry: SourceSettings, seen: Seen, zone: ZoneInfo) -> Iterator[pa.Table]:
    if entry.format == "lance":
        yield from read_lance(entry, seen, zone)
        return
    for file in find_files(entry, zone):
        yield from read_file(entry, file, seen)


def _origin(block: pa.Table) -> str | None:
    """The file that all rows of a block are from; None without rows."""
    return block["origin"][0].as_py() if len(block) else None


def _undated(block: pa.Table) -> pa.Table:
    """The rows without a date: where a source's other files bring dates, the file's own says nothing of them."""
    n = len(block)
    filled = {
        "ingestion_date": pa.nulls(n, pa.date32()),
        "problem": pc.coalesce(block["problem"], pa.scalar("bad_date")),
        "detail": pc.coalesce(block["detail"], pa.scalar("the file has no dates, though others of its source do")),
    }
    return pa.table([filled.get(field.name, block[field.name]) for field in RAW], schema=RAW)


def _unread_for(unread: Mapping[str, AuditInputError], source_slug: str) -> AuditInputError | None:
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
