"""Every writer's table against the documents its user has: lost and left-over rows are found, clean twins silent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.findings import Finding
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.inspection import proposal
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.index.layouts.writers import (
    EMBEDDED,
    WITH_TEXT,
    WRITERS,
    anythingllm_texts,
    column,
    created,
    uuids,
)

ROWS = 40
LOST = ["A document that the ingest dropped.", "Another one that never arrived in the table."]
STAGES = {asset.stage.__name__: asset.stage for asset in CORPUS_ASSETS}

Rows = list[dict[str, Any]]


def own_ids(texts: list[str]) -> Rows:
    """Documents with ids that the writer never saw: it made new ones, or none."""
    return [{"chunk_id": f"own-{i}", "text": text} for i, text in enumerate(texts)]


STORES: dict[str, tuple[Callable[[list[str]], Rows], dict[str, Any], str]] = {
    "plain": (lambda texts: [{"id": f"c{i:03}", "text": t} for i, t in enumerate(texts)], {"chunk_id": "id"}, "docs"),
    "langchain": (own_ids, {}, "docs"),
    "llama_index": (own_ids, {}, "docs"),
    "haystack": (
        lambda texts: [{"chunk_id": hashlib.sha256(t.encode()).hexdigest(), "body": {"content": t}} for t in texts],
        {"text": "body.content"},
        "docs",
    ),
    "haiku_rag": (own_ids, {}, "docs"),
    "anythingllm": (lambda texts: own_ids(anythingllm_texts(texts)), {}, "docs"),
    "agno": (
        lambda texts: [
            {
                "id": hashlib.md5(t.encode(), usedforsecurity=False).hexdigest(),
                "payload": json.dumps({"content": t}),
            }
            for t in texts
        ],
        {"chunk_id": "id", "text": "payload$.content"},
        "docs",
    ),
    "crewai": (
        lambda texts: [{**row, "source": ["chat", "tool"][i % 2]} for i, row in enumerate(own_ids(texts))],
        {},
        "*",
    ),
    "cognee": (
        lambda texts: [{"doc": f"d{i // 5}", "part": i % 5, "text": t} for i, t in enumerate(texts)],
        {"chunk_id": ["doc", "part"]},
        "docs",
    ),
    "openclaw": (
        lambda texts: [{**row, "kind": ["fact", "decision"][i % 2]} for i, row in enumerate(own_ids(texts))],
        {"source": "kind"},
        "*",
    ),
    "nv_ingest": (own_ids, {}, "docs"),
    "graphrag": (
        lambda texts: [{"chunk_id": i, "text": t} for i, t in zip(uuids(texts, "graph"), texts, strict=True)],
        {},
        "docs",
    ),
    "lancedb_registry": (own_ids, {}, "docs"),
}
"""The user's rows for these texts, the columns and the name of the source."""
BY_ID = {"plain", "haystack", "agno", "graphrag"}


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return docstrings("rich", ROWS)


def audited(
    folder: Path, name: str, texts: list[str], rows: Rows, fast_encoder: Encoder, *stages: str, prompt: str = ""
) -> tuple[Workspace, list[Finding]]:
    """The first stages over a writer's table of these texts, with these rows as its store."""
    vectors = fast_encoder.encode(EMBEDDED.get(name, list)(texts), prompt=prompt)
    if name == "graphrag":
        vectors = np.random.default_rng(0).normal(size=vectors.shape).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    table = WRITERS[name](folder / "db", texts, vectors)
    settings = yaml.safe_load(proposal(str(folder / "db"), table, None))["attributes"]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    _, columns, source = STORES[name]
    settings["sources"] = [{"name": source, "uri": "rows.jsonl", "format": "jsonl", "columns": columns}]
    settings["encoder"] = {"model": str(fast_encoder.files.folder)}
    workspace = Workspace(parse_settings(settings, "test", folder), folder / "state")
    for stage in stages:
        STAGES[stage](workspace)
    return workspace, [finding for stage in stages for finding in workspace.findings(stage)]


def faults(findings: list[Finding]) -> dict[str, int]:
    told = [finding for finding in findings if finding.severity != "info"]
    return {finding.code: finding.evidence["rows"] for finding in told if "rows" in finding.evidence}


