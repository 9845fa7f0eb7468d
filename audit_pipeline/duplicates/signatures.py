"""MinHash signatures with the record of how they were made. Joining them into pairs does not belong here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from audit_pipeline import schemas
from audit_pipeline.corpus.text import normalised_sha256
from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.shingles import NO_SIGNATURE, shingles
from audit_pipeline.errors import AuditInputError
from audit_pipeline.plural import counted
from audit_pipeline.results import Progress, no_progress
from audit_pipeline.state import read_json, write_json, write_table

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
    known = {field.name for field in fields(SignatureScheme)}
    try:
        record = json.loads(recorded or b"{}")
        return SignatureScheme(**{key: value for key, value in record.items() if key in known})
    except (ValueError, TypeError, AttributeError):
        raise AuditInputError(
            f"{where}: the signatures carry no record of how they were made: materialise minhash_signatures again"
        ) from None


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
    """The signatures of all batches in one table, in batch order.

    Raises AuditInputError where a scheme differs or a signature has another length than its scheme says.
    """
    expected = scheme_of_settings(settings)
    tables = []
    for key in sorted(batches):
        check_same_scheme(scheme_of_table(batches[key], f"batch {key}"), expected, f"batch {key}", "these settings")
        _check_lengths(batches[key], settings.permutations, key)
        tables.append(batches[key].replace_schema_metadata(None))
    joined = pa.concat_tables(tables) if tables else schemas.SIGNATURES.empty_table()
    return joined.replace_schema_metadata(expected.as_metadata())


def write_signatures(path: Path, table: pa.Table) -> None:
    """Write the signatures of a batch, and beside them what read_signatures knows the file by."""
    record = path.with_suffix(".json")
    record.unlink(missing_ok=True)  # killed between the two, the file has no record rather than that of another
    write_table(path, table)
    write_json(record, {"rows": len(table), "sha256": _digest(path)})


def read_signatures(path: Path, key: str, columns: list[str] | None = None, rows: int | None = None) -> pa.Table:
    """The signatures of a batch of ``rows`` rows, or some of their columns, from the file that its ingest left.

    Raises AuditInputError naming the batch where the file is gone, is no Parquet, has other columns or another number
    of rows, or is not what write_signatures wrote. A file of before there was a record of that goes by its rows alone.
    """
    record = path.with_suffix(".json")
    try:
        if record.exists() and read_json(record)["sha256"] != _digest(path):
            raise AuditInputError(f"batch {key}: its signature file is not as its ingest wrote it: {_again(key)}")
        file = pq.ParquetFile(path)
        if not file.schema_arrow.remove_metadata().equals(schemas.SIGNATURES):
            names = ", ".join(file.schema_arrow.names)
            raise AuditInputError(f"batch {key}: its signature file has other columns ({names}): {_again(key)}")
        if rows is not None and file.metadata.num_rows != rows:
            held = counted(file.metadata.num_rows, "row")
            raise AuditInputError(f"batch {key}: its signature file has {held}, the batch {rows:,}: {_again(key)}")
        return file.read(columns=columns)
    except (OSError, pa.ArrowInvalid, ValueError, TypeError, KeyError) as error:
        told = str(error).splitlines()[0]
        raise AuditInputError(f"batch {key}: its signature file cannot be read ({told}): {_again(key)}") from None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def earlier_signatures(path: Path, settings: DuplicateSettings) -> pa.Table | None:
    """The signatures of an earlier run to take over; None where there are none or they were made otherwise.

    They only save time, so a file that cannot be used is as good as none.
    """
    try:
        table = read_signatures(path, "")
        if scheme_of_table(table, "") != scheme_of_settings(settings):
            return None
        _check_lengths(table, settings.permutations, "")
    except AuditInputError:
        return None
    return table


def _check_lengths(table: pa.Table, permutations: int, key: str) -> None:
    if "signature" not in table.column_names:
        return
    wrong = pc.sum(pc.not_equal(pc.binary_length(table["signature"]), 4 * permutations)).as_py()
    unsigned = pc.equal(table["status"], NO_SIGNATURE)
    wrong = (wrong or 0) + pc.sum(pc.not_equal(table["signature"].is_null(), unsigned)).as_py() if len(table) else 0
    if wrong:
        raise AuditInputError(
            f"batch {key}: {wrong} of its {len(table)} signatures are not the {4 * permutations} bytes of "
            f"{permutations} permutations: {_again(key)}"
        )


def _again(key: str) -> str:
    return f"materialise minhash_signatures of batch {key} again"


def compute_signatures(
    chunks: pa.Table,
    settings: DuplicateSettings,
    progress: Progress = no_progress,
    earlier: pa.Table | None = None,
) -> pa.Table:
    """Signatures of the chunks, in their order (schemas.SIGNATURES, with its scheme as schema metadata).

    ``chunks`` needs chunk_id and text. The signature is datasketch's MinHash (Broder 1997) over the distinct
    shingles; texts that are equal once normalised are hashed once, and not at all where ``earlier`` (of the same
    scheme: earlier_signatures) has their hash. Text without a word has no signature.
    """
    texts = chunks["text"]
    hashes = normalised_sha256(texts)
    if isinstance(hashes, pa.ChunkedArray):
        hashes = pa.concat_arrays(hashes.chunks) if hashes.num_chunks else pa.array([], type=pa.string())
    encoded = hashes.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    first = np.full(len(encoded.dictionary), -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    known = np.full(len(first), -1, dtype=np.int64)
    if earlier is not None:
        place = pc.index_in(encoded.dictionary, value_set=earlier["normalised_sha256"].combine_chunks())
        known = pc.fill_null(place, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    new = np.flatnonzero(known < 0)
    made = _sign(texts.take(pa.array(first[new], type=pa.int64())), settings, progress)
    if earlier is not None:
        # Each distinct text's place among those made now, then those taken over.
        taken = np.flatnonzero(known >= 0)
        progress("signatures taken over", len(taken), len(first))
        where = np.empty(len(first), dtype=np.int64)
        where[new], where[taken] = np.arange(len(new)), len(new) + np.arange(len(taken))
        old = earlier.select(["status", "n_shingles", "signature"]).take(pa.array(known[taken])).combine_chunks()
        made = tuple(pa.concat_arrays([one, *other.chunks]) for one, other in zip(made, old.columns, strict=True))
        codes = where[codes]
    status, counts, signatures = made
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
