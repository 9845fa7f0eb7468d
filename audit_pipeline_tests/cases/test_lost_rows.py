"""Whole audits of tables that lost or kept rows they should not have, against what their users' stores hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.report.summary import exit_code
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.command import findings
from audit_pipeline_tests.cases.managed import audited_managed, table_rows
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.index.builders import lists

ROWS = 40
Rows = list[tuple[str, str]]
"""(id, text) of each row."""


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return docstrings("rich", ROWS)


def audited(folder: Path, model: Encoder, store: Rows, table: Rows, **settings: Any) -> dict[str, Any]:
    """The audit of a table with these rows against a jsonl file with those, dated in the order of its lines."""
    lines = [
        json.dumps({"id": chunk_id, "text": text, "day": f"2026-01-{2 + (place >= ROWS):02}"})
        for place, (chunk_id, text) in enumerate(store)
    ]
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    ids, stored = [chunk_id for chunk_id, _ in table], [text for _, text in table]
    rows = pa.table({"key": ids, "text": stored, "vector": lists(model.encode(stored))})
    lancedb.connect(str(folder / "db")).create_table("docs", rows)
    columns = {"chunk_id": "id", "ingestion_date": "day"}
    attributes = {
        "name": "lost",
        "sources": [{"name": "docs", "uri": "rows.jsonl", "format": "jsonl", "columns": columns}],
        "encoder": {"model": str(model.files.folder)},
        "sample": {"arms": 0},
        "index": {"uri": "db", "table": "docs", "managed": False, "columns": {"chunk_id": "key"}},
    }
    workspace = Workspace(parse_settings(attributes | settings, "test", folder), folder / "state")
    for asset in CORPUS_ASSETS:
        asset.stage(workspace)
    return load(folder / "state", "lost").audit


def numbered(texts: list[str], prefix: str = "p") -> Rows:
    return [(f"{prefix}{i}", text) for i, text in enumerate(texts)]


def faults(audit: dict[str, Any]) -> dict[str, int]:
    """Rows at fault by code; what a lost row does to self@1 is told beside it."""
    told = [finding for finding in audit["findings"] if finding["severity"] != "info"]
    return {finding["code"]: finding["evidence"]["rows"] for finding in told if finding["code"] != "self_low"}


def test_a_page_that_shrank_from_five_chunks_to_three_leaves_two_orphans(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str]
) -> None:
    table = numbered(texts)
    audit = audited(tmp_path, fast_encoder, [row for row in table if row[0] not in ("p3", "p4")], table)
    assert faults(audit) == {"orphan_rows": 2}
    (orphans,) = [finding for finding in audit["findings"] if finding["code"] == "orphan_rows"]
    assert orphans["examples"] == ["p3", "p4"]
    assert exit_code(audit) == 0


@pytest.mark.parametrize("later_wins", [True, False])
def test_of_two_documents_with_one_id_the_other_one_is_missing(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str], later_wins: bool
) -> None:
    store = [*numbered(texts[:-1]), ("own", texts[-1]), ("p7", "A later document that came with an id in use.")]
    table = [*numbered(texts[:-1]), ("own", texts[-1])]
    table[7] = ("p7", store[-1][1] if later_wins else texts[7])
    audit = audited(tmp_path, fast_encoder, store, table)
    assert faults(audit) == {"missing_rows": 1}
    (missing,) = [finding for finding in audit["findings"] if finding["code"] == "missing_rows"]
    assert (missing["examples"], missing["evidence"]["kinds"]) == (["p7"], {"id_collision": 1})
    assert missing["scope"]["ingestion_date"] == ("2026-01-02" if later_wins else "2026-01-03")


def test_of_two_documents_that_were_written_under_one_id_the_earlier_one_is_lost(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str]
) -> None:
    """Distinct in the store; the writer made one id of both, and the row of p7 now holds the document p8."""
    store = numbered(texts)
    table = [("p7", texts[8]) if chunk_id == "p7" else (chunk_id, text) for chunk_id, text in store if chunk_id != "p8"]
    audit = audited(tmp_path, fast_encoder, store, table)
    assert faults(audit) == {"missing_rows": 1, "text_drift": 1}
    examples = {finding["code"]: finding["examples"] for finding in audit["findings"] if finding["severity"] == "error"}
    assert examples == {"missing_rows": ["p8"], "text_drift": ["p7"]}
    assert audit["causes"]["self"].pop("missing_row") == 1
    assert set(audit["causes"]["self"]) <= {"text_drift"}  # where no text lies nearer, the row is found all the same
    assert exit_code(audit) == 1


def test_a_managed_index_follows_a_page_that_shrank(tmp_path: Path, fast_encoder: Encoder, texts: list[str]) -> None:
    page, others = numbered(texts[:5], "page-"), numbered(texts[5:])
    for rows in ([*page, *others], [*page[:3], *others]):
        audit = audited_managed(tmp_path, str(fast_encoder.files.folder), rows)
        assert table_rows(tmp_path) == dict(rows)
        assert faults(audit) == {}
        assert audit["self_retrieval"]["n"] == len(rows)
        assert audit["self_retrieval"]["self@1"]["value"] == 1


def test_a_managed_index_says_which_document_an_id_in_use_keeps_out(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str]
) -> None:
    rows = [*numbered(texts), ("p7", "A later document that came with an id in use.")]
    audit = audited_managed(tmp_path, str(fast_encoder.files.folder), rows)
    assert len(table_rows(tmp_path)) == ROWS
    assert faults(audit) == {"missing_rows": 1}
    (missing,) = [finding for finding in audit["findings"] if finding["code"] == "missing_rows"]
    assert (missing["examples"], missing["evidence"]["kinds"]) == (["p7"], {"id_collision": 1})
    assert missing["message"].endswith("Another row has the id of 1 of them.")
    assert missing["remedy"] == (
        "Give rows that share an id ids of their own in the source store: the table holds one of them, "
        "the earliest by date and then by source."
    )
    assert exit_code(audit) == 1


@pytest.mark.parametrize("lost", [True, False])
def test_texts_that_lost_a_trailing_section_are_text_drift_with_share_and_ids(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str], lost: bool
) -> None:
    sections = [f"{text}\n\nSee also: {other}" for text, other in zip(texts, [*texts[7:], *texts[:7]], strict=True)]
    store = numbered(sections)
    table = numbered([texts[n] if lost and n % 10 == 3 else whole for n, whole in enumerate(sections)])
    audit = audited(tmp_path, fast_encoder, store, table)
    if not lost:
        assert faults(audit) == {}
        return
    drift = [finding for finding in audit["findings"] if finding["severity"] == "error"]
    assert [finding["code"] for finding in drift] == ["text_drift"]
    evidence = drift[0]["evidence"]
    assert evidence["kinds"] == {"truncated": 4}
    assert 90 <= evidence["characters_lost"]["least"] <= evidence["characters_lost"]["most"] <= 320
    assert (drift[0]["share"], drift[0]["n_compared"], drift[0]["examples"]) == (0.1, ROWS, ["p13", "p23", "p3", "p33"])
    # The vectors were made of the shortened texts: no defect of their own.
    assert set(audit["causes"]["self"]) <= {"text_drift"}
    assert exit_code(audit) == 1


def test_rows_with_new_ids_at_each_ingest_are_compared_and_probed_by_their_text(
    tmp_path: Path, fast_encoder: Encoder, texts: list[str]
) -> None:
    queries = [{"query": texts[i][:60], "chunk_id": f"p{i}"} for i in range(5)]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")
    store, table = numbered(texts), numbered(texts[:-2], "uuid-")
    audit = audited(tmp_path, fast_encoder, store, table, labels={"queries": str(tmp_path / "queries.jsonl")})
    assert faults(audit)["missing_rows"] == 2
    assert findings(audit, "error") == {"missing_rows"}
    assert audit["self_retrieval"]["n"] == ROWS
    assert audit["causes"]["self"] == {"missing_row": 2}
    assert audit["labelled"]["n"] == len(queries)  # judged by the ids that the team knows
    assert audit["labelled"]["labelled_success@10"]["value"] == 1
