"""Immutable segments of the vector store on disk: writing, opening, merging. What a key means is decided elsewhere."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

log = logging.getLogger(__name__)

KEY_BYTES = 32
KEY_TYPE = np.dtype(f"S{KEY_BYTES}")
_TEMPORARY = ".tmp-"
_ABANDONED_AFTER_SECONDS = 3600.0
_ROWS_PER_BLOCK = 16384


@dataclass(frozen=True)
class Segment:
    """Vectors of some keys: ``keys`` (n,) sorted, ``vectors`` (n, d) float32 memory map, ``sums`` (n,) uint64."""

    path: Path
    keys: np.ndarray
    vectors: np.ndarray
    sums: np.ndarray

    def read(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vectors (m, d) of the rows, and (m,) bool of those whose bytes are what was written."""
        vectors = np.asarray(self.vectors[rows])
        return vectors, row_sums(vectors) == self.sums[rows]


def row_sums(vectors: np.ndarray) -> np.ndarray:
    """Checksum of each row's bytes, (n,) uint64: finds lost pages and flipped bits, not malice.

    Fletcher's second sum, so that a row of zeros and swapped elements are told apart; the 1 added to every word
    keeps a lost page (all zero, sums included) from checking out.
    """
    words = np.ascontiguousarray(vectors, dtype=np.float32).view(np.uint32)
    weights = np.arange(1, words.shape[1] + 1, dtype=np.uint64)
    sums = np.empty(len(words), dtype=np.uint64)
    for start in range(0, len(words), _ROWS_PER_BLOCK):
        block = words[start : start + _ROWS_PER_BLOCK].astype(np.uint64) + 1
        sums[start : start + len(block)] = block @ weights
    return sums


def write_segment(folder: Path, keys: np.ndarray, vectors: np.ndarray) -> Path:
    """Write sorted ``keys`` (n,) with their ``vectors`` (n, d) float32 as one segment, all or nothing.

    The segment is named by its keys, so two processes that write the same texts write one segment: the first wins.
    """
    target = folder / f"seg-{hashlib.sha256(keys.tobytes()).hexdigest()[:32]}"
    if _is_intact(target, vectors.shape[1]):
        return target
    temporary = folder / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    temporary.mkdir(parents=True)
    try:
        _save(temporary / "keys.npy", keys.astype(KEY_TYPE))
        _save(temporary / "vectors.npy", np.ascontiguousarray(vectors, dtype=np.float32))
        _save(temporary / "sums.npy", row_sums(vectors))
        _put_in_place(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def count_segments(folder: Path) -> int:
    """Segments of the folder, damaged ones included, without a look into them."""
    return sum(1 for _ in folder.glob("seg-*"))


def open_segments(folder: Path, dimension: int) -> list[Segment]:
    """Every whole segment of the folder, by name; a damaged one is left out with a warning that names it."""
    if not folder.is_dir():
        return []
    segments = []
    for path in sorted(folder.glob("seg-*")):
        try:
            segments.append(_open(path, dimension))
        except FileNotFoundError:
            if path.is_dir():  # else another process has just merged it away
                log.warning("vector store: segment %s lacks a file and is ignored: delete it", path)
        except (OSError, ValueError, EOFError) as error:
            log.warning("vector store: segment %s is damaged and ignored (%s): delete it", path, error)
    return segments


def merge_segments(folder: Path, segments: list[Segment]) -> Path | None:
    """One segment with the rows of all; the merged ones are removed after it stands. None with under two segments.

    Of rows with one key the first segment's stays, which is the row that a look-up over the segments also takes.
    Rows whose checksum fails are left out. Memory stays bounded: the vectors are copied in blocks.
    """
    if len(segments) < 2:
        return None
    keys = np.concatenate([segment.keys for segment in segments])
    owners = np.repeat(np.arange(len(segments)), [len(segment.keys) for segment in segments])
    rows = np.concatenate([np.arange(len(segment.keys)) for segment in segments])
    order = np.argsort(keys, kind="stable")
    first = np.ones(len(order), dtype=bool)
    first[1:] = keys[order][1:] != keys[order][:-1]
    order = order[first]
    temporary = folder / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    temporary.mkdir(parents=True)
    try:
        dimension = segments[0].vectors.shape[1]
        vectors = np.lib.format.open_memmap(
            temporary / "vectors.npy", mode="w+", dtype=np.float32, shape=(len(order), dimension)
        )
        whole = np.ones(len(order), dtype=bool)
        for start in range(0, len(order), _ROWS_PER_BLOCK):
            block = order[start : start + _ROWS_PER_BLOCK]
            for owner in np.unique(owners[block]):
                of_owner = owners[block] == owner
                values, intact = segments[owner].read(rows[block][of_owner])
                where = start + np.flatnonzero(of_owner)
                vectors[where] = values
                whole[where] = intact
        vectors.flush()
        if not whole.all():
            return _merge_intact(folder, keys[order][whole], np.asarray(vectors[whole]), segments)
        target = folder / f"seg-{hashlib.sha256(keys[order].tobytes()).hexdigest()[:32]}"
        _save(temporary / "keys.npy", keys[order])
        _save(temporary / "sums.npy", row_sums(vectors))
        _sync(temporary / "vectors.npy")
        del vectors
        if not _is_intact(target, dimension):
            _put_in_place(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _remove(segments, except_for=target)
    return target


def remove_abandoned(folder: Path) -> None:
    """Delete what killed processes left half-written, once it is too old to be still in the making."""
    for path in folder.glob(f"{_TEMPORARY}*"):
        try:
            if time.time() - path.stat().st_mtime > _ABANDONED_AFTER_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        except FileNotFoundError:
            continue


def write_json(path: Path, value: dict[str, object]) -> None:
    """Write a small JSON file atomically."""
    temporary = path.parent / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    temporary.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(path)


def _open(path: Path, dimension: int) -> Segment:
    keys = np.load(path / "keys.npy")
    vectors = np.load(path / "vectors.npy", mmap_mode="r")
    sums = np.load(path / "sums.npy")
    if keys.dtype != KEY_TYPE or vectors.dtype != np.float32 or sums.dtype != np.uint64:
        raise ValueError("its arrays have other types")
    if vectors.shape != (len(keys), dimension) or sums.shape != keys.shape:
        raise ValueError(f"{len(keys)} keys, {len(sums)} sums, vectors of shape {vectors.shape}")
    if not np.all(keys[1:] > keys[:-1]):
        raise ValueError("its keys are not in order")
    return Segment(path, keys, vectors, sums)


def _merge_intact(folder: Path, keys: np.ndarray, vectors: np.ndarray, segments: list[Segment]) -> Path:
    target = write_segment(folder, keys, vectors)
    _remove(segments, except_for=target)
    return target


def _remove(segments: list[Segment], except_for: Path) -> None:
    for segment in segments:
        if segment.path != except_for:
            shutil.rmtree(segment.path, ignore_errors=True)


def _save(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, array)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _is_intact(path: Path, dimension: int) -> bool:
    if not path.is_dir():
        return False
    try:
        segment = _open(path, dimension)
    except (OSError, ValueError, EOFError):
        return False
    return bool(np.array_equal(row_sums(segment.vectors), segment.sums))


def _put_in_place(temporary: Path, target: Path) -> None:
    """Rename a finished segment to its name; a damaged one that stands there makes way."""
    if target.is_dir():
        aside = temporary.with_name(f"{temporary.name}-damaged")
        target.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    try:
        temporary.rename(target)
    except OSError:
        if not target.is_dir():  # else another process has just written the same texts: its segment stands
            raise
