"""Judged queries that point nowhere or at the wrong chunk, and queries that the application sends in another role."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa

from audit_pipeline_tests.faults.index import PASSAGE, QUERY, Batch, Index

OTHERS = 100  # judged queries for chunks of other batches
LOGGED = 40


def judged(index: Index, batch: Batch, answers: dict[int, str]) -> Index:
    """A query of some words for each chunk of the batch and for a hundred others; ``answers`` by place, where wrong."""
    others = np.flatnonzero(~batch.rows)
    places = [*batch.places, *others[:: max(1, len(others) // OTHERS)]]
    ids = index.rows["chunk_id"].to_pylist()
    lines = [
        {"query": " ".join(index.texts[place].split()[:12]), "chunk_id": answers.get(place, ids[place])}
        for place in places
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    return replace(index, files={"queries.jsonl": content}).with_settings("labels", queries="queries.jsonl")


def right(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return judged(index, batch, {})


def point_nowhere(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return judged(index, batch, {int(place): f"gone-{place}" for place in batch.places})


def point_at_another(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The judgement names the chunk half a batch further on."""
    ids = index.rows["chunk_id"].to_pylist()
    moved = np.roll(batch.places, len(batch.places) // 2)
    return judged(index, batch, {int(place): ids[other] for place, other in zip(batch.places, moved, strict=True)})


def logged(index: Index, prompt: str) -> Index:
    """A log of queries as the application sends them under this prompt, and of the rows that came back."""
    places = np.linspace(0, len(index.texts) - 1, LOGGED).astype(int)
    queries = [" ".join(index.texts[place].split()[:12]) for place in places]
    sent = index.encoders.encode(prompt, queries)
    ids = np.array(index.rows["chunk_id"].to_pylist())
    unit = np.array(index.vectors, float) / np.linalg.norm(index.vectors, axis=1, keepdims=True)
    closest = np.argsort(-(sent @ unit.T), axis=1, kind="stable")[:, :10]
    log = pa.table({"query": queries, "vector": sent.tolist(), "returned_ids": ids[closest].tolist()})
    return replace(index, files={"log.parquet": log}).with_settings("labels", observed="log.parquet")


def asked_in_the_query_role(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return logged(index, QUERY)


def asked_in_the_passage_role(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return logged(index, PASSAGE)
