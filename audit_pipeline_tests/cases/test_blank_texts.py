"""Rows without a visible character among good ones: left out with a reason where rows are ours, told where not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from audit_pipeline.report.summary import exit_code
from audit_pipeline_tests.cases.conftest import Audit, AuditTable, Corpus, table_of
from audit_pipeline_tests.cases.managed import DAY, audited_managed, table_rows

GOOD = 20
BLANK = {
    "nothing": "",
    "spaces": "   ",
    "lines": "\n\t",
    "non-breaking": "\u00a0\u3000",
    "zero-width": "\u200b\ufeff",
    "joiners": "\u2060\u200d\u00ad",
}


def good_rows(corpus: Corpus) -> dict[str, str]:
    return {f"c{n:02}": text for n, text in enumerate(corpus.texts[:GOOD])}


def told(audit: dict[str, Any]) -> dict[str, Any]:
    """The one finding above info."""
    (finding,) = [finding for finding in audit["findings"] if finding["severity"] != "info"]
    assert finding["code"] == "empty_text"
    assert finding["severity"] == "warning"
    assert exit_code(audit) == 0
    return finding


def test_a_managed_index_takes_the_good_rows_and_keeps_the_blank_ones_apart_with_their_reason(
    corpus: Corpus, tmp_path: Path
) -> None:
    audit = audited_managed(tmp_path, corpus.model, [*good_rows(corpus).items(), *BLANK.items()])
    assert table_rows(tmp_path) == good_rows(corpus)
    (path,) = (tmp_path / "state").rglob("rejected.parquet")
    rejected = pq.read_table(path).to_pylist()
    assert {row["chunk_id"]: row["reason"] for row in rejected} == dict.fromkeys(BLANK, "empty_text")
    assert {row["detail"] for row in rejected} == {"the text is empty or white space only"}
    finding = told(audit)
    assert (finding["n_compared"], finding["evidence"]["kinds"]) == (GOOD + len(BLANK), {"rejected": len(BLANK)})
    assert set(finding["examples"]) <= BLANK.keys()
    assert audit["corpus"]["chunks"] == audit["self_retrieval"]["n"] == GOOD
    assert audit["self_retrieval"]["self@1"]["value"] == 1


@pytest.mark.parametrize("store", ["none", "with the blank rows", "without them"])
def test_a_table_of_others_that_took_them_in_is_told_once_and_they_are_no_probes(
    audit_table: AuditTable, corpus: Corpus, tmp_path: Path, store: str
) -> None:
    audit = audited(audit_table, corpus, tmp_path, BLANK, store).report
    orphans = [finding for finding in audit["findings"] if finding["code"] == "orphan_rows"]
    if store == "without them":
        # What no source holds is no row of theirs either.
        assert [finding["evidence"]["rows"] for finding in orphans] == [len(BLANK)]
        audit["findings"].remove(orphans[0])
    finding = told(audit)
    # Rows that no source holds have no date here, and with it a cell of their own.
    compared = len(BLANK) if store == "without them" else GOOD + len(BLANK)
    assert (finding["n_compared"], finding["evidence"]["kinds"]) == (compared, {"in_table": len(BLANK)})
    assert audit["corpus"]["chunks"] == audit["self_retrieval"]["n"] == GOOD
    assert audit["self_retrieval"]["self@1"]["value"] == 1
    # They are of the store's batch, so there is none of its own in which nothing could be measured.
    places = [finding for finding in audit["findings"] if finding["code"] == "not_measured" and finding["scope"]]
    assert store == "without them" or places == []


def test_a_table_that_left_them_out_is_told_what_the_store_holds(
    audit_table: AuditTable, corpus: Corpus, tmp_path: Path
) -> None:
    audit = audited(audit_table, corpus, tmp_path, {}, "with the blank rows").report
    assert told(audit)["evidence"]["kinds"] == {"rejected": len(BLANK)}


def test_visible_texts_of_any_length_are_not_blank(audit_table: AuditTable, corpus: Corpus, tmp_path: Path) -> None:
    audit = audited(audit_table, corpus, tmp_path, {"dash": "\u200b-\u00a0", "letter": " a "}, "none").report
    assert "empty_text" not in {finding["code"] for finding in audit["findings"]}
    assert audit["corpus"]["chunks"] == GOOD + 2


def audited(audit_table: AuditTable, corpus: Corpus, folder: Path, more: dict[str, str], store: str) -> Audit:
    """The table of the good rows and these, against a store of rows."""
    settings: dict[str, Any] = {}
    if store != "none":
        rows = good_rows(corpus) | (BLANK if store == "with the blank rows" else {})
        lines = [json.dumps({"chunk_id": chunk_id, "text": text}) for chunk_id, text in rows.items()]
        (folder / "store.jsonl").write_text("\n".join(lines), encoding="utf-8")
        source = {"name": "docs", "uri": str(folder / "store.jsonl"), "format": "jsonl", "ingestion_date": DAY}
        settings["sources"] = [source]
    rows = good_rows(corpus) | more
    # What their writer's encoder made of nothing: a vector like any other.
    vectors = np.concatenate((corpus.vectors[:GOOD], corpus.vectors[GOOD : GOOD + len(more)]))
    return audit_table(table_of(list(rows.values()), vectors, chunk_id=list(rows)), **settings)


def test_texts_without_a_token_that_the_model_knows_are_left_out_of_the_comparison_and_counted(
    audit_table: AuditTable, corpus: Corpus
) -> None:
    """Accents without a letter: a reader sees them, this model's tokenizer drops them, and their mean is no number."""
    accents = ["\u0301" * (n + 1) for n in range(5)]
    texts = [*corpus.texts[:GOOD], *accents]
    prompts = {"query_prompt": "query: ", "passage_prompt": ""}
    audit = audit_table(table_of(texts, corpus.vectors[: len(texts)]), encoder=prompts).report
    (left_out,) = [
        finding
        for finding in audit["findings"]
        if finding["code"] == "not_measured" and "no vector with a direction" in finding["message"]
    ]
    drawn = left_out["evidence"]["rows"]
    assert 1 <= drawn <= len(accents)
    assert {(role["role"], role["loss"] < 1e-6) for role in audit["roles"]} == {("passage", True)}
    assert {finding["code"] for finding in audit["findings"] if finding["severity"] == "error"} == set()