@pytest.mark.parametrize("name", WITH_TEXT)
def test_a_table_that_holds_its_users_documents_is_clean(
    name: str, tmp_path: Path, texts: list[str], fast_encoder: Encoder
) -> None:
    stages = ("vector_index", "corpus_integrity", "role_fingerprint")
    workspace, findings = audited(tmp_path, name, texts, STORES[name][0](texts), fast_encoder, *stages)
    assert [finding.code for finding in findings if finding.severity != "info"] == []
    assert workspace.paired["by"] == ("chunk_id" if name in BY_ID else "text")
    roles = workspace.table("role_fingerprint", "batch_arms").to_pylist()
    found = {row["batch"] for row in roles if row["arm"] is not None}
    assert set(workspace.population()["batch"].to_pylist()) <= found  # stand-ins may have a date of their own
    unmeasured = {check for finding in findings for check in finding.evidence.get("checks", [])}
    assert ("text_drift" in unmeasured) == (name not in BY_ID)
    assert not unmeasured & {"missing_rows", "orphan_rows"}


@pytest.mark.parametrize("name", WRITERS)
def test_lost_and_left_over_rows_are_found_in_each_layout(
    name: str, tmp_path: Path, texts: list[str], fast_encoder: Encoder
) -> None:
    rows = STORES[name][0]([*texts, *LOST])
    del rows[ROWS - 1]  # the last text of the table has left the store
    _, findings = audited(tmp_path, name, texts, rows, fast_encoder, "vector_index", "corpus_integrity")
    found = faults(findings)
    assert (found.pop("missing_rows"), found.pop("orphan_rows")) == (2, 1)
    assert found == {}
    missing = next(finding for finding in findings if finding.code == "missing_rows")
    assert ("by their text" in missing.message) == (name not in BY_ID)


def test_documents_without_the_header_that_the_table_stores_are_not_called_lost(
    tmp_path: Path, texts: list[str], fast_encoder: Encoder
) -> None:
    stages = ("vector_index", "corpus_integrity", "role_fingerprint")
    workspace, findings = audited(tmp_path, "anythingllm", texts, own_ids(texts), fast_encoder, *stages)
    assert [finding.code for finding in findings if finding.severity != "info"] == []
    assert workspace.population().num_rows == ROWS  # the table's own rows, which can be probed
    said = [finding.message for finding in findings if finding.code == "not_measured"]
    assert any(f"only 0 of {ROWS} texts do" in message for message in said)


@pytest.mark.parametrize("name", ["langchain", "nv_ingest", "agno", "llama_index"])
def test_a_wrong_role_is_found_against_a_store_paired_in_either_way(
    name: str, tmp_path: Path, texts: list[str], fast_encoder: Encoder
) -> None:
    stages = ("vector_index", "corpus_integrity", "role_fingerprint")
    _, findings = audited(tmp_path, name, texts, STORES[name][0](texts), fast_encoder, *stages, prompt="query: ")
    assert {finding.code for finding in findings if finding.severity == "error"} == {"role_mismatch"}


def test_headings_that_only_the_table_holds_are_part_of_what_was_embedded(
    tmp_path: Path, texts: list[str], fast_encoder: Encoder
) -> None:
    headings = [f"Chapter {i}" for i in range(ROWS)]
    embedded = [f"{heading}\n\n{text}" for heading, text in zip(headings, texts, strict=True)]
    rows = {"chunk_id": [f"c{i}" for i in range(ROWS)], "text": texts, "heading": headings}
    created(tmp_path / "db", "docs", rows | {"vector": column(fast_encoder.encode(embedded))})
    lines = [json.dumps({"chunk_id": f"c{i}", "text": text}) for i, text in enumerate(texts)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    settings = {
        "name": "headings",
        "sources": [{"name": "docs", "uri": "rows.jsonl", "format": "jsonl"}],
        "encoder": {"model": str(fast_encoder.files.folder)},
        "index": {"uri": "db", "table": "docs", "managed": False, "embed_text": "{heading}\n\n{text}"},
    }
    workspace = Workspace(parse_settings(settings, "test", tmp_path), tmp_path / "state")
    for stage in ("vector_index", "corpus_integrity", "role_fingerprint"):
        STAGES[stage](workspace)
    found = workspace.findings("corpus_integrity") + workspace.findings("role_fingerprint")
    assert [finding.code for finding in found if finding.severity != "info"] == []
    assert all(row["arm"] is not None for row in workspace.table("role_fingerprint", "batch_arms").to_pylist())
