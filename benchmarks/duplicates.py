"""How long the duplicate lanes take, how they grow, and the way of finding neighbours against a scan. Decides nothing.

python -m benchmarks.duplicates [ROWS]

ROWS (default 24,000) passages that every installation has, encoded by a fast static model; every tenth stands there
twice, with one more word. Printed are the seconds of each lane at half and all of ROWS, their growth (2.0 = linear),
also as a multiple of one exact scan for the neighbours of 2,000 rows timed in the same run; for the neighbours of all
rows the scan and the private index with its recall; and the peak of memory of the process.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.minhash_pairs import join_bands
from audit_pipeline.duplicates.neighbour_pairs import exact_neighbours, index_neighbours, sample_recall
from audit_pipeline.duplicates.shingles import jaccard_and_containment, shingle_sets
from audit_pipeline.duplicates.signatures import compute_signatures, signature_matrix
from benchmarks.as_it_stands import encoded, fast_model
from benchmarks.texts import installed_passages

QUERIES, RECALL_SAMPLE = 2000, 300

Result = TypeVar("Result")


def main(rows: int = 24_000) -> None:
    """Print the table for ROWS / 2 and ROWS rows."""
    settings = DuplicateSettings()
    passages = installed_passages(rows - rows // 11)["text"].to_pylist()
    texts = [*passages, *(f"{text} Again." for text in passages[::10])][:rows]
    order = np.random.default_rng(0).permutation(len(texts))
    texts = [texts[number] for number in order]
    chunks = pa.table({"chunk_id": [f"p{number:07}" for number in range(len(texts))], "text": texts})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        vectors = encoded(fast_model(folder / "model"), chunks["text"])
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        half = _lanes(chunks.slice(0, len(texts) // 2), unit[: len(texts) // 2], settings, folder / "half")
        whole = _lanes(chunks, unit, settings, folder / "whole")
        queries = np.arange(min(QUERIES, len(unit)))
        one_scan, _ = _timed(lambda: exact_neighbours(unit, queries, settings.neighbours))
    print(f"{'seconds':24}{len(texts) // 2:>12,}{len(texts):>12,}{'growth':>10}{'x one scan':>12}")
    for name, seconds in whole.items():
        growth = seconds / half[name] if half[name] else float("nan")
        print(f"{name:24}{half[name]:12.2f}{seconds:12.2f}{growth:10.1f}{seconds / one_scan:12.1f}")
    print(f"peak memory, GiB        {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2:12.2f}")


def _lanes(chunks: pa.Table, unit: np.ndarray, settings: DuplicateSettings, folder: Path) -> dict[str, float]:
    """Seconds of each step; what was found is printed."""
    seconds: dict[str, float] = {}
    seconds["signatures"], signed = _timed(lambda: compute_signatures(chunks, settings))
    held = signed["signature"].drop_null()
    matrix = signature_matrix(held, settings.permutations)
    seconds["band join"], join = _timed(
        lambda: join_bands(matrix, settings.bands, settings.bucket_cap, settings.runner)
    )
    kept = np.flatnonzero(signed["signature"].is_valid().to_numpy())
    a, b = kept[join.a], kept[join.b]
    seconds["verification"], (jaccard, _) = _timed(lambda: _overlap(chunks["text"], a, b, settings))
    everything = np.arange(len(unit))
    seconds["neighbours, scan"], _ = _timed(lambda: exact_neighbours(unit, everything, settings.neighbours))
    seconds["neighbours, index"], found = _timed(
        lambda: index_neighbours(unit, everything, settings.neighbours, folder)
    )
    recall = sample_recall(unit, found, settings.neighbours, RECALL_SAMPLE).mean()
    print(
        f"{len(unit):,} rows: {len(a):,} MinHash candidates, {int(np.sum(jaccard >= settings.jaccard)):,} of Jaccard "
        f"{settings.jaccard} and more; the index finds {recall:.3f} of the neighbours"
    )
    return seconds


def _overlap(
    texts: pa.ChunkedArray, a: np.ndarray, b: np.ndarray, settings: DuplicateSettings
) -> tuple[np.ndarray, np.ndarray]:
    return jaccard_and_containment(shingle_sets(texts.to_pylist(), settings.shingle_words), a, b)


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
