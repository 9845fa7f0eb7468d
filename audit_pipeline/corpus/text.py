"""Hashes, normal form and word counts of texts. What the texts mean, or how they are split, belongs elsewhere."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import one_array
from audit_pipeline.errors import AuditInputError

_WORD = re.compile(r"\w+")
# RE2's own \w is ASCII only; letters, numbers and the underscore are what \w means to Python.
_WORD_RE2 = r"[\p{L}\p{N}_]+"
# White space to Unicode, control and format characters (zero-width space and joiners, byte order mark, soft hyphen).
_BLANK_RE2 = r"^[\p{Z}\p{Cc}\p{Cf}]*$"


def normalise(text: str) -> str:
    """The text in NFC, case-folded, with every run of white space as one space and none at the ends."""
    folded = unicodedata.normalize("NFC", text).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())


def refuse_lone_surrogates(record: Any, where: str) -> None:
    r"""Raise AuditInputError where a string of a JSON record is no Unicode text: an escape such as \ud800 by itself."""
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise AuditInputError(
            f"{where} holds half a surrogate pair, which is no character: write the text as valid Unicode"
        ) from error


def is_blank(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """(n,) bool: texts of which neither a reader nor an encoder sees a character; null stays null."""
    return one_array(pc.match_substring_regex(texts, pattern=_BLANK_RE2))


def words(text: str) -> list[str]:
    r"""The runs of ``\w`` in the text, in order."""
    return _WORD.findall(text)


def count_words(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    r"""Number of ``\w+`` runs of each text, (n,) int32; null stays null."""
    return one_array(pc.count_substring_regex(texts, pattern=_WORD_RE2).cast(pa.int32()))


def sha256_hex(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """SHA-256 of the raw UTF-8 bytes of each text, (n,) string of 64 hex digits; null stays null."""
    digests = [hashlib.sha256(raw).hexdigest() for raw in _raw_bytes(texts)]
    return _with_nulls(digests, texts)


def normalised_sha256(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """SHA-256 of the normal form of each text (see ``normalise``), (n,) string; null stays null."""
    digests = [hashlib.sha256(normalise(text).encode()).hexdigest() for text in _strings(texts)]
    return _with_nulls(digests, texts)


def _raw_bytes(texts: pa.Array | pa.ChunkedArray) -> Iterator[memoryview]:
    """Each text's bytes as a view into the Arrow buffer: hashing needs no Python string. A null gives b''."""
    for chunk in _chunks(texts):
        array = chunk.cast(pa.large_string())
        _, offsets_buffer, data = array.buffers()
        offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1].tolist()
        view = memoryview(data) if data is not None else memoryview(b"")
        yield from (view[start:end] for start, end in itertools.pairwise(offsets))


def _strings(texts: pa.Array | pa.ChunkedArray) -> Iterable[str]:
    for chunk in _chunks(texts):
        yield from (text or "" for text in chunk.to_pylist())


def _chunks(texts: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    return [chunk for chunk in chunks if len(chunk)]


def _with_nulls(values: list[str], texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = pa.array(values, pa.string())
    if texts.null_count == 0:
        return array
    return pc.if_else(one_array(texts.is_valid()), array, pa.scalar(None, pa.string()))
