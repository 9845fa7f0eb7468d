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
from audit_pipeline.proportions import bootstrap_mean, stratified, wilson
from audit_pipeline.report.audit_json import build_audit
from audit_pipeline.retrieval.ann_choice import Measured
from audit_pipeline.retrieval.ann_sweep import sweep_section
from audit_pipeline.retrieval.both_sides import Sides, compare_sides
from audit_pipeline.retrieval.formatting_arms import Asked, run_formatting_arms
from audit_pipeline.settings_file import parse_settings
from audit_pipeline_tests.report.sample_duplicates import sample_duplicates
from audit_pipeline_tests.report.sample_tables import FIRST_DATE, HOSTILE, SECRET_TEXT, probes, self_table

CREATED = dt.datetime(2026, 3, 1, 6, 30, tzinfo=dt.UTC)


def sample_settings(**report: Any) -> IndexAuditSettings:
    attributes = {
        "name": "handbook",
        "encoder": {"model": "some/model", "query_prompt": "query: ", "passage_prompt": "passage: "},
        "index": {
            "uri": "s3://hunter2@bucket/lance",
            "table": "chunks",
            "managed": False,
            "storage_options": {"aws_secret_access_key": "hunter2"},
        },
        "report": report or {"text": "excerpt"},
    }
    return parse_settings(attributes, "sample", Path("/nowhere"))


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
