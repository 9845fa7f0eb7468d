"""The one corpus-wide shuffle: rows brought together by band key, on Daft. What is made of a bucket is elsewhere."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from audit_pipeline.errors import AuditInputError

Runner = Literal["native", "ray"]

_ROWS_A_QUERY = 500_000
_ROWS_A_PARTITION = 250_000
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SETTLED_SECONDS = 0.5
_last_query = 0.0
_running: str | None = None
_starting = threading.Lock()


@dataclass(frozen=True)
class Buckets:
    """The rows of one band in order of their key, ascending within a bucket, with each bucket's start and size."""

    band: int
    order: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray


def buckets_of_bands(signatures: np.ndarray, bands: int, runner: Runner) -> Iterator[Buckets]:
    """Band by band, the rows of the (m, permutations) uint32 signatures by the key of that band.

    A query sorts some 500,000 keys at most, or one band: 30 bytes a row at work, whatever the number of bands. Raises
    AuditInputError where the runner cannot be had.
    """
    m, permutations = signatures.shape
    if not m:
        return
    rows = permutations // bands
    daft = _daft(runner)
    at_once = max(1, _ROWS_A_QUERY // m)
    for first in range(0, bands, at_once):
        some = range(first, min(first + at_once, bands))
        keys = np.concatenate([_band_keys(signatures[:, band * rows : (band + 1) * rows]) for band in some])
        order, ordered = _by_key(daft, keys, m, runner)
        for place, band in enumerate(some):
            of_band = slice(place * m, (place + 1) * m)
            yield _buckets(band, order[of_band], ordered[of_band])


def _by_key(daft: Any, keys: np.ndarray, m: int, runner: Runner) -> tuple[np.ndarray, np.ndarray]:
    """Rows and keys of some bands of m rows each, in order of band, key and row."""
    global _last_query
    band = np.repeat(np.arange(len(keys) // m, dtype=np.uint32), m)
    row = np.tile(np.arange(m, dtype=np.uint32), len(keys) // m)
    frame = daft.from_arrow(pa.table({"band": band, "key": keys, "row": row}))
    if runner == "ray":
        frame = frame.into_partitions(max(2, len(keys) // _ROWS_A_PARTITION))
    by = ["band", "key", "row"] if len(keys) > m else ["key", "row"]
    ordered = frame.sort(by).select("key", "row").to_arrow()
    _last_query = time.monotonic()
    return ordered["row"].to_numpy().astype(np.int64), ordered["key"].to_numpy()


def _band_keys(band: np.ndarray) -> np.ndarray:
    """(m,) uint64 key of each row's values in one band; two different bands meet with probability about 2^-64."""
    key = np.zeros(len(band), dtype=np.uint64)
    for column in range(band.shape[1]):
        key = (key ^ band[:, column]) * _MIX
        key ^= key >> np.uint64(29)
    return key


def _buckets(band: int, order: np.ndarray, ordered: np.ndarray) -> Buckets:
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(new)
    return Buckets(band, order, starts, np.diff(np.append(starts, len(ordered))))


def _daft(runner: Runner) -> Any:
    """Daft on this runner, imported at first need (0.3 s) and without what it and Ray report of their use."""
    if runner == "ray" and importlib.util.find_spec("ray") is None:
        raise AuditInputError(
            "duplicates.runner is ray, but Ray is not installed: install audit-pipeline[ray], or set it to native"
        )
    os.environ["DAFT_ANALYTICS_ENABLED"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
    import daft

    global _running
    with _starting:
        if _running is None:
            atexit.register(_let_daft_settle)
            with contextlib.suppress(daft.exceptions.DaftCoreException):  # other code of the process has set it
                daft.set_runner_ray() if runner == "ray" else daft.set_runner_native()
            _running = daft.get_or_create_runner().name
    if _running != runner:  # a process has one runner for good
        raise AuditInputError(
            f"duplicates.runner is {runner}, but this process runs Daft on {_running} already: "
            "give the audits of one project the same runner"
        )
    return daft


def _let_daft_settle() -> None:
    """Daft's threads let go of Python objects shortly after a query; one that does so while the interpreter ends
    aborts the process (seen in 0.7.26 after 1 of 20 queries of 300,000 rows, never half a second later)."""
    time.sleep(max(0.0, _last_query + _SETTLED_SECONDS - time.monotonic()))
