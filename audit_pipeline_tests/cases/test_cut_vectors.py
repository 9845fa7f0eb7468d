"""Vectors of a runtime that cut long texts: its cut is named, and is the fault of a batch or the corpus's own way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.encoder.models import SentenceTransformerEncoder
from audit_pipeline.report.loading import load
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.index import pinned_snapshot
from audit_pipeline.stages.vectors import fidelity_of
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.planted_table import (
    CELLS,
    PER_CELL,
    audited,
    errors,
    finding,
    findings,
    in_cell,
    long_and_short_texts,
    rows_of_cells,
    vector_column,
)
from audit_pipeline_tests.encoder.test_truncation_probe import CuttingEncoder

PROMPT = "passage: "
FIDELITY = ("embedded_text_found", "embedded_text_unknown", "vector_drift", "role_mismatch", "misaligned_vectors")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return long_and_short_texts()


class Planted:
    """Audits of these texts with vectors of the fast model."""

    def __init__(self, encoder: SentenceTransformerEncoder, texts: list[str], folder: Path) -> None:
        self.encoder, self.texts, self.folder = encoder, texts, folder
        self.whole = self.vectors(None, 0)

    def vectors(self, kept: Any, limit: int) -> np.ndarray:
        return CuttingEncoder(self.encoder, kept, limit)(self.texts, PROMPT)

    def audit(self, vectors: np.ndarray, **more: Any) -> dict[str, Any]:
        rows = rows_of_cells(self.texts)
        settings = {"model": str(self.encoder.files.folder), "query_prompt": "query: ", "passage_prompt": PROMPT}
        return audited(
            self.folder,
            rows.append_column("vector", vector_column(vectors)),
            rows,
            settings,
            **{"whole": False, **more},
        )


@pytest.fixture
def planted(fast_encoder: SentenceTransformerEncoder, texts: list[str], tmp_path: Path) -> Planted:
    return Planted(fast_encoder, texts, tmp_path)


def test_whole_texts_show_no_cut_and_none_is_truncated(planted: Planted) -> None:
    found = planted.audit(planted.whole)
    assert findings(found, *FIDELITY, "truncation") == []
    assert "truncation" not in [check for f in found["findings"] for check in f["evidence"].get("checks", [])]
    assert (found["encoder"]["reach"]["texts"], found["encoder"]["reach"]["cut"]) == (4, None)
    assert found["encoder"]["cut"] is None


@pytest.mark.parametrize("kept", ["head", "tail"])
def test_a_cut_of_the_whole_corpus_is_named_and_no_drift(planted: Planted, kept: str) -> None:
    found = planted.audit(planted.vectors(kept, 96), whole=True)
    assert findings(found, *FIDELITY) == [("embedded_text_found", "info", {})]
    cut = finding(found, "embedded_text_found")
    assert (cut["evidence"]["cut"], cut["evidence"]["tokens"], cut["share"]) == (kept, 96, 1.0)
    assert f"only the {'first' if kept == 'head' else 'last'} 96 tokens of longer texts" in cut["message"]
    assert errors(found) == []
    assert {row["role"] for row in found["roles"]} == {"passage"}
    assert not {"vector_drift", "role_mismatch"} & set(found["causes"]["self"])
    # No batch of eight rows has a share of its own; the corpus has.
    assert findings(found, "truncation") == [("truncation", "warning", {})]


@pytest.mark.parametrize("kept", ["head", "tail"])
def test_held_out_bodies_are_cut_as_the_writer_cut_the_rows(planted: Planted, kept: str) -> None:
    """Against plain arithmetic over bodies that a cutting encoder encodes itself."""
    vectors = planted.vectors(kept, 96)
    found = planted.audit(vectors, whole=True)
    probes = load(planted.folder / "state", "planted").table("held_out_retrieval", text=False)
    (kept_plan,) = planted.folder.rglob("held_out_plan.parquet")
    plan = pq.read_table(kept_plan).to_pandas()
    plan = plan[plan["eligible"]]
    rows = plan["chunk_id"].str[1:].astype(int).to_numpy()
    queries = planted.encoder.encode(plan["held"].tolist(), prompt="query: ")

    def ranks(bodies: np.ndarray) -> dict[str, int]:
        replaced = np.array(vectors, np.float64)
        replaced[rows] = bodies
        scores = queries.astype(np.float64) @ (replaced / np.linalg.norm(replaced, axis=1, keepdims=True)).T
        own = scores[np.arange(len(rows)), rows]
        return dict(zip(plan["chunk_id"], 1 + (scores > own[:, None] + 1e-6).sum(axis=1), strict=True))

    as_written = ranks(CuttingEncoder(planted.encoder, kept, 96)(plan["body"].tolist(), PROMPT))
    eligible = probes[probes["eligible"]]
    assert dict(zip(eligible["chunk_id"], eligible["rank_min"], strict=True)) == as_written
    assert as_written != ranks(planted.encoder.encode(plan["body"].tolist(), prompt=PROMPT))
    assert found["causes"]["held_out"]["truncated"] > 0
    evidence = [m["evidence"] for m in found["misses"] if (m["run"], m["cause"]) == ("held_out", "truncated")]
    which = f"the {'first' if kept == 'head' else 'last'} 96 tokens"
    assert {"encoded": which, "would_hit": True} in evidence
    # Rows 0 and 2 are long, row 1 is one docstring.
    settings = {"name": "planted", "encoder": {"model": str(planted.encoder.files.folder), "passage_prompt": PROMPT}}
    settings["index"] = {"uri": "db", "table": "docs", "managed": False}
    workspace = Workspace(parse_settings(settings, "test", planted.folder), planted.folder / "state")
    judged = fidelity_of(workspace, pinned_snapshot(workspace), ["c000", "c001", "c002"])
    assert judged.states == {"c000": ("faithful", which), "c001": ("faithful", None), "c002": ("faithful", which)}


def test_a_cut_of_one_batch_is_its_drift_with_the_cut_in_the_message(planted: Planted) -> None:
    batch = ("beta", "2026-01-03")
    vectors = np.where(in_cell(*batch)[:, None], planted.vectors("head", 64), planted.whole)
    found = planted.audit(vectors)
    assert errors(found) == [("vector_drift", {"source": batch[0], "ingestion_date": batch[1]})]
    drift = finding(found, "vector_drift")
    assert "hold the encoding of only the first 64 tokens of their text" in drift["message"]
    assert (drift["evidence"]["cut"], drift["evidence"]["tokens"]) == ("head", 64)
    assert findings(found, "embedded_text_found") == []


def test_a_row_that_was_not_cut_deviates_where_all_others_are(planted: Planted) -> None:
    longest = max(range(len(planted.texts)), key=lambda i: len(planted.texts[i].split()))  # always compared
    vectors = planted.vectors("head", 96)
    vectors[longest] = planted.whole[longest]
    found = planted.audit(vectors)
    assert findings(found, "embedded_text_found") == [("embedded_text_found", "info", {})]
    source, day = CELLS[longest // PER_CELL]
    assert errors(found) == [("vector_drift", {"source": source, "ingestion_date": day})]
    message = finding(found, "vector_drift")["message"]
    assert "1 of " in message
    assert "the whole of their text, where the rest of the corpus encodes only the first 96 tokens" in message


def test_truncation_counts_with_the_cut_that_the_vectors_show(planted: Planted) -> None:
    found = planted.audit(planted.vectors("head", 96), ingestion_grain="month")
    truncation = finding(found, "truncation")
    assert (truncation["scope"], truncation["severity"]) == ({}, "warning")
    tokens = planted.encoder.count_tokens(pa.array([PROMPT + text for text in planted.texts]))
    assert (truncation["evidence"]["rows"], truncation["n_compared"]) == (int((tokens > 96).sum()), len(tokens))
    assert "longer than the first 96 tokens that the vectors encode" in truncation["message"]


def test_another_models_vectors_are_drift_without_a_cut(planted: Planted) -> None:
    turned = planted.whole[:, np.random.default_rng(0).permutation(planted.whole.shape[1])]
    found = planted.audit(turned)
    assert errors(found) == [("vector_drift", {})]
    assert "cut" not in finding(found, "vector_drift")["evidence"]
