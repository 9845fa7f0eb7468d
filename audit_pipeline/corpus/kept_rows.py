"""The validated rows of a store in one file, from which a process reads the batches it needs. None is judged here.

The file is blocks of rows, an index of them, and a trailer. A block is an Arrow record batch of one batch of the store,
compressed; the index names each block's place and SHA-256. Nothing of a block is parsed before its digest is right: a
file that was cut, overwritten or half written is found out, never read as other rows.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout

import audit_pipeline.schemas
from audit_pipeline.corpus.scans import BatchInfo, HeldRows, StoreRows, StoreScan
from audit_pipeline.errors import AuditInputError, reason_of
from audit_pipeline.schemas import CHUNKS, REJECTED_CHUNKS
from audit_pipeline.state import replacing

LOGGER = logging.getLogger(__name__)

_MAGIC = b"rowskept"
_SIZES = struct.Struct("<qq")  # bytes of the index, and of the index uncompressed
_TRAILER = struct.Struct(f"{_SIZES.size}s32s8s")  # the sizes, SHA-256 of index and sizes, magic
_BLOCK_ROWS = 65_536
_CODEC = "zstd"
_LEVEL = 1  # a third of level 3's time for a tenth more bytes
_PATIENCE_SECONDS = 600.0
_READERS = ("pyarrow", "lancedb", "markdown-it-py", "pyyaml")


class DamagedError(Exception):
    """A block of the file is not as it was written."""


class KeptRows:
    """The rows of a store in a file, read block by block: what was opened stays so when the file is replaced."""

    def __init__(self, file: pa.NativeFile, index: Mapping[str, Any], unread: Mapping[str, AuditInputError]) -> None:
        self._file, self._index = file, index
        self.unread = dict(unread)
        infos = [BatchInfo(**{**one, "period": dt.date.fromisoformat(one["period"])}) for one in index["batches"]]
        earliest = dt.date.fromisoformat(index["earliest"]) if index["earliest"] else None
        batches = {info.key: info for info in infos}
        self.scan = StoreScan(batches, earliest, index["slugs"], index["unplaced"], self.unread)

    def batch(self, key: str) -> StoreRows:
        """The rows of one batch, empty tables where it holds nothing. Raises DamagedError."""
        return StoreRows(self._table(CHUNKS, "chunks", key), self._table(REJECTED_CHUNKS, "rejected", key))

    def all(self) -> StoreRows:
        """Every row by batch, chunks by id in each; rejected rows without a batch are the last. Raises DamagedError."""
        return StoreRows(
            self._table(CHUNKS, "chunks", *self.scan.batches),
            self._table(REJECTED_CHUNKS, "rejected", *self.scan.batches, ""),
        )

    def unplaced(self) -> pa.Table:
        """Rejected rows that belong to no batch. Raises DamagedError."""
        return self._table(REJECTED_CHUNKS, "rejected", "")

    def _table(self, schema: pa.Schema, kind: str, *keys: str) -> pa.Table:
        places = self._index[kind]
        return pa.Table.from_batches([self._block(schema, *p) for key in keys for p in places.get(key, ())], schema)

    def _block(self, schema: pa.Schema, offset: int, size: int, whole: int, digest: str) -> pa.RecordBatch:
        try:
            stored = self._file.read_at(size, offset)
        except OSError as error:
            raise DamagedError from error
        if hashlib.sha256(stored).hexdigest() != digest:
            raise DamagedError
        return pa.ipc.read_record_batch(pa.decompress(stored, whole, codec=_CODEC), schema)


def open_kept(
    path: Path, key: str, still_unread: Callable[[str], AuditInputError | None] | None = None
) -> KeptRows | None:
    """The rows that were kept under ``key``; None where there are none, or others, or the file's index is damaged.

    ``still_unread`` is asked for the error of each entry that could not be read then: where one can be read now, the
    rows are not all there are, and None is returned.
    """
    try:
        file = pa.OSFile(str(path))
        index = _read_index(file)
    except (OSError, pa.ArrowException):
        return None
    if index is None or index["key"] != key:
        return None
    unread: dict[str, AuditInputError] = {}
    for name in index["unread"]:
        error = still_unread(name) if still_unread is not None else None
        if error is None:
            return None
        unread[name] = error
    return KeptRows(file, index, unread)


def keep(path: Path, key: str, rows: HeldRows) -> None:
    """Write the rows under ``key`` in place of whatever was kept before, atomically; call it as the only writer.

    Raises AuditInputError where two sources share a slug, OSError where the file cannot be written.
    """
    scan = rows.scan
    for left in path.parent.glob(f".{path.name}.*"):  # a writer that was killed
        left.unlink(missing_ok=True)
    with replacing(path) as temporary, pa.OSFile(str(temporary), "wb") as file:
        batches = {batch: rows.batch(batch) for batch in scan.batches}
        chunks = {batch: _write(file, one.chunks) for batch, one in batches.items() if len(one.chunks)}
        rejected = {batch: _write(file, one.rejected) for batch, one in batches.items() if len(one.rejected)}
        index = {
            "key": key,
            "earliest": scan.earliest.isoformat() if scan.earliest else None,
            "slugs": scan.slugs,
            "unplaced": scan.unplaced,
            "unread": sorted(scan.unread),
            "batches": [{**asdict(info), "period": info.period.isoformat()} for info in scan.batches.values()],
            "chunks": chunks,
            "rejected": {**rejected, "": _write(file, rows.unplaced())},  # no batch has an empty key
        }
        written = json.dumps(index).encode()
        stored = _compress(written)
        file.write(stored)
        sizes = _SIZES.pack(len(stored), len(written))
        file.write(_TRAILER.pack(sizes, hashlib.sha256(stored + sizes).digest(), _MAGIC))


@contextmanager
def only_writer(path: Path, waiting: Callable[[], None], patience: float = _PATIENCE_SECONDS) -> Iterator[bool]:
    """Holds the lock of ``path``; ``waiting`` is called where another process has it, and is then waited for.

    False, and no lock, where it does not come free in ``patience`` seconds, or the file system knows no locks.
    """
    held = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_suffix(".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waiting()
            lock.acquire(timeout=patience)
        held = True
    except Timeout:
        LOGGER.info("%s is not given back: the sources are read without it", path.with_suffix(".lock"))
    except (OSError, NotImplementedError) as error:  # a file system that knows no locks
        LOGGER.info(
            "%s cannot be held (%s): the sources are read without it, by each run for itself",
            path.with_suffix(".lock"),
            reason_of(error),
        )
    try:
        yield held
    finally:
        if held:
            lock.release()


@cache
def code_digest() -> str | None:
    """A digest of the code and libraries that make rows of files: rows that others made are not taken for theirs.

    None where the code cannot be seen (an installation of compiled modules only).
    """
    modules = [*sorted(Path(__file__).parent.glob("*.py")), Path(audit_pipeline.schemas.__file__)]
    try:
        code = [hashlib.sha256(module.read_bytes()).hexdigest() for module in modules]
    except OSError:
        return None
    libraries = [metadata.version(name) for name in _READERS]
    return hashlib.sha256(json.dumps([code, libraries, sys.version]).encode()).hexdigest()


def _read_index(file: pa.NativeFile) -> dict[str, Any] | None:
    size = file.size()
    end = size - _TRAILER.size
    if end < 0:
        return None
    sizes, digest, magic = _TRAILER.unpack(file.read_at(_TRAILER.size, end))
    stored, whole = _SIZES.unpack(sizes)
    if magic != _MAGIC or not 0 <= stored <= end:
        return None
    index = file.read_at(stored, end - stored)
    if hashlib.sha256(index + sizes).digest() != digest:
        return None
    found: dict[str, Any] = json.loads(pa.decompress(index, whole, codec=_CODEC, asbytes=True))
    return found


def _write(file: pa.NativeFile, table: pa.Table) -> list[tuple[int, int, int, str]]:
    """Append a table's rows as blocks: (offset, bytes, bytes uncompressed, SHA-256) of each."""
    blocks = []
    for batch in table.to_batches(max_chunksize=_BLOCK_ROWS):
        whole = batch.serialize()
        stored = _compress(whole)
        blocks.append((file.tell(), len(stored), whole.size, hashlib.sha256(stored).hexdigest()))
        file.write(stored)
    return blocks


def _compress(data: pa.Buffer | bytes) -> bytes:
    return pa.Codec(_CODEC, _LEVEL).compress(data, asbytes=True)
