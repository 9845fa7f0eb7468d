"""The content-addressed vector store: each text is encoded once for all audits. Which texts is decided elsewhere."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from audit_pipeline.arms import split_arm
from audit_pipeline.encoder.protocol import Encoder, EncoderIdentity
from audit_pipeline.encoder.segments import (
    KEY_BYTES,
    KEY_TYPE,
    Segment,
    count_segments,
    merge_segments,
    open_segments,
    remove_abandoned,
    write_json,
    write_segment,
)
from audit_pipeline.results import Progress, no_progress

log = logging.getLogger(__name__)

BLOCK_TEXTS = 512
"""Distinct texts encoded and committed at once: the most that a killed run has to encode again."""
MOST_SEGMENTS = 32

Texts: TypeAlias = pa.Array | pa.ChunkedArray | list[str]


@dataclass(frozen=True)
class Encoded:
    """``vectors`` (n, d) float32 aligned to the texts asked for, and how many distinct texts were new or stored."""

    vectors: np.ndarray
    encoded: int  # distinct texts encoded now
    tokens: int  # tokens the model read for them
    from_cache: int  # distinct texts found in the store


@dataclass(frozen=True)
class Pending:
    """What a call would cost: distinct texts, and those of them that are not stored yet."""

    distinct: int
    missing: int
    tokens: int


class VectorStore:
    """Vectors under ``root``, one folder per encoder identity; safe with several processes.

    ``texts_encoded`` and ``tokens_encoded`` count what this object has encoded so far.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts_encoded = 0
        self.tokens_encoded = 0

    def folder_of(self, identity: EncoderIdentity) -> Path:
        """The folder of one encoder: a readable name and the hash of what decides its vectors."""
        readable = re.sub(r"[^a-z0-9]+", "-", identity.model.lower()).strip("-")[:40]
        return self._known_folder(identity.cache_key) or self.root / f"{readable}--{_short(identity.cache_key)}"

    def get_or_encode(self, encoder: Encoder, prompt: str, texts: Texts, progress: Progress = no_progress) -> Encoded:
        """Vectors of ``prompt + text`` for each text; what is not stored yet is encoded and stored.

        The distinct texts of the call, sorted by hash, are cut into blocks of ``BLOCK_TEXTS``; each block is encoded
        and committed by itself. A call that is killed and made again therefore meets the same blocks and gives the
        same bytes (the same text in another batch differs in its last digits).
        """
        if encoder.is_remote:
            encoder.check_budget(self.pending(encoder, prompt, texts).tokens)  # before anything is sent
        identity = encoder.identity
        folder = self.folder_of(identity)
        keys = text_keys(texts, prompt, apart=encoder.excludes_prompt)
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        segments = open_segments(folder, identity.dimension)
        vectors = np.empty((len(distinct), identity.dimension), dtype=np.float32)
        missing = ~_fill(vectors, distinct, segments)
        new = int(missing.sum())
        tokens = 0
        if new:
            self._describe(folder, identity)
            tokens = self._encode_blocks(encoder, prompt, texts, distinct, first, missing, vectors, folder, progress)
            self._tidy(folder, identity.dimension)
            self.texts_encoded += new
            self.tokens_encoded += tokens
        return Encoded(vectors[inverse.ravel()], new, tokens, len(distinct) - new)

    def pending(self, encoder: Encoder, prompt: str, texts: Texts) -> Pending:
        """What ``get_or_encode`` would encode, without encoding or sending anything."""
        keys, first = np.unique(text_keys(texts, prompt, apart=encoder.excludes_prompt), return_index=True)
        stored = np.zeros(len(keys), dtype=bool)
        folder = self._known_folder(encoder.cache_key)
        if folder is not None:
            # A server's dimension is not known before it has answered once; then it stands beside the vectors.
            dimension = _dimension_of(folder) or encoder.dimension
            for segment in open_segments(folder, dimension):
                stored |= _rows_in(segment.keys, keys) >= 0
        wanted = _take(texts, first[~stored])
        return Pending(len(keys), int((~stored).sum()), _tokens_read(encoder, prompt, wanted))

    def _encode_blocks(
        self,
        encoder: Encoder,
        prompt: str,
        texts: Texts,
        distinct: np.ndarray,
        first: np.ndarray,
        missing: np.ndarray,
        vectors: np.ndarray,
        folder: Path,
        progress: Progress,
    ) -> int:
        total, done, tokens = int(missing.sum()), 0, 0
        for start in range(0, len(distinct), BLOCK_TEXTS):
            rows = start + np.flatnonzero(missing[start : start + BLOCK_TEXTS])
            if not len(rows):
                continue
            block = _take(texts, first[rows])
            fresh = encoder.encode(block, prompt=prompt)
            write_segment(folder, distinct[rows], fresh)
            vectors[rows] = fresh
            tokens += _tokens_read(encoder, prompt, block)
            done += len(rows)
            progress("encoding", done, total)
        return tokens

    def _known_folder(self, cache_key: str) -> Path | None:
        """The folder that holds an encoder's vectors, also where they were made under another name."""
        return next(iter(sorted(self.root.glob(f"*--{_short(cache_key)}"))), None)

    def _describe(self, folder: Path, identity: EncoderIdentity) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder)
        write_json(folder / "encoder.json", {**asdict(identity), "key": "sha256(prompt + text)"})

    def _tidy(self, folder: Path, dimension: int) -> None:
        """Merge the segments once there are many, so that opening the store stays cheap."""
        if count_segments(folder) > MOST_SEGMENTS:
            segments = open_segments(folder, dimension)
            if len(segments) > MOST_SEGMENTS:
                merge_segments(folder, segments)


