"""The stages that find candidate pairs: exact and MinHash, neighbours, their merger. No threshold is chosen here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates import findings
from audit_pipeline.duplicates.exact_groups import ExactGroups, group_exact
from audit_pipeline.duplicates.floor import TOLERANCE
from audit_pipeline.duplicates.label_pool import BEYOND, pool_table
from audit_pipeline.duplicates.minhash_pairs import BandJoin, join_bands
from audit_pipeline.duplicates.minhash_recall import measure_recall, shingle_pool, shingles_needed
from audit_pipeline.duplicates.neighbour_pairs import EXACT_SCAN, Neighbours, find_neighbours, sample_recall
from audit_pipeline.duplicates.pair_table import EXACT, LANES, MINHASH, NEIGHBOUR, Pairs, from_table, to_table, union
from audit_pipeline.duplicates.regime import QueryRole
from audit_pipeline.duplicates.rows import Nodes, nodes_of
from audit_pipeline.duplicates.shingles import jaccard_and_containment, shingle_sets
from audit_pipeline.duplicates.signatures import signature_matrix
from audit_pipeline.duplicates.windows import adjacent_overlaps, find_windows
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.memory import give_back
from audit_pipeline.proportions import bootstrap_mean
from audit_pipeline.results import Progress, StageResult, no_progress

RECALL_PAIRS = 300
RECALL_SAMPLE = 200
WINDOW_SAMPLE = 2000


def exact_and_minhash(
    snapshot: TableSnapshot, signatures: pa.Table, settings: DuplicateSettings, progress: Progress = no_progress
) -> StageResult:
    """Exact groups and verified MinHash pairs.

    ``signatures`` is what compute_signatures made for the rows (joined by join_signatures). Tables: ``lexical_pairs``
    (schemas.CANDIDATE_PAIRS, cosine null). Summary: ``exact``, ``wordless`` and ``minhash``.
    Findings: hot_bucket, candidates_missed. Raises AuditInputError where the signatures were made by another scheme.
    """
    nodes = nodes_of(snapshot)
    groups = group_exact(nodes, signatures, settings)
    # In order of age, so that the star of a hot bucket hangs on its earliest row.
    signed = groups.representatives[np.argsort(nodes.seniority[groups.representatives])]
    matrix = signature_matrix(groups.signatures["signature"].take(pa.array(signed)), settings.permutations)
    join = join_bands(matrix, settings.bands, settings.bucket_cap, settings.runner)
    progress("MinHash candidates", len(join.a), len(join.a))
    pairs = _lexical_pairs(nodes, groups, signed, join, settings)
    pool = shingle_pool(nodes.texts(groups.representatives), settings.shingle_words, shingles_needed(RECALL_PAIRS))
    recall = measure_recall(pool, settings, RECALL_PAIRS)
    minhash = pairs.in_lane(MINHASH)
    summary: dict[str, Any] = {
        "exact": {
            "groups": groups.groups,
            "redundant_rows": groups.redundant_rows,
            "implied_pairs": groups.implied_pairs,
        },
        "wordless": {"rows": groups.wordless, "copies": groups.wordless_copies},
        "minhash": {
            "candidates": int(minhash.sum()),
            "verified": int((minhash & pairs.verified).sum()),
            "measured_recall": [{"jaccard": point.jaccard, **point.measured.as_dict()} for point in recall],
            "expected_recall": [{"jaccard": point.jaccard, "value": point.expected} for point in recall],
        },
    }
    found = findings.hot_buckets(join.hot, nodes.ids(signed), settings.bucket_cap)
    found += findings.minhash_recall_low(recall)
    return StageResult({"lexical_pairs": to_table(nodes, pairs)}, summary, found)


def neighbour_lane(
    snapshot: TableSnapshot,
    signatures: pa.Table,
    settings: DuplicateSettings,
    work_dir: Path | None = None,
    roles: Mapping[str, str] | None = None,
    progress: Progress = no_progress,
    asked: QueryRole | None = None,
) -> StageResult:
    """Nearest distinct texts of every exact representative with a usable vector.

    ``work_dir`` takes the private index that more than 100,000 distinct texts need; ``roles`` maps batch keys to the
    role found for them, and pairs of two different ones are left out. With ``asked`` every text asks in the query role,
    and what either text of a pair finds is a candidate. Tables: ``neighbour_reach``; ``neighbour_pairs``, numbers of
    nodes and not ids: millions of pairs of strings would be the largest thing in memory;
    ``near_misses``: the next neighbours after those, which no neighbour list holds (a sample, schemas.LABEL_POOL).
    Summary: ``neighbours``. Findings: candidates_missed, not_measured.
    """
    nodes = nodes_of(snapshot, roles, asked)
    representatives = group_exact(nodes, signatures, settings).representatives
    searched = representatives[nodes.usable[representatives]]
    unit = nodes.unit_vectors(searched)
    asking = None if asked is None else nodes.unit_queries(searched)
    found, method = find_neighbours(unit, settings.neighbours + BEYOND, work_dir, progress, asking)
    neighbours = Neighbours(found.rows[:, : settings.neighbours], found.cosines[:, : settings.neighbours])
    recall = bootstrap_mean(sample_recall(unit, neighbours, settings.neighbours, RECALL_SAMPLE, asking))
    del unit, asking
    give_back()
    a, b, incomparable = _comparable_pairs(nodes, searched, neighbours)
    last = neighbours.cosines[:, -1]
    near = _beyond(nodes, searched, found, settings.neighbours, a * len(nodes) + b)
    tables = {
        "near_misses": pool_table(nodes, *near),
        "neighbour_pairs": pa.table([a.astype(np.int32), b.astype(np.int32)], schema=schemas.NEIGHBOUR_PAIRS),
        "neighbour_reach": pa.Table.from_arrays(
            [nodes.ids(searched), pa.array(last, from_pandas=True)], schema=schemas.NEIGHBOUR_REACH
        ),
    }
    summary = {
        "neighbours": {
            "pairs": len(a),
            "saturated_rows": int(np.sum(last >= settings.thresholds[0] - TOLERANCE)),
            "exact_sample_recall": recall.as_dict(),
            "searched": len(searched),
            "without_vector": len(representatives) - len(searched),
            "incomparable": incomparable,
            "near_misses": len(near[0]),
            "method": method,
        }
    }
    told = findings.neighbours_missed(recall) if method != EXACT_SCAN else []
    told += findings.neighbours_not_measured(len(searched), len(representatives))
    return StageResult(tables, summary, told)


def merge_lanes(
    snapshot: TableSnapshot,
    lexical_pairs: pa.Table,
    neighbour_pairs: pa.Table,
    settings: DuplicateSettings,
    roles: Mapping[str, str] | None = None,
    progress: Progress = no_progress,
    asked: QueryRole | None = None,
) -> StageResult:
    """All candidate pairs with every figure: Jaccard, containment, cosine in float64, and whether they are windows.

    Tables: ``candidate_pairs``. Summary: ``pairs`` (possible, candidates, never looked at, windows) and ``lanes``.
    Findings: chunk_windows.
    """
    nodes = nodes_of(snapshot, roles, asked)
    lexical = from_table(nodes, lexical_pairs)
    neighbour = tuple(neighbour_pairs[side].to_numpy() for side in ("node_a", "node_b"))
    del lexical_pairs, neighbour_pairs
    a, b, member = union(len(nodes), (lexical.a, lexical.b), neighbour)
    lanes = np.zeros((len(a), len(LANES)), dtype=bool)
    lanes[member[:, 0]] = lexical.lanes
    lanes[member[:, 1], LANES.index(NEIGHBOUR)] = True
    jaccard, containment, bands = np.full(len(a), np.nan), np.full(len(a), np.nan), np.full(len(a), -1)
    jaccard[member[:, 0]], containment[member[:, 0]] = lexical.jaccard, lexical.containment
    bands[member[:, 0]] = lexical.shared_bands
    rest = np.flatnonzero(~member[:, 0])
    progress("verifying pairs", 0, len(rest))
    jaccard[rest], containment[rest] = _overlap(nodes, a[rest], b[rest], settings)
    progress("verifying pairs", len(rest), len(rest))
    pairs = Pairs(
        a=a,
        b=b,
        lanes=lanes,
        jaccard=jaccard,
        containment=containment,
        cosine=nodes.cosines(a, b),
        shared_bands=bands,
        verified=_verified(jaccard, containment, settings),
        window=find_windows(nodes, a, b, jaccard > 0, settings.shingle_words),
    )
    possible = len(nodes) * (len(nodes) - 1) // 2
    summary = {
        "pairs": {
            "possible": possible,
            "candidates": len(pairs),
            "never_looked_at": possible - len(pairs),
            "windows": int(pairs.window.sum()),
        },
        "lanes": {
            lane: {
                "pairs": int(pairs.in_lane(lane).sum()),
                "only_this_lane": int((pairs.in_lane(lane) & (lanes.sum(axis=1) == 1)).sum()),
                "verified": int((pairs.in_lane(lane) & pairs.verified).sum()),
            }
            for lane in LANES
        },
    }
    found = []
    if pairs.window.any():
        overlaps = adjacent_overlaps(nodes, settings.shingle_words, WINDOW_SAMPLE)
        found = findings.chunk_windows(pairs, nodes, overlaps)
    return StageResult({"candidate_pairs": to_table(nodes, pairs)}, summary, found)


def _lexical_pairs(
    nodes: Nodes, groups: ExactGroups, signed: np.ndarray, join: BandJoin, settings: DuplicateSettings
) -> Pairs:
    left, right = signed[join.a], signed[join.b]
    low, high = np.minimum(left, right), np.maximum(left, right)
    order = np.lexsort((high, low))
    low, high, bands = low[order], high[order], join.shared_bands[order]
    a, b, member = union(len(nodes), groups.star(), (low, high))
    jaccard, containment, shared = np.ones(len(a)), np.ones(len(a)), np.full(len(a), -1)
    jaccard[member[:, 1]], containment[member[:, 1]] = _overlap(nodes, low, high, settings)
    shared[member[:, 1]] = bands
    lanes = np.zeros((len(a), len(LANES)), dtype=bool)
    lanes[:, LANES.index(EXACT)], lanes[:, LANES.index(MINHASH)] = member[:, 0], member[:, 1]
    return Pairs(
        a=a,
        b=b,
        lanes=lanes,
        jaccard=jaccard,
        containment=containment,
        cosine=np.full(len(a), np.nan),
        shared_bands=shared,
        verified=_verified(jaccard, containment, settings),
        window=np.zeros(len(a), dtype=bool),
    )


def _overlap(nodes: Nodes, a: np.ndarray, b: np.ndarray, settings: DuplicateSettings) -> tuple[np.ndarray, np.ndarray]:
    involved = np.zeros(len(nodes), dtype=bool)
    involved[a] = involved[b] = True
    place = np.cumsum(involved) - 1
    sets = shingle_sets(nodes.texts(np.flatnonzero(involved)), settings.shingle_words)
    return jaccard_and_containment(sets, place[a], place[b])


def _verified(jaccard: np.ndarray, containment: np.ndarray, settings: DuplicateSettings) -> np.ndarray:
    return (jaccard >= settings.jaccard) | (containment >= settings.containment)


def _beyond(
    nodes: Nodes, searched: np.ndarray, found: Neighbours, k: int, kept: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs a < b of neighbours after the k-th that are none of ``kept`` (codes of pairs), and their cosines."""
    query, place = np.nonzero(found.rows[:, k:] >= 0)
    left, right = searched[query], searched[found.rows[query, k + place]]
    code = np.minimum(left, right) * max(len(nodes), 1) + np.maximum(left, right)
    code, first = np.unique(code, return_index=True)
    new = ~np.isin(code, kept) & nodes.comparable(left[first], right[first])
    a, b = code[new] // max(len(nodes), 1), code[new] % max(len(nodes), 1)
    return a, b, nodes.cosines(a, b)


def _comparable_pairs(nodes: Nodes, searched: np.ndarray, neighbours: Neighbours) -> tuple[np.ndarray, np.ndarray, int]:
    """Sorted distinct pairs a < b of nodes, one a neighbour of the other, and how many others differ in role."""
    query, place = np.nonzero(neighbours.rows >= 0)
    left, right = searched[query], searched[neighbours.rows[query, place]]
    comparable = nodes.comparable(left, right)
    incomparable = _unordered(len(nodes), left[~comparable], right[~comparable])[0]
    return *_unordered(len(nodes), left[comparable], right[comparable]), len(incomparable)


def _unordered(nodes: int, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct pairs a < b of directed ones."""
    code = np.unique(np.minimum(left, right) * max(nodes, 1) + np.maximum(left, right))
    return code // max(nodes, 1), code % max(nodes, 1)
