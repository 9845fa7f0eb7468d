"""Small tables for the tests of this room, built from lists. No expectation belongs here."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.lanes import exact_and_minhash, merge_lanes, neighbour_lane
from audit_pipeline.duplicates.signatures import compute_signatures
from audit_pipeline.index.snapshot import NULL, USABLE, ZERO, IndexInfo, SearchHits, TableSnapshot

SETTINGS = DuplicateSettings()


def snapshot_of(
    texts: Sequence[str],
    vectors: np.ndarray | None = None,
    ids: Sequence[str] | None = None,
    dates: Sequence[dt.date | None] | None = None,
    sources: Sequence[str | None] | None = None,
    documents: Sequence[str | None] | None = None,
    positions: Sequence[int | None] | None = None,
    batches: Sequence[str] | None = None,
    metric: str = "cosine",
) -> TableSnapshot:
    """A table with these rows; without vectors every row has a null one."""
    n = len(texts)
    rows = pa.table(
        {
            "chunk_id": pa.array(ids if ids is not None else [f"c{row:05d}" for row in range(n)], pa.string()),
            "text": pa.array(texts, pa.string()),
            "batch": pa.array(batches or ["2026-01-01|s"] * n, pa.string()),
            "source": pa.array(sources or ["s"] * n, pa.string()),
            "ingestion_date": pa.array(dates or [dt.date(2026, 1, 1)] * n, pa.date32()),
            "doc_id": pa.array(documents or [None] * n, pa.string()),
            "position": pa.array(positions or [None] * n, pa.int32()),
        }
    )
    if vectors is None:
        stored, state = np.zeros((n, 2), dtype=np.float32), np.full(n, NULL, dtype=np.uint8)
    else:
        stored = np.asarray(vectors, dtype=np.float32)
        state = np.where(np.any(stored != 0, axis=1), USABLE, ZERO).astype(np.uint8)
    info = IndexInfo("memory", "t", 1, n, stored.shape[1], metric, None, None, 0, n)
    return TableSnapshot(rows, stored, state, metric, info, _no_search)


def shuffled(snapshot: TableSnapshot, seed: int) -> TableSnapshot:
    """The same rows in another order."""
    order = np.random.default_rng(seed).permutation(len(snapshot.rows))
    return TableSnapshot(
        snapshot.rows.take(pa.array(order)),
        snapshot.vectors[order],
        snapshot.vector_state[order],
        snapshot.metric,
        snapshot.info,
        snapshot.search,
    )


def candidates_of(snapshot: TableSnapshot, settings: DuplicateSettings = SETTINGS) -> pa.Table:
    """All lanes, one after the other."""
    signatures = compute_signatures(snapshot.rows, settings)
    lexical = exact_and_minhash(snapshot, signatures, settings).tables["lexical_pairs"]
    neighbours = neighbour_lane(snapshot, signatures, settings).tables["neighbour_pairs"]
    return merge_lanes(snapshot, lexical, neighbours, settings).tables["candidate_pairs"]


def pair_ids(table: pa.Table) -> list[tuple[str, str]]:
    return list(zip(table["chunk_id_a"].to_pylist(), table["chunk_id_b"].to_pylist(), strict=True))


def neighbour_ids(snapshot: TableSnapshot, table: pa.Table) -> list[tuple[str, str]]:
    """The neighbour lane's pairs of nodes as ids: a node is the place of its id in ascending order."""
    ids = sorted(set(snapshot.rows["chunk_id"].to_pylist()))
    return [(ids[a], ids[b]) for a, b in zip(table["node_a"].to_pylist(), table["node_b"].to_pylist(), strict=True)]


def words_of(generator: np.random.Generator, count: int, vocabulary: int = 50_000) -> str:
    """A text of random words without digits: two of them share no shingle."""
    letters = str.maketrans("0123456789", "abcdefghij")
    return " ".join(f"w{word}".translate(letters) for word in generator.integers(0, vocabulary, count))


def at_degrees(*degrees: float) -> np.ndarray:
    """Unit vectors in the plane at these angles."""
    angle = np.radians(np.array(degrees, dtype=float))
    return np.stack((np.cos(angle), np.sin(angle)), axis=1)


def _no_search(queries: np.ndarray, limit: int) -> SearchHits:
    raise NotImplementedError("the duplicate lanes never use the application's search")
