"""The source store of an audit: its batches, and the validated rows of one or of all. Formats are in readers.py."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import display_source, parse_batch_key
from audit_pipeline.corpus.columns import RAW, Seen
from audit_pipeline.corpus.dates import UTC
from audit_pipeline.corpus.docstrings import read_docstrings
from audit_pipeline.corpus.files import find_files
from audit_pipeline.corpus.kept_rows import DamagedError, KeptRows, code_digest, keep, only_writer, open_kept
from audit_pipeline.corpus.lance_tables import read_lance, refuse_audited_table
from audit_pipeline.corpus.readers import read_file
from audit_pipeline.corpus.reasons import BAD_DATE
from audit_pipeline.corpus.scans import HeldRows, StoreRows, StoreScan, content_hash, unread_for
from audit_pipeline.corpus.stamps import store_stamp
from audit_pipeline.corpus.validation import validate
from audit_pipeline.errors import AuditInputError, BatchInputError, reason_of
from audit_pipeline.results import Progress, no_progress
from audit_pipeline.schemas import CHUNKS, REJECTED_CHUNKS
from audit_pipeline.source_settings import SourceSettings

LOGGER = logging.getLogger("audit_pipeline")
T = TypeVar("T")
_NOTHING = content_hash(CHUNKS.empty_table(), REJECTED_CHUNKS.empty_table())


class SourceStore:
    """What should be in the index, as one look at the sources found it and until the next.

    With a ``file`` the validated rows are kept there, and read from there by every process that finds the sources'
    files as they were: their names, sizes and times, the settings, the day. Without one they are held in memory.
    """

    def __init__(
        self,
        settings: IndexAuditSettings,
        *,
        today: dt.date,
        start_date: dt.date | None,
        index_uri: str | None = None,
        file: Path | None = None,
    ) -> None:
        """``index_uri`` is where the audited table lies if the settings leave that to the state folder."""
        self._settings = settings
        self._index_uri = settings.index.uri or index_uri
        self._today = today
        self._start_date = start_date
        self._file = file
        self._rows: HeldRows | KeptRows | None = None
        self._key: str | None = None
        self._told: StoreScan | None = None  # what a scan said, where the rows had to be read after it

    @property
    def key(self) -> str | None:
        """What the rows of the last look depend on; None where that is not known: a file was written just now."""
        return self._key

    def scan(self, progress: Progress = no_progress, *, partial: bool = False, anew: bool = True) -> StoreScan:
        """All batches with their content hashes; ``read_batch`` and ``read_all`` then give what it saw.

        The sources are read, unless ``anew`` is false and their rows are kept and no file has changed. Raises
        AuditInputError where a source cannot be read; a ``partial`` scan goes on with the others.
        """
        self._rows = None
        self._rows = rows = self._look(progress, anew=anew)
        if not partial:
            _refuse_unread(rows)
        return rows.scan

    def read_batch(self, key: str) -> StoreRows:
        """The rows of one cell, empty tables where it holds nothing; consistent with ``scan``.

        Raises AuditInputError where its source cannot be read, whatever is wrong with the others.
        """
        _, source_slug = parse_batch_key(key)
        rows = self._load(no_progress)
        error = unread_for(rows.unread, source_slug)
        if error is not None:
            raise error
        found = self._read_from(rows, lambda some: some.batch(key))
        if self._told is not None:
            info = self._told.batches.get(key)
            told = (info.rows, info.rejected, info.content_hash) if info else (0, 0, _NOTHING)
            if told != (len(found.chunks), len(found.rejected), content_hash(found.chunks, found.rejected)):
                raise BatchInputError(
                    f"{self._settings.name}: the sources changed while batch {key} was read: run it again"
                )
        return found

    def read_all(self, progress: Progress = no_progress) -> StoreRows:
        """Every row of the store, sorted by chunk_id; rejected rows without a batch too. Raises AuditInputError."""
        rows = self._load(progress)
        _refuse_unread(rows)
        found = self._read_from(rows, lambda some: some.all(), progress)
        return StoreRows(found.chunks.sort_by("chunk_id"), found.rejected)

    def unplaced(self) -> pa.Table:
        """Rejected rows (schemas.REJECTED_CHUNKS) that belong to no batch, since their date cannot be used."""
        return self._read_from(self._load(no_progress), lambda some: some.unplaced())

    def _load(self, progress: Progress) -> HeldRows | KeptRows:
        if self._rows is None:
            self._rows = self._look(progress, anew=False)
        return self._rows

    def _look(self, progress: Progress, *, anew: bool) -> HeldRows | KeptRows:
        self._told = None
        self._key = self._key_now()
        if self._file is None or self._key is None:
            return self._read(progress)
        if not anew and (kept := self._kept(self._file, self._key)) is not None:
            return kept
        with only_writer(self._file, lambda: LOGGER.info("another process reads the sources: waiting for it")) as alone:
            # Many runs may begin at once on a store that has just changed: the first reads it for all of them.
            if not anew and (kept := self._kept(self._file, self._key)) is not None:
                return kept
            held = self._read(progress)
            if self._key_now() != self._key:  # files that changed meanwhile were read as they were, or as they are
                self._key = None
                return held
            return self._put_down(self._file, self._key, held) if alone else held

    def _put_down(self, file: Path, key: str, held: HeldRows) -> HeldRows | KeptRows:
        """The rows from the file where they could be kept there, so that memory holds them no longer."""
        try:
            keep(file, key, held)
        except AuditInputError:
            return held  # the scan says it
        except OSError as error:
            LOGGER.warning(
                "the rows of the sources cannot be kept in %s (%s): every run reads them anew", file, reason_of(error)
            )
            return held
        return open_kept(file, key, held.unread.get) or held

    def _kept(self, file: Path, key: str) -> KeptRows | None:
        return open_kept(file, key, self._error_of)

    def _error_of(self, name: str) -> AuditInputError | None:
        """Why an entry cannot be read now; None where it can."""
        try:
            for entry in self._settings.sources:
                if entry.name == name and not entry.retired:
                    self._read_entry(entry)
        except AuditInputError as error:
            return error
        return None

    def _key_now(self) -> str | None:
        stamp, code = store_stamp(self._settings, self._today), code_digest()
        if stamp is None or code is None:
            return None
        audited = [self._index_uri, self._settings.index.table]  # which is refused as a source
        return hashlib.sha256(json.dumps([stamp, str(self._start_date), audited, code]).encode()).hexdigest()

    def _read_from(
        self, rows: HeldRows | KeptRows, read: Callable[[HeldRows | KeptRows], T], progress: Progress = no_progress
    ) -> T:
        try:
            return read(rows)
        except DamagedError:
            LOGGER.warning("%s is damaged: the sources are read instead", self._file)
            if self._file is not None:
                self._file.unlink(missing_ok=True)
            self._told, self._key = rows.scan, None
            self._rows = self._read(progress)
            return read(self._rows)

    def _read(self, progress: Progress) -> HeldRows:
        tables: list[pa.Table] = [RAW.empty_table()]
        sources = [entry for entry in self._settings.sources if not entry.retired]
        unread: dict[str, AuditInputError] = {}
        for done, entry in enumerate(sources):
            progress("reading sources", done, len(sources))
            try:
                tables += self._read_entry(entry)
            except AuditInputError as error:
                unread[entry.name] = error
        progress("reading sources", len(sources), len(sources))
        validated = validate(
            pa.concat_tables(tables),
            grain=self._settings.ingestion_grain,
            today=self._today,
            start_date=self._start_date,
        )
        named = [source.name for source in self._settings.sources if source.name != "*"]
        return HeldRows(validated, named, unread)

    def _read_entry(self, entry: SourceSettings) -> list[pa.Table]:
        if self._index_uri is not None:
            refuse_audited_table(entry, self._index_uri, self._settings.index)
        return read_entry(entry, self._settings.zone)


def _refuse_unread(rows: HeldRows | KeptRows) -> None:
    for error in rows.unread.values():
        raise error


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
        "problem": pc.coalesce(block["problem"], pa.scalar(BAD_DATE)),
        "detail": pc.coalesce(block["detail"], pa.scalar("the file has no dates, though others of its source do")),
    }
    return pa.table([filled.get(field.name, block[field.name]) for field in RAW], schema=RAW)
