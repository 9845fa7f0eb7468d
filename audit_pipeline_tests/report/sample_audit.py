"""A rich audit made by hand: 50 sources, 400 dates, every severity, nulls, hostile names. Tables and figures agree."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.index.ann_settings import AnnSettings
from audit_pipeline.proportions import NOT_MEASURED, Proportion, bootstrap_mean, stratified, wilson
from audit_pipeline.report.audit_json import build_audit
from audit_pipeline.report.beir import ExportTexts
from audit_pipeline.retrieval.ann_choice import Measured
from audit_pipeline.retrieval.ann_sweep import sweep_section
from audit_pipeline.retrieval.both_sides import Sides, compare_sides
from audit_pipeline.retrieval.formatting_arms import Asked, run_formatting_arms
from audit_pipeline.schemas import TABLES
from audit_pipeline.settings_file import parse_settings

HOSTILE = "<script>alert('source')</script>"
SECRET_TEXT = "Zanzibar quotations overflow"
CREATED = dt.datetime(2026, 3, 1, 6, 30, tzinfo=dt.UTC)
FIRST_DATE = dt.date(2025, 1, 1)
BANDS = ("0-39", "40-127", "128-255")
CAUSES = ("missing_row", "invalid_vector", "role_mismatch", "twin", "encoder")


def sample_settings(**report: Any) -> IndexAuditSettings:
    attributes = {
        "name": "handbook",
        "encoder": {"model": "some/model", "query_prompt": "query: ", "passage_prompt": "passage: "},
        "index": {
            "uri": "s3://user:hunter2@bucket/lance",
            "table": "chunks",
            "managed": False,
            "storage_options": {"aws_secret_access_key": "hunter2"},
        },
        "report": report or {"text": "excerpt"},
    }
    return parse_settings(attributes, "sample", Path("/nowhere"))


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


def strata(p: dict[str, Any], keys: tuple[str, ...], first: str, tenth: str) -> list[dict[str, Any]]:
    cells: dict[tuple[Any, ...], list[int]] = {}
    for i, cell in enumerate(zip(*(p[key] for key in keys), strict=True)):
        cells.setdefault(cell, []).append(i)
    elements = []
    for cell in sorted(cells, key=str):
        rows = cells[cell]
        shown = {
            key: ("(none)" if value is None else str(value)) if key != "ingestion_date" else value.isoformat()
            for key, value in zip(keys, cell, strict=True)
        }
        figures = {
            name: wilson(int(sum(p[hit][r] for r in rows)), len(rows)).as_dict()
            for name, hit in ((first, "hit_1"), (tenth, "hit_10"))
        }
        elements.append({**shown, "chunks": len(rows) * 40, "n": len(rows), **figures})
    return elements


def run_section(p: dict[str, Any], first: str, tenth: str, haystack: int = 91_000) -> dict[str, Any]:
    n = len(p["chunk_id"])
    stratum, chunks = np.array(p["length_band"]), np.full(n, haystack // 3)
    return {
        "n": n,
        "haystack": haystack,
        first: stratified(p["hit_1"], stratum, chunks).as_dict(),
        tenth: stratified(p["hit_10"], stratum, chunks).as_dict(),
        "by_source": strata(p, ("source",), first, tenth),
        "by_ingestion_date": strata(p, ("ingestion_date",), first, tenth),
        "by_batch": strata(p, ("source", "ingestion_date"), first, tenth),
        "by_length_band": strata(p, ("length_band",), first, tenth),
    }


def sample_findings() -> list[Finding]:
    return [
        Finding(
            "role_mismatch",
            "error",
            "Stored vectors were encoded without a prompt; the settings say 'passage: '.",
            "Re-encode these batches with 'passage: ' and write them again: audit-pipeline backfill --source ...",
            n_compared=48,
            share=1.0,
            scope={"source": HOSTILE},
            evidence={"found": "none", "configured": "passage: "},
            examples=["c00001", "c00002"],
        ),
        Finding(
            "missing_rows",
            "error",
            "41 chunks of the source are not in the table.",
            "Ingest the batch again: dg launch --job ingest_batch --partition '2025-02-03|team-04'.",
            n_compared=520,
            share=41 / 520,
            scope={"source": "team-04", "ingestion_date": "2025-02-03"},
            examples=["c00100", "c00101", "c00102", "c00103", "c00104"],
        ),
        Finding(
            "self_low",
            "warning",
            "self@1 is under its limit of 98 %.",
            "Look at the causes below: they say which part loses the documents.",
            n_compared=800,
            share=0.03,
        ),
        Finding(
            "truncation",
            "warning",
            "A third of the chunks is longer than the 256 tokens the model reads.",
            "Cut chunks to at most 256 tokens, or use a model that reads more.",
            n_compared=900,
            share=0.33,
            scope={"source": None},
        ),
        *[
            Finding(
                "stratum_anomaly",
                "warning",
                "self@1 is 31 points under the other dates at the same length.",
                "Look at what this batch's writer did differently.",
                n_compared=40,
                share=0.3,
                scope={"ingestion_date": (FIRST_DATE + dt.timedelta(days=day)).isoformat()},
            )
            for day in range(6)
        ],
        Finding(
            "not_measured",
            "info",
            "Labelled retrieval was not measured: no labels are configured.",
            "Point labels.queries at judged queries.",
            n_compared=0,
            evidence={"what": "labelled_retrieval"},
        ),
        Finding("index_absent", "info", "Under 5,000 rows: search is exact.", "Nothing to do.", 0),
    ]


def flat(name: str, figure: Proportion) -> dict[str, float | None]:
    return {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}


def sample_sweep(labels: bool) -> list[dict[str, Any]]:
    rows = []
    thresholds = (0.90, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99)
    precision = (0.31, 0.52, 0.67, 0.89, 0.96, 0.99, 1.0)
    recall = (0.98, 0.97, 0.95, 0.87, 0.70, 0.41, 0.12)
    flagged = (41_200, 18_300, 8_100, 3_900, 2_100, 900, 210)
    for threshold, p, r, f in zip(thresholds, precision, recall, flagged, strict=True):
        tp = round(400 * r)
        fp = round(tp * (1 - p) / p)
        rows.append(
            {
                "threshold": threshold,
                "threshold_store_score": 1 - threshold,
                "tp": tp if labels else 0,
                "fp": fp if labels else 0,
                "fn": 400 - tp if labels else 0,
                **flat("precision", wilson(tp, tp + fp) if labels else NOT_MEASURED),
                "precision_queue": p / 2 if labels else None,
                "precision_queue_low": p / 2 - 0.1 if labels else None,
                "precision_queue_high": p / 2 + 0.1 if labels else None,
                "precision_queue_n": tp + fp if labels else 0,
                "recall_scored": tp / 400 if labels else None,
                **flat("recall_pipeline", wilson(tp - 4, 400) if labels else NOT_MEASURED),
                "flagged": f,
                "to_read": f - 190,
                "flagged_per_10k_candidates": f / 12.0,
                "flagged_per_10k_chunks": f / 9.1,
                "random_share": 10 ** (-60 * (threshold - 0.85)),
                "expected_all_pairs": 4.1e9 * 10 ** (-60 * (threshold - 0.85)),
                "saturated_rows": f // 30,
                "precision_gained": None,
                "recall_paid": None,
                "exchange": None,
                "inverted": None,
                "recommended": threshold == 0.96,
            }
        )
    return rows


def sample_duplicates(labels: bool = True) -> dict[str, Any]:
    recall = [{"jaccard": j, **wilson(w, 200).as_dict()} for j, w in ((0.5, 171), (0.6, 197), (0.7, 200))]
    return {
        "redundancy": {"exact": 0.021, "lexical": 0.048, "embedding": 0.083 if labels else None},
        "exact": {"groups": 812, "redundant_rows": 1_911, "implied_pairs": 9_130},
        "minhash": {
            "candidates": 8_200,
            "verified": 3_311,
            "measured_recall": recall,
            "expected_recall": [{"jaccard": j, "value": 1 - (1 - j**4) ** 32} for j in (0.5, 0.6, 0.7)],
        },
        "neighbours": {
            "pairs": 910_000,
            "saturated_rows": 321,
            "exact_sample_recall": Proportion(1.0, 0.98, 1.0, 200).as_dict(),
        },
        "floor": {
            **{"mean": 0.71, "p50": 0.71, "p90": 0.78, "p99": 0.84, "p99.9": 0.88, "max": 0.97, "n": 200_000},
            "by_source_pair": [
                {
                    "sources": list(sources),
                    "n": 10_000,
                    "mean": 0.7,
                    "p99.9": p999,
                    "shares": [
                        {"threshold": threshold, **wilson(round(10_000 * 0.002 * rank / (step + 1)), 10_000).as_dict()}
                        for step, threshold in enumerate((0.90, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99))
                    ],
                }
                for rank, (sources, p999) in enumerate([(("api", "api"), 0.912), (("api", "guides"), 0.853)], start=1)
            ],
            "source_pairs_left_out": 4,
        },
        "regime": {"name": "stored", "words": "stored vectors on both sides"},
        "second": sample_second() if labels else None,
        "sweep": sample_sweep(labels),
        "recommended": {
            "threshold": 0.96,
            "low": 0.94 if labels else None,
            "high": 0.97 if labels else None,
            "provisional": not labels,
            "edge": False,
            "regime": "stored",
            "reason": "largest precision + recall_pipeline" if labels else "rests on the similarity floor alone",
        },
        "separation": {
            "labels": {"value": 0.61, "low": 0.55, "duplicates": 400, "others": 700},
            "candidates": {"value": 0.86, "low": 0.81, "duplicates": 310, "others": 420},
            "threshold": 0.90,
            "decides": "candidates",
            "least": 0.75,
            "drawn_by": "components",
        }
        if labels
        else None,
        "elsewhere": [
            {
                "threshold": 0.96,
                "model": "model-m",
                "corpus": "the demo's 3,000 docstrings",
                "random_share": 0.25,
                "pairs": 1_036_000_000,
            }
        ],
        "lane_worth": {
            "threshold": 0.96,
            "minhash_only": {"pairs": 230, "labelled": (wilson(12, 20) if labels else NOT_MEASURED).as_dict()},
            "both": {"pairs": 2_660, "labelled": (wilson(90, 110) if labels else NOT_MEASURED).as_dict()},
            "embedding_only": {"pairs": 870, "labelled": (wilson(61, 190) if labels else NOT_MEASURED).as_dict()},
            "found": {
                lane: (wilson(n, 400) if labels else NOT_MEASURED).as_dict()
                for lane, n in (("minhash", 180), ("embedding", 352), ("either", 371))
            },
            "advice": "MinHash alone finds 230 pairs of copied text that no neighbour list holds: keep it.",
        },
        "clusters": {
            "count": 2_210,
            "members": 5_904,
            "largest": 48,
            "chain_only": 131,
            "numeric": 77,
            "drop": 3_100,
            "copies": 1_870,
            "review": 594,
            "cosine_alone": {"drops": labels, "precision": 0.94 if labels else None, "reason": "Why cosine may drop."},
            "withheld": None if labels else "One cluster grew by chains.",
        },
        "pairs": {"possible": 4_144_000_000, "candidates": 921_000, "never_looked_at": 4_143_079_000, "windows": 12},
        "lanes": {
            "exact": {"pairs": 1_911, "only_this_lane": 1_911, "verified": 1_911},
            "minhash": {"pairs": 8_200, "only_this_lane": 420, "verified": 3_311},
            "neighbour": {"pairs": 910_000, "only_this_lane": 902_220, "verified": 2_890},
        },
        "labels": {
            "duplicates": 400 if labels else 0,
            "others": 700 if labels else 0,
            "constructed_duplicates": 0,
            "constructed_others": 0,
            "invalid": {},
            "conflicts": 2 if labels else 0,
            "adjudicated": 1 if labels else 0,
            "agreement": sample_agreement() if labels else None,
        },
    }


def sample_second() -> dict[str, Any]:
    side = {"threshold": 0.96, "precision": 0.9, "recall_pipeline": 0.85, "auc": 0.97, "edge": False, "sweep": []}
    return {
        "vector": "symmetric",
        "passage_prompt": "query: ",
        "verdict": "better",
        "words": "The second vectors judge duplicates better.",
        "labels": {"duplicates": 400, "others": 700, "left_out": 0},
        "difference": {"value": 0.05, "low": 0.01, "high": 0.09},
        "auc_difference": {"value": 0.01, "low": -0.01, "high": 0.03},
        "first": side,
        "second": side | {"threshold": 0.94, "precision": 0.93, "recall_pipeline": 0.87},
        "cost": {"bytes_per_row": 1536, "bytes": 139_776_000, "texts": 89_000, "encoded": 0, "seconds": None},
    }


def sample_agreement() -> dict[str, Any]:
    """100 pairs judged by two people: 47 yes and 50 no by both, and 3 by one alone."""
    agreed = wilson(97, 100).as_dict()
    both = {"labellers": ["ann", "ben"], "agreed": agreed, "kappa": 0.94}
    return {"labellers": 2, "agreed": agreed, "kappa": 0.94, "by_labellers": [both]}


def sample_tables(p: dict[str, Any]) -> dict[str, pa.Table]:
    retrieved, qrels = retrieved_and_qrels(p)
    return {"self_retrieval": self_table(p), "retrieved": retrieved, "qrels": qrels}


def sample_exports(tables: dict[str, pa.Table]) -> ExportTexts:
    """Texts of the judged chunks, each its own query."""
    qrels = tables["qrels"]
    texts = pa.array([f"{SECRET_TEXT} of {name}" for name in qrels["chunk_id"].to_pylist()])
    corpus = pa.table({"chunk_id": qrels["chunk_id"], "text": texts})
    return ExportTexts(corpus, qrels.select(["run", "query_id"]).append_column("text", texts), corpus.slice(0, 0))


def sample_misses(table: pa.Table) -> list[dict[str, Any]]:
    keys = ("probe_id", "chunk_id", "rank_returned", "rank_min", "rank_max", "cause")
    rows = [row for row in table.to_pylist() if row["cause"]]
    return [
        {**{key: row[key] for key in keys}, "run": "self", "evidence": json.loads(row["evidence"])}
        for row in sorted(rows, key=lambda row: (row["cause"], row["probe_id"]))
    ][:200]


def sample_parts(p: dict[str, Any] | None = None, labels: bool = True) -> dict[str, Any]:
    p = probes() if p is None else p
    own = run_section(p, "self@1", "self@10")
    own |= {"self@1_lenient": own["self@1"], "self@1_unique": own["self@1"]}
    held = run_section(probes(500, seed=8), "heldout@1", "heldout@10") | {"eligible": 500}
    held["heldout@1"], held["heldout@10"] = wilson(330, 500).as_dict(), wilson(441, 500).as_dict()
    labelled = {
        "n": 225,
        "labelled_success@10": wilson(131, 225).as_dict(),
        "labelled_recall@10": bootstrap_mean(np.repeat([0.0, 0.5, 1.0], 75)).as_dict(),
        "without_verbatim": {"n": 180, "labelled_success@10": wilson(90, 180).as_dict()},
    }
    misses = sample_misses(self_table(p))
    causes: dict[str, int] = {}
    for miss in misses:
        causes[miss["cause"]] = causes.get(miss["cause"], 0) + 1
    return {
        "encoder": {"kind": "sentence_transformers", "model": "some/model", "dimension": 384, "max_tokens": 256},
        "index": {
            "uri": "s3://user:hunter2@bucket/lance",
            "table": "chunks",
            "version": 41,
            "rows": 91_000,
            "metric": "cosine",
            "index_type": "IVF_HNSW_SQ",
            "indexed_rows": 90_880,
            "unindexed_rows": 120,
            "plan": {"nodes": ["ANNSubIndex"], "ignored": ["ef"]},
        },
        "corpus": {"chunks": 91_041, "batches": 9_412, "sources": 50},
        "self_retrieval": own,
        "held_out": held,
        "labelled": labelled if labels else None,
        "observed": None,
        "ann_recall": {"n": 725, "ann_recall@10": bootstrap_mean(np.repeat([0.9, 1.0], [60, 665])).as_dict()},
        "ann_sweep": sample_ann_settings(),
        "formatting_arms": sample_arms(),
        "both_sides": sample_both_sides(),
        "causes": {"self": causes, "held_out": {"overlap": 14, "twin": 9, "encoder": 36}, "labelled": {"encoder": 94}},
        "misses": misses,
        "roles": [
            {"source": HOSTILE, "ingestion_date": "2025-01-05", "role": "none", "loss": 0.031, "margin": 8.2, "n": 4},
            {"source": "(none)", "ingestion_date": None, "role": "not_measured", "loss": None, "margin": None, "n": 0},
        ],
        "duplicates": sample_duplicates(labels),
        "verdict": {
            "reading": "relationship" if labels else "not_measured",
            "text": (
                "Documents find themselves (self@1 is high), yet real queries find much less than the texts allow: "
                "queries and documents do not meet. One source was encoded without its prompt. The control is blind "
                "to a prompt that is equal on both sides; what the application really sends was not observed."
            ),
        },
        "self_checks": [{"name": "exact_search_is_whole", "passed": True, "detail": "scored 91,000 of 91,000 rows"}],
        "encoded": {"texts": 2_600, "tokens": 312_000, "from_cache": 1_900},
    }


def sample_audit(labels: bool = True, p: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    return build_audit(
        sample_parts(p, labels) | changed,
        sample_findings(),
        name="handbook",
        created_at=CREATED,
        timings={"self_retrieval": 12.5, "held_out_retrieval": 30.25, "neighbour_pairs": 41.0},
        versions={"audit_pipeline": "0.1.0", "lancedb": "0.40.0"},
        settings=sample_settings(),
    )


def sample_excerpts(audit: dict[str, Any]) -> pa.Table:
    ids = sorted({miss["chunk_id"] for miss in audit["misses"]})
    return pa.table({"chunk_id": ids, "text": [f"{SECRET_TEXT} <b>{i}</b>\n" + "and more words " * 60 for i in ids]})


def sample_both_sides() -> dict[str, Any]:
    """Twelve rows at right angles under both encodings."""
    axes = np.eye(12, dtype=np.float32)
    same = Sides(axes, axes, axes, axes)
    return compare_sides(same, same, np.arange(12), "cosine", "query: ", None)


def sample_arms() -> list[dict[str, Any]]:
    """Two runs of 100 queries under the configured prompt and two others, one of them better beyond chance."""
    configured = np.arange(100) < 60
    better, level = np.arange(100) < 80, np.arange(100) < 62
    asked = [Asked(run, {"query": configured, "none": level, "'query: '": better}) for run in ("held_out", "labelled")]
    arms = {"query": "", "none": "q: ", "'query: '": "query: "}
    return run_formatting_arms(asked, arms).summary["arms"]


def sample_ann_settings() -> dict[str, Any]:
    """Three settings over 100 queries, the declared ones in the middle and under the limit."""
    settings = parse_settings(
        {
            "name": "sample",
            "encoder": {"kind": "none"},
            "index": {"managed": False, "uri": "x", "table": "t", "search": {"nprobes": 4}},
        },
        "sample",
        Path(),
    )
    random = np.random.default_rng(0)
    measured = [
        Measured(
            AnnSettings(nprobes, None, None),
            1 - random.integers(0, lost + 1, 100) / 10,
            random.normal(milliseconds, 0.1, 100) / 1000,
        )
        for nprobes, lost, milliseconds in ((1, 6, 2.0), (4, 3, 2.5), (16, 0, 4.0))
    ]
    section = sweep_section(measured, 1, bootstrap_mean(measured[1].recall), settings, "Build it again.")
    return section | {"queries": 100, "index_type": "IVF_FLAT", "partitions": 16}
