"""The queries that the application really sent, and what it got back, as its log holds them. Nothing is judged here."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.corpus.text import refuse_lone_surrogates
from audit_pipeline.errors import AuditInputError

OBSERVED_QUERIES = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),  # 12 hex digits of the text's sha256, -2, -3 where repeated
        pa.field("query", pa.string()),  # null: the log does not say
        pa.field("vector", pa.list_(pa.float32())),  # as sent; null: not logged
        pa.field("returned_ids", pa.list_(pa.string())),  # in the order returned; null: not logged
    ]
)
COLUMNS = ("query", "vector", "returned_ids")
ID_DIGITS = 12
_ROWS_AT_ONCE = 8192
_NULL = b"\x00null"


@dataclass(frozen=True)
class ObservedQueries:
    """``rows`` (OBSERVED_QUERIES, sorted by query_id) are all rows of the log or a sample of them; ``given`` counts
    all.
    """

    rows: pa.Table
    given: int


def read_observed_queries(path: Path, most: int, seed: int) -> ObservedQueries:
    """At most ``most`` rows of a parquet or jsonl log of query, vector and returned_ids.

    Where the log is longer, the rows with the smallest hash(seed, row) are taken: which ones does not depend on their
    order in the file. Any of the three may be null in a row, and vector or returned_ids may lack as a column; further
    columns are ignored. Ids may be text or whole numbers. The file is read in blocks; memory is bounded by ``most``.
    Raises AuditInputError for a file, column or value of a wrong kind.
    """
    readers = {".parquet": _parquet_blocks, ".jsonl": _jsonl_blocks}
    if path.suffix not in readers:
        raise AuditInputError(f"labels.observed: {path} is neither .parquet nor .jsonl: convert it to one of them")
    kept, digests, given = OBSERVED_QUERIES.empty_table(), [], 0
    try:
        for block in readers[path.suffix](path):
            given += len(block)
            kept = pa.concat_tables([kept, block])
            digests += _digests(block, seed)
            order = sorted(range(len(digests)), key=digests.__getitem__)[:most]
            kept, digests = kept.take(pa.array(order, pa.int64())), [digests[place] for place in order]
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise AuditInputError(
            f"labels.observed: {path} cannot be read ({reason}): check the path and the file"
        ) from error
    return ObservedQueries(_numbered(kept.combine_chunks()), given)


def _parquet_blocks(path: Path) -> Iterator[pa.Table]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    schema = file.schema_arrow
    if "query" not in schema.names or not {"vector", "returned_ids"} & set(schema.names):
        raise AuditInputError(
            f"labels.observed: {path} needs the columns 'query' and 'vector' or 'returned_ids'; its columns are "
            f"{', '.join(schema.names)}: rename or add them"
        )
    present = [name for name in COLUMNS if name in schema.names]
    for name in present:
        if not _fits(name, schema.field(name).type):
            wanted = {"query": "text", "vector": "lists of numbers", "returned_ids": "lists of text or whole numbers"}
            raise AuditInputError(
                f"labels.observed: {path}: column {name!r} holds {schema.field(name).type}, expected {wanted[name]}: "
                "convert it"
            )
    for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=present):
        columns = {name: batch[name] for name in present}
        yield _block({name: columns.get(name, pa.nulls(len(batch))) for name in COLUMNS})


def _fits(name: str, kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return True
    if name == "query":
        return pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return False
    value = kind.value_type
    if name == "vector":
        return pa.types.is_floating(value) or pa.types.is_integer(value)
    return any(
        (
            pa.types.is_string(value),
            pa.types.is_large_string(value),
            pa.types.is_integer(value),
            pa.types.is_null(value),
        )
    )


def _jsonl_blocks(path: Path) -> Iterator[pa.Table]:
    records: list[tuple[str | None, np.ndarray | None, list[str] | None]] = []
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                records.append(_record(line, f"labels.observed: {path}: line {number}"))
            if len(records) == _ROWS_AT_ONCE:
                yield _of_records(records)
                records = []
    if records:
        yield _of_records(records)


def _record(line: str, where: str) -> tuple[str | None, np.ndarray | None, list[str] | None]:
    try:
        record: Any = json.loads(line)
    except ValueError as error:
        raise AuditInputError(f"{where} is not JSON ({error}): write one object a line") from error
    if not isinstance(record, dict) or not {"vector", "returned_ids"} & record.keys() or "query" not in record:
        raise AuditInputError(f"{where} is no object with 'query' and 'vector' or 'returned_ids': write them")
    refuse_lone_surrogates(record["query"], where)
    query, vector, ids = record["query"], record.get("vector"), record.get("returned_ids")
    if query is not None and not isinstance(query, str):
        raise AuditInputError(f"{where}: 'query' is no text: write the text or null")
    numbers = None
    if vector is not None:
        try:
            numbers = np.asarray(vector, dtype=np.float32)
        except (TypeError, ValueError):
            numbers = np.empty((0, 0), dtype=np.float32)
        if numbers.ndim != 1:
            raise AuditInputError(f"{where}: 'vector' is no list of numbers: write the vector as sent, or null")
    if ids is not None:
        if not isinstance(ids, list) or not all(isinstance(one, str | int) or one is None for one in ids):
            raise AuditInputError(
                f"{where}: 'returned_ids' is no list of text or whole numbers: write the ids, or null"
            )
        ids = [None if one is None else str(one) for one in ids]
    return query, numbers, ids


def _of_records(records: list[tuple[str | None, np.ndarray | None, list[str] | None]]) -> pa.Table:
    queries, vectors, ids = zip(*records, strict=True)
    lengths = [0 if vector is None else len(vector) for vector in vectors]
    values = np.concatenate([np.empty(0, np.float32), *(vector for vector in vectors if vector is not None)])
    lists = pa.ListArray.from_arrays(
        pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32()),
        pa.array(values, pa.float32()),
        mask=pa.array([vector is None for vector in vectors]),
    )
    return _block(
        {"query": pa.array(queries, pa.string()), "vector": lists, "returned_ids": pa.array(ids, pa.list_(pa.string()))}
    )


def _block(columns: dict[str, pa.Array]) -> pa.Table:
    """Columns in the schema's types; the ids of the rows come later, when all are known."""
    columns = {"query_id": pa.array([""] * len(columns["query"]), pa.string()), **columns}
    return pa.table(
        [columns[field.name].cast(field.type, safe=False) for field in OBSERVED_QUERIES], schema=OBSERVED_QUERIES
    )


