"""Whether each lane finds an exact duplicate planted in memory: a check of the instrument before its figures count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.exact_groups import stand_for
from audit_pipeline.duplicates.minhash_pairs import join_bands
from audit_pipeline.duplicates.neighbour_pairs import exact_neighbours
from audit_pipeline.duplicates.shingles import NO_SIGNATURE
from audit_pipeline.duplicates.signatures import compute_signatures, signature_matrix
from audit_pipeline.errors import SelfCheckError
from audit_pipeline.index.snapshot import USABLE, TableSnapshot

_SAMPLE = 500
_PLANTED = "planted duplicate"


def check_lanes(snapshot: TableSnapshot, settings: DuplicateSettings) -> list[dict[str, Any]]:
    """Plants a copy of one row among some of the table's rows and looks for it with each lane.

    Returns one {name, passed, detail} per lane; a lane that no row can test (no text with words, no usable vector) is
    left out. Raises SelfCheckError where a lane does not find the copy.
    """
    rows = np.unique(np.linspace(0, len(snapshot.rows) - 1, min(_SAMPLE, len(snapshot.rows))).astype(np.int64))
    table = pa.table({"chunk_id": [f"row {row}" for row in rows], "text": snapshot.rows["text"].take(pa.array(rows))})
    signed = compute_signatures(table, settings)
    readable = np.flatnonzero(signed["status"].to_numpy(zero_copy_only=False) != NO_SIGNATURE)
    usable = np.flatnonzero(snapshot.vector_state[rows] == USABLE)
    checks = []
    if len(readable):
        checks.append(_result("exact", _exact_lane(table, int(readable[0]), settings), len(rows)))
        checks.append(_result("minhash", _minhash_lane(table, int(readable[0]), settings), len(rows)))
    if len(usable):
        checks.append(_result("neighbour", _neighbour_lane(snapshot.vectors[rows[usable]]), len(rows)))
    return checks


def _exact_lane(table: pa.Table, original: int, settings: DuplicateSettings) -> bool:
    signed = compute_signatures(_with_copy(table, original), settings)
    representative, _ = stand_for(signed, np.ones(len(signed), dtype=bool), np.arange(len(signed)))
    return bool(representative[original] >= 0 and representative[original] == representative[len(table)])


def _minhash_lane(table: pa.Table, original: int, settings: DuplicateSettings) -> bool:
    signed = compute_signatures(_with_copy(table, original), settings)
    held = np.flatnonzero(signed["signature"].is_valid().to_numpy())
    matrix = signature_matrix(signed["signature"].take(pa.array(held)), settings.permutations)
    join = join_bands(matrix, settings.bands, len(held), settings.runner)
    return bool(
        np.any((held[join.a] == original) & (held[join.b] == len(table)) & (join.shared_bands == settings.bands))
    )


def _neighbour_lane(vectors: np.ndarray) -> bool:
    planted = np.concatenate((vectors, vectors[:1])).astype(np.float64)
    unit = (planted / np.linalg.norm(planted, axis=1, keepdims=True)).astype(np.float32)
    found = exact_neighbours(unit, np.array([len(vectors)]), 1)
    return bool(found.rows[0, 0] >= 0 and found.cosines[0, 0] >= 1 - 1e-6)


def _with_copy(table: pa.Table, original: int) -> pa.Table:
    copy = pa.table({"chunk_id": [_PLANTED], "text": table["text"].slice(original, 1)})
    return pa.concat_tables([table, copy])


def _result(lane: str, passed: bool, rows: int) -> dict[str, Any]:
    detail = f"an exact copy planted among {rows} rows was {'found' if passed else 'not found'}"
    if not passed:
        raise SelfCheckError(f"{lane} lane: {detail}: no duplicate figure of this run can be trusted")
    return {"name": f"duplicates_{lane}", "passed": passed, "detail": detail}
