"""Tables of a made-up audit: some hundred probes of sources with hostile names, and what is exported of them."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.report.beir import ExportTexts
from audit_pipeline.schemas import TABLES

HOSTILE = "<script>alert('source')</script>"
SECRET_TEXT = "Zanzibar quotations overflow"
FIRST_DATE = dt.date(2025, 1, 1)
BANDS = ("0-39", "40-127", "128-255")
CAUSES = ("missing_row", "invalid_vector", "role_mismatch", "twin", "encoder")


def source_names(n: int) -> list[str | None]:
    named = [HOSTILE, None, "a very long source name that somebody took from the title of a page & never shortened"]
    return (named + [f"team-{i:02d}" for i in range(n)])[:n]


def probes(n: int = 300, sources: int = 50, dates: int = 400, seed: int = 7) -> dict[str, Any]:
    """Columns shared by the probe tables: what was drawn, and whether it hit."""
    draw = np.random.default_rng(seed)
    names = source_names(sources)
    source = [names[i] for i in draw.integers(0, sources, n)]
    date = [FIRST_DATE + dt.timedelta(days=int(i)) for i in draw.integers(0, dates, n)]
    bad = np.array([s == HOSTILE for s in source])
    hit_1 = draw.random(n) > np.where(bad, 0.6, 0.01)
    return {
        "chunk_id": [f"c{i:05d}" for i in range(n)],
        "source": source,
        "ingestion_date": date,
        "batch": [f"{d}|{i}" for d, i in zip(date, draw.integers(0, sources, n), strict=True)],
        "length_band": [BANDS[i] for i in draw.integers(0, len(BANDS), n)],
        "hit_1": hit_1,
        "hit_10": hit_1 | (draw.random(n) > 0.4),
        "rank": np.where(hit_1, 1, draw.integers(2, 9, n)),
    }


def self_table(p: dict[str, Any], haystack: int = 91_000) -> pa.Table:
    n = len(p["chunk_id"])
    columns = {
        **{key: p[key] for key in ("chunk_id", "source", "ingestion_date", "batch", "length_band", "hit_1", "hit_10")},
        "probe_id": [f"self:{c}" for c in p["chunk_id"]],
        "n_tokens": [100] * n,
        "stratum": p["length_band"],
        "stratum_chunks": [haystack // 3] * n,
        "weight": [haystack / n] * n,
        "text_sha256": [None] * n,
        "n_words": [80] * n,
        "rank_returned": [int(r) if h else None for r, h in zip(p["rank"], p["hit_10"], strict=True)],
        "rank_min": [int(r) if h else 40 for r, h in zip(p["rank"], p["hit_10"], strict=True)],
        "rank_max": [int(r) if h else 40 for r, h in zip(p["rank"], p["hit_10"], strict=True)],
        "score": [0.9] * n,
        "best_other_score": [0.8] * n,
        "best_other_id": ["c00000"] * n,
        "haystack": [haystack] * n,
        "returned": [10] * n,
        "expected": [10] * n,
        "cause": [None if h else CAUSES[i % len(CAUSES)] for i, h in enumerate(p["hit_1"])],
        "evidence": [None if h else json.dumps({"winner": f"c{(i + 1) % n:05d}"}) for i, h in enumerate(p["hit_1"])],
    }
    columns["text_sha256"] = [None] * n
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in TABLES["self_retrieval"]})


def retrieved_and_qrels(p: dict[str, Any], run: str = "self") -> tuple[pa.Table, pa.Table]:
    """Rankings of ten rows a query in which the answer stands at its rank, or nowhere."""
    prefix = {"self": "self:", "held_out": "heldout:"}[run]
    rows, judged = [], []
    for chunk_id, rank, found in zip(p["chunk_id"], p["rank"], p["hit_10"], strict=True):
        judged.append({"run": run, "query_id": prefix + chunk_id, "chunk_id": chunk_id, "relevance": 1})
        others = iter(f"other {i} 100%" for i in range(10))
        for place in range(1, 11):
            answer = chunk_id if found and place == rank else next(others)
            # Scores tie on purpose: the rank decides.
            row = {"run": run, "query_id": prefix + chunk_id, "rank": place, "chunk_id": answer}
            rows.append(row | {"score": 0.9 if place < 4 else 0.5})
    return pa.Table.from_pylist(rows, TABLES["retrieved"]), pa.Table.from_pylist(judged, TABLES["qrels"])


def sample_tables(p: dict[str, Any]) -> dict[str, pa.Table]:
    retrieved, qrels = retrieved_and_qrels(p)
    return {"self_retrieval": self_table(p), "retrieved": retrieved, "qrels": qrels}


def sample_exports(tables: dict[str, pa.Table]) -> ExportTexts:
    """Texts of the judged chunks, each its own query."""
    qrels = tables["qrels"]
    texts = pa.array([f"{SECRET_TEXT} of {name}" for name in qrels["chunk_id"].to_pylist()])
    corpus = pa.table({"chunk_id": qrels["chunk_id"], "text": texts})
    return ExportTexts(corpus, qrels.select(["run", "query_id"]).append_column("text", texts), corpus.slice(0, 0))