def _digests(block: pa.Table, seed: int) -> list[bytes]:
    """A hash of each row and the seed: rows that are equal share it, so it does not matter which of them is kept."""
    vectors = block["vector"].combine_chunks()
    offsets, values = vectors.offsets.to_numpy(), vectors.values.to_numpy(zero_copy_only=False)
    missing = vectors.is_null().to_numpy(zero_copy_only=False)
    start = str(seed).encode()
    digests = []
    for row, (query, ids) in enumerate(zip(block["query"].to_pylist(), block["returned_ids"].to_pylist(), strict=True)):
        vector = _NULL if missing[row] else values[offsets[row] : offsets[row + 1]].tobytes()
        parts = (
            start,
            _NULL if query is None else query.encode(),
            vector,
            _NULL if ids is None else repr(ids).encode(),
        )
        digests.append(hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest())
    return digests


def _numbered(rows: pa.Table) -> pa.Table:
    """The rows with their ids, sorted by them. They come in the order of their hash, which numbers repeated texts."""
    seen: Counter[str] = Counter()
    ids = []
    for query in rows["query"].to_pylist():
        own = hashlib.sha256((query or "").encode()).hexdigest()[:ID_DIGITS]
        seen[own] += 1
        ids.append(own if seen[own] == 1 else f"{own}-{seen[own]}")
    return rows.set_column(0, OBSERVED_QUERIES.field("query_id"), pa.array(ids, pa.string())).sort_by("query_id")
