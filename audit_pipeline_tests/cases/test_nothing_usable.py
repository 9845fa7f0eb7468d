"""Where no sampled row can be used nothing is measured: neither 0 nor 1 is shown for it, on any surface."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.orchestration.metadata import PLOTTED, stage_metadata
from audit_pipeline.report.summary import terminal_summary
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.conftest import Audit, AuditTable, Corpus, table_of

ROWS = 30
SHARE = re.compile(r"(?<![\d.,])(?:0|0\.0|100|100\.0) ?%")
OF_ALL_ROWS = f"100 % of {ROWS}"  # share of a finding about the rows, which were all looked at
PROMPTS = {"query_prompt": "query: ", "passage_prompt": "passage: "}


def proportions(value: Any, path: str = "") -> dict[str, dict[str, Any]]:
    """Every proportion of audit.json by its path."""
    if isinstance(value, dict):
        if value.keys() >= {"value", "low", "high", "n"}:
            return {path: value}
        return {k: v for key, part in value.items() for k, v in proportions(part, f"{path}/{key}").items()}
    if isinstance(value, list):
        return {k: v for place, part in enumerate(value) for k, v in proportions(part, f"{path}/{place}").items()}
    return {}


def page_of(audit: Audit) -> str:
    """What a reader sees of the page, without markup and charts."""
    html = next((audit.folder / "state" / "reports").rglob("audit.html")).read_text(encoding="utf-8")
    for tag in ("style", "script", "svg"):
        html = re.sub(f"<{tag}.*?</{tag}>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def metadata_of(audit: Audit, model: str) -> dict[str, Any]:
    """Everything that the stages show in the Dagster UI."""
    index = {"uri": "db", "table": "docs", "managed": False}
    attributes = {"name": "case", "encoder": {"model": model} | PROMPTS, "index": index, "sample": {"arms": 0}}
    workspace = Workspace(parse_settings(attributes, "test", audit.folder), audit.folder / "state")
    return {k: v for asset in CORPUS_ASSETS for k, v in stage_metadata(workspace.result(asset.name)).items()}


@pytest.mark.page
def test_rows_without_any_text_leave_every_figure_unmeasured(audit_table: AuditTable, corpus: Corpus) -> None:
    audit = audit_table(table_of([" "] * ROWS, corpus.vectors[:ROWS]), encoder=PROMPTS)
    found = proportions(audit.report)
    assert {path for path, figure in found.items() if figure["n"] or figure["value"] is not None} == set()
    assert found.keys() >= {"/self_retrieval/self@1", "/held_out/heldout@10", "/ann_recall/ann_recall@10"}
    assert audit.report["verdict"]["reading"] == "not_measured"
    assert set(audit.report["duplicates"]["redundancy"].values()) == {None}
    assert audit.report["duplicates"]["floor"]["n"] == 0
    assert audit.report["duplicates"]["recommended"]["threshold"] is None
    assert {"self@1", "self@10", "heldout@10"} <= unmeasured(audit)
    summary = terminal_summary(audit.report, audit.folder)
    assert re.search(r"redundant: not measured\nno duplicate threshold recommended", summary)
    for surface in (summary, page_of(audit), audit.report["verdict"]["text"]):
        assert SHARE.findall(surface.replace(OF_ALL_ROWS, "")) == []
    assert metadata_of(audit, corpus.model).keys().isdisjoint(PLOTTED)


@pytest.mark.parametrize("value", [0, np.inf])
def test_vectors_of_which_none_is_usable_are_no_figure_of_vectors(
    audit_table: AuditTable, corpus: Corpus, value: float
) -> None:
    """The rows stand in the table and cannot be found, which is measured; what their vectors are like is not."""
    table = table_of(corpus.texts[:ROWS], np.full((ROWS, corpus.vectors.shape[1]), value))
    audit = audit_table(table, encoder=PROMPTS)
    assert audit.causes == {"invalid_vector": ROWS}
    assert audit.finding("invalid_vectors")["evidence"]["rows"] == ROWS
    assert {"role_fingerprint", "heldout@10", "neighbour_pairs"} <= unmeasured(audit)
    assert {(row["loss"], row["margin"]) for row in audit.report["roles"]} == {(None, None)}
    assert "passage" not in {row["role"] for row in audit.report["roles"]}
    duplicates = audit.report["duplicates"]
    assert (duplicates["redundancy"]["embedding"], duplicates["floor"]["mean"], duplicates["floor"]["n"]) == (
        None,
        None,
        0,
    )
    assert duplicates["neighbours"]["exact_sample_recall"]["value"] is None
    assert not {"vector_drift", "role_mismatch", "misaligned_vectors"} & audit.codes()
    shown = metadata_of(audit, corpus.model).keys() & set(PLOTTED)
    assert shown == {"self@1", "self@10"}


def unmeasured(audit: Audit) -> set[str]:
    """What the findings say was not measured, each of them with nothing compared."""
    found = [finding for finding in audit.report["findings"] if finding["code"] == "not_measured"]
    assert {finding["n_compared"] for finding in found} == {0}
    assert {finding["share"] for finding in found} == {None}
    return {str(finding["evidence"].get(key)) for finding in found for key in ("measure", "check", "what")}


def test_a_table_of_no_rows_is_an_error_and_nothing_of_it_a_figure(audit_table: AuditTable, corpus: Corpus) -> None:
    audit = audit_table(table_of([], corpus.vectors[:0]), encoder=PROMPTS)
    assert audit.codes("error") == {"index_empty"}
    assert {path for path, figure in proportions(audit.report).items() if figure["n"]} == set()
    summary = terminal_summary(audit.report, audit.folder)
    assert "ERROR   index_empty: whole corpus" in summary
