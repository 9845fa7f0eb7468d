"""MinHash signatures with the record of how they were made. Joining them into pairs does not belong here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.config import DuplicateSettings
from audit_pipeline.corpus.text import normalised_sha256
from audit_pipeline.duplicates.shingles import shingles
from audit_pipeline.errors import AuditInputError
from audit_pipeline.results import Progress, no_progress

PERMUTATION_SCHEME = "affine32"
SEED = 1
_METADATA_KEY = b"audit_pipeline.signature_scheme"
_BLOCK = 4096


@dataclass(frozen=True)
class SignatureScheme:
    """Everything that two signatures must share to be comparable; the digests themselves do not carry it."""

    library: str
    permutation_scheme: str
    seed: int
    hash_function: str
    permutations: int
    shingle_units: int
    shingling: str
    normaliser: str

    def as_metadata(self) -> dict[bytes, bytes]:
        return {_METADATA_KEY: json.dumps(asdict(self), sort_keys=True).encode()}


def scheme_of_settings(settings: DuplicateSettings) -> SignatureScheme:
    """The scheme that signatures made now would have."""
    return SignatureScheme(
        library=f"datasketch {version('datasketch')}",
        permutation_scheme=PERMUTATION_SCHEME,
        seed=SEED,
        hash_function="xxh32",
        permutations=settings.permutations,
        shingle_units=settings.shingle_words,
        shingling="words \\w+; word characters where a quarter is of a script without spaces",
        normaliser="NFC, casefold, white space folded",
    )


def scheme_of_table(signatures: pa.Table, where: str) -> SignatureScheme:
    """The scheme recorded with a signature table. Raises AuditInputError where none is recorded."""
    recorded = (signatures.schema.metadata or {}).get(_METADATA_KEY)
    if recorded is None:
        raise AuditInputError(
            f"{where}: the signatures carry no record of how they were made: materialise minhash_signatures again"
        )
    known = {field.name for field in fields(SignatureScheme)}
    return SignatureScheme(**{key: value for key, value in json.loads(recorded).items() if key in known})


def check_same_scheme(left: SignatureScheme, right: SignatureScheme, left_name: str, right_name: str) -> None:
    """Raises AuditInputError naming both sides where two schemes differ: their digests compare to nonsense."""
    for field in fields(SignatureScheme):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if one != other:
            raise AuditInputError(
                f"signatures of {left_name} have {field.name} {one!r}, those of {right_name} {other!r}, and cannot be "
                f"compared: materialise minhash_signatures of {left_name} again"
            )


def join_signatures(batches: Mapping[str, pa.Table], settings: DuplicateSettings) -> pa.Table:
    """The signatures of all batches in one table, in batch order. Raises AuditInputError where a scheme differs."""
    expected = scheme_of_settings(settings)
    tables = []
    for key in sorted(batches):
        check_same_scheme(scheme_of_table(batches[key], f"batch {key}"), expected, f"batch {key}", "these settings")
        tables.append(batches[key].replace_schema_metadata(None))
    joined = pa.concat_tables(tables) if tables else schemas.SIGNATURES.empty_table()
    return joined.replace_schema_metadata(expected.as_metadata())


def compute_signatures(chunks: pa.Table, settings: DuplicateSettings, progress: Progress = no_progress) -> pa.Table:
    """Signatures of the chunks, in their order (schemas.SIGNATURES, with its scheme as schema metadata).

    ``chunks`` needs chunk_id and text. The signature is datasketch's MinHash (Broder 1997) over the distinct
    shingles; texts that are equal once normalised are hashed once. Text without a word has no signature.
    """
    texts = chunks["text"]
    hashes = normalised_sha256(texts)
    if isinstance(hashes, pa.ChunkedArray):
        hashes = pa.concat_arrays(hashes.chunks) if hashes.num_chunks else pa.array([], type=pa.string())
    encoded = hashes.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    first = np.full(len(encoded.dictionary), -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    status, counts, signatures = _sign(texts.take(pa.array(first, type=pa.int64())), settings, progress)
    back = pa.array(codes, type=pa.int64())
    table = pa.Table.from_arrays(
        [
            pc.cast(chunks["chunk_id"], pa.string()),
            pc.cast(hashes, pa.string()),
            status.take(back),
            counts.take(back),
            signatures.take(back),
        ],
        schema=schemas.SIGNATURES,
    )
    return table.replace_schema_metadata(scheme_of_settings(settings).as_metadata())


def signature_matrix(signatures: pa.Array | pa.ChunkedArray, permutations: int) -> np.ndarray:
    """(n, permutations) uint32 of binary signatures without nulls."""
    if isinstance(signatures, pa.ChunkedArray):
        signatures = signatures.combine_chunks()
    if not len(signatures):
        return np.empty((0, permutations), dtype=np.uint32)
    fixed = pc.cast(signatures, pa.binary(4 * permutations))
    buffer = fixed.buffers()[1]
    start = fixed.offset * 4 * permutations
    values = np.frombuffer(buffer, dtype="<u4", offset=start, count=len(fixed) * permutations)
    return values.reshape(len(fixed), permutations)


def minhash_values(shingle_sets: list[set[str]], permutations: int) -> np.ndarray:
    """(n, permutations) uint32 MinHash values of non-empty shingle sets under the scheme of this module."""
    from datasketch import MinHash
    from xxhash import xxh32_intdigest

    values = np.empty((len(shingle_sets), permutations), dtype=np.uint32)
    sketches = MinHash.generator(
        ([one.encode() for one in found] for found in shingle_sets),
        num_perm=permutations,
        seed=SEED,
        scheme=PERMUTATION_SCHEME,
        hashfunc=xxh32_intdigest,
    )
    for number, sketch in enumerate(sketches):
        values[number] = sketch.hashvalues
    return values


def _sign(
    texts: pa.Array | pa.ChunkedArray, settings: DuplicateSettings, progress: Progress
) -> tuple[pa.Array, pa.Array, pa.Array]:
    status: list[str] = []
    counts = np.zeros(len(texts), dtype=np.int32)
    signatures: list[bytes | None] = [None] * len(texts)
    for start in range(0, len(texts), _BLOCK):
        sets, owners = [], []
        for number, text in enumerate(texts.slice(start, _BLOCK).to_pylist(), start=start):
            kind, found = shingles(text or "", settings.shingle_words)
            status.append(kind)
            counts[number] = len(found)
            if found:
                sets.append(found)
                owners.append(number)
        values = minhash_values(sets, settings.permutations).astype("<u4")
        for owner, value in zip(owners, values, strict=True):
            signatures[owner] = value.tobytes()
        progress("signatures", min(start + _BLOCK, len(texts)), len(texts))
    return pa.array(status, type=pa.string()), pa.array(counts), pa.array(signatures, type=pa.binary())