def text_keys(texts: Texts, prompt: str, *, apart: bool = False) -> np.ndarray:
    """sha256 of ``prompt + text`` for each text, (n,) of ``KEY_TYPE``; a null text counts as empty.

    ``apart`` keeps the boundary in the key, for models that treat the prompt's tokens otherwise than the text's.
    """
    prefix = prompt.encode()
    base = hashlib.sha256(len(prefix).to_bytes(8, "little") + prefix if apart else prefix)
    digests = bytearray(len(texts) * KEY_BYTES)
    at = 0
    for chunk in _chunks(texts):
        offsets, data = _string_buffers(chunk)
        for begin, end in itertools.pairwise(offsets):
            digest = base.copy()
            digest.update(data[begin:end])
            digests[at : at + KEY_BYTES] = digest.digest()
            at += KEY_BYTES
    return np.frombuffer(bytes(digests), dtype=KEY_TYPE)


def _chunks(texts: Texts) -> list[pa.Array]:
    if isinstance(texts, list):
        return [pa.array(texts, pa.large_string())]
    return texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]


def _string_buffers(array: pa.Array) -> tuple[list[int], memoryview]:
    """Offsets and bytes of a string array, read in place: no Python string is made for a text."""
    array = array.cast(pa.large_string()).fill_null("")
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    return bounds.tolist(), memoryview(data) if data is not None else memoryview(b"")


def _take(texts: Texts, rows: np.ndarray) -> list[str]:
    if isinstance(texts, list):
        return [texts[row] or "" for row in rows]
    return [text or "" for text in texts.take(pa.array(rows)).to_pylist()]


def _fill(vectors: np.ndarray, keys: np.ndarray, segments: list[Segment]) -> np.ndarray:
    """Copy stored vectors of sorted distinct ``keys`` into ``vectors``; (n,) bool of those found whole."""
    found = np.zeros(len(keys), dtype=bool)
    for segment in segments:
        rows = _rows_in(segment.keys, keys)
        wanted = np.flatnonzero((rows >= 0) & ~found)
        for start in range(0, len(wanted), 1 << 15):
            part = wanted[start : start + (1 << 15)]
            values, whole = segment.read(rows[part])
            if not whole.all():
                _warn_of_damage(segment, int((~whole).sum()))
            vectors[part[whole]] = values[whole]
            found[part[whole]] = True
    return found


def _rows_in(stored: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Row of each key among the sorted stored keys, -1 where absent, (n,) int64."""
    if not len(stored):
        return np.full(len(keys), -1, dtype=np.int64)
    rows = np.minimum(np.searchsorted(stored, keys), len(stored) - 1)
    return np.where(stored[rows] == keys, rows, -1)


def _warn_of_damage(segment: Segment, rows: int) -> None:
    log.warning(
        "vector store: %d rows of segment %s are damaged and ignored; their texts are encoded again", rows, segment.path
    )


def _tokens_read(encoder: Encoder, prompt: str, texts: list[str]) -> int:
    if not texts:
        return 0
    shown, _ = split_arm(prompt)
    counts = encoder.count_tokens(pa.array([shown + text for text in texts], pa.large_string()))
    return int(np.minimum(counts, encoder.max_tokens or np.iinfo(np.int32).max).sum(dtype=np.int64))


def _dimension_of(folder: Path) -> int | None:
    """The dimension that stands beside an encoder's vectors; None where that file is damaged."""
    try:
        return int(json.loads((folder / "encoder.json").read_text(encoding="utf-8"))["dimension"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _short(cache_key: str) -> str:
    return hashlib.sha256(cache_key.encode()).hexdigest()[:16]
