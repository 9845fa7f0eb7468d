"""Nearest distinct texts of every representative by cosine of stored vectors. What a pair means is judged elsewhere."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.results import Progress, no_progress

EXACT_SCAN_LIMIT = 100_000
EXACT_SCAN, PRIVATE_INDEX = "exact_scan", "private_index"
_SCORES_PER_BLOCK = 48_000_000
_SPARE = 12  # float32 scores may order near-ties wrongly: so many more are rescored in float64
_INDEX_BATCH = 1000
_ROWS_PER_BATCH = 8192
# Measured on 295,491 texts: 64 of 543 lists reach .99 of the neighbours, in less than half of the time that building
# and asking an IVF_HNSW_SQ takes.
_PROBED_LISTS = 64
_SAMPLE_RATE = 64  # rows a list that its centroid is trained on
_INDEX_CACHE, _METADATA_CACHE = 1 << 30, 1 << 28


@dataclass(frozen=True)
class Neighbours:
    """(q, k) rows of the matrix in falling cosine, ties by row, -1 where there are fewer; cosines in float64, NaN."""

    rows: np.ndarray
    cosines: np.ndarray


def exact_neighbours(
    unit: np.ndarray, queries: np.ndarray, k: int, progress: Progress = no_progress, asking: np.ndarray | None = None
) -> Neighbours:
    """The k nearest other rows of the rows ``queries``, by scanning all of ``unit`` (m, d) float32 of norm 1.

    A row asks with its vector of ``asking`` (m, d), by default with that of ``unit``.

    Blocks of float32 matrix products, the best of each rescored in float64. Time grows with m x len(queries).
    """
    import torch

    m = len(unit)
    matrix = torch.from_numpy(np.ascontiguousarray(unit))
    asking = unit if asking is None else asking
    by = matrix if asking is unit else torch.from_numpy(np.ascontiguousarray(asking))
    width = min(k + _SPARE, m - 1)
    result = _empty(len(queries), k)
    if width < 1:
        return result
    block = max(1, _SCORES_PER_BLOCK // m)
    for start in range(0, len(queries), block):
        part = queries[start : start + block]
        index = torch.from_numpy(part)
        scores = by[index] @ matrix.T
        scores[torch.arange(len(part)), index] = -2.0
        found = torch.topk(scores, width, dim=1, sorted=False).indices.numpy()
        _rescore(unit, asking[part], found, result, start)
        progress("nearest neighbours", min(start + block, len(queries)), len(queries))
    return result


def index_neighbours(
    unit: np.ndarray,
    queries: np.ndarray,
    k: int,
    folder: Path,
    progress: Progress = no_progress,
    asking: np.ndarray | None = None,
) -> Neighbours:
    """The k nearest other rows of the rows ``queries`` from a private LanceDB index (IVF_SQ) built in ``folder``.

    A row asks with its vector of ``asking`` (m, d), by default with that of ``unit``.

    The folder is there only for as long. The index proposes; cosines are float64 from ``unit``. Lists are trained on a
    random sample, so two builds may lose different neighbours: recall has to be measured against a scan. Time grows
    with m^1.5; memory beside ``unit`` is a block of rows and the bounded cache of the index.
    """
    try:
        return _ask(_built(unit, folder), unit, queries, k, progress, unit if asking is None else asking)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _built(unit: np.ndarray, folder: Path) -> Any:
    """A LanceDB table of the rows with its index. The rows are written in blocks, so no second copy is in memory."""
    import lancedb
    from lancedb.index import IvfSq

    m, dimension = unit.shape

    def blocks() -> Iterator[pa.RecordBatch]:
        for start in range(0, m, _ROWS_PER_BATCH):
            part = unit[start : start + _ROWS_PER_BATCH]
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(part.reshape(-1)), dimension)
            yield pa.record_batch([pa.array(np.arange(start, start + len(part))), vectors], schema=schema)

    schema = pa.schema([("row", pa.int64()), ("vector", pa.list_(pa.float32(), dimension))])
    # The default cache holds up to 6 GiB.
    session = lancedb.Session(index_cache_size_bytes=_INDEX_CACHE, metadata_cache_size_bytes=_METADATA_CACHE)
    database = lancedb.connect(str(folder), session=session)
    table = database.create_table("neighbours", pa.RecordBatchReader.from_batches(schema, blocks()), mode="overwrite")
    lists = max(1, math.isqrt(m))
    table.create_index("vector", config=IvfSq(distance_type="cosine", num_partitions=lists, sample_rate=_SAMPLE_RATE))
    return table


def _ask(
    table: Any, unit: np.ndarray, queries: np.ndarray, k: int, progress: Progress, asking: np.ndarray
) -> Neighbours:
    width = k + _SPARE + 1
    result = _empty(len(queries), k)
    for start in range(0, len(queries), _INDEX_BATCH):
        part = queries[start : start + _INDEX_BATCH]
        answer = (
            table.search(list(asking[part]))
            .distance_type("cosine")
            .nprobes(_PROBED_LISTS)
            .limit(width)
            .select(["row", "_distance"])
            .to_arrow()
        )
        query = answer["query_index"].to_numpy().astype(np.int64)
        order = np.argsort(query, kind="stable")
        query, row = query[order], answer["row"].to_numpy()[order]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        found = np.full((len(part), width), -1, dtype=np.int64)
        found[query, place] = row
        found[found == part[:, None]] = -1
        _rescore(unit, asking[part], found, result, start)
        progress("nearest neighbours", min(start + _INDEX_BATCH, len(queries)), len(queries))
    return result


def find_neighbours(
    unit: np.ndarray,
    k: int,
    folder: Path | None,
    progress: Progress = no_progress,
    asking: np.ndarray | None = None,
) -> tuple[Neighbours, str]:
    """The k nearest other rows of every row, and the method: a scan up to 100,000 rows, a private index above.

    ``folder`` is where the private index goes. One that is needed must have a folder. A row asks with its vector of
    ``asking`` (m, d), by default with that of ``unit``.
    """
    queries = np.arange(len(unit))
    if len(unit) <= EXACT_SCAN_LIMIT:
        return exact_neighbours(unit, queries, k, progress, asking), EXACT_SCAN
    if folder is None:
        raise ValueError(f"{len(unit)} distinct texts need a private index, and there is no folder for it")
    return index_neighbours(unit, queries, k, folder, progress, asking), PRIVATE_INDEX


def sample_recall(
    unit: np.ndarray, neighbours: Neighbours, k: int, sample: int, asking: np.ndarray | None = None
) -> np.ndarray:
    """Share of the exact top k that each of ``sample`` evenly spread rows has in ``neighbours``, by score.

    A neighbour counts where its cosine reaches the k-th best exact one within 1e-6, so ties are no losses.
    """
    queries = np.unique(np.linspace(0, len(unit) - 1, min(sample, len(unit))).astype(np.int64))
    exact = exact_neighbours(unit, queries, k, asking=asking)
    wanted = np.count_nonzero(exact.rows >= 0, axis=1)
    queries, exact_cosines, wanted = queries[wanted > 0], exact.cosines[wanted > 0], wanted[wanted > 0]
    if not len(queries):
        return np.empty(0)
    kth = exact_cosines[np.arange(len(queries)), wanted - 1]
    with np.errstate(invalid="ignore"):
        reached = neighbours.cosines[queries] >= kth[:, None] - 1e-6
    return np.minimum(np.count_nonzero(reached, axis=1), wanted) / wanted


def _empty(queries: int, k: int) -> Neighbours:
    return Neighbours(np.full((queries, k), -1, dtype=np.int64), np.full((queries, k), np.nan))


def _rescore(unit: np.ndarray, asking: np.ndarray, found: np.ndarray, result: Neighbours, start: int) -> None:
    """Writes the best of the rows ``found`` (q, width; -1: none) for each vector into ``result`` from ``start``."""
    k = result.rows.shape[1]
    for low in range(0, len(asking), 512):
        rows = found[low : low + 512]
        left = asking[low : low + 512].astype(np.float64)
        cosines = np.einsum("qd,qwd->qw", left, unit[np.maximum(rows, 0)].astype(np.float64))
        cosines[rows < 0] = -np.inf
        # Rounded for the order only: rows that tie within 1e-7 stand in row order on every machine.
        order = np.lexsort((rows, -np.round(cosines, 7)), axis=1)[:, :k]
        best = np.take_along_axis(rows, order, axis=1)
        scores = np.take_along_axis(cosines, order, axis=1)
        target = slice(start + low, start + low + len(rows))
        result.rows[target, : best.shape[1]] = np.where(np.isneginf(scores), -1, best)
        result.cosines[target, : best.shape[1]] = np.where(np.isneginf(scores), np.nan, scores)
