from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from audit_pipeline.report.trec import write_trec
from audit_pipeline.schemas import TABLES
from audit_pipeline_tests.report.sample_tables import retrieved_and_qrels


def read_run(path: Path) -> dict[str, list[str]]:
    """Documents of each query as an evaluator orders them: by score in single precision, ties by name."""
    scored = defaultdict(list)
    for line in path.read_text().splitlines():
        query, q0, document, _, score, _ = line.split()
        assert q0 == "Q0"
        scored[query].append((-float(score), document))
    return {query: [document for _, document in sorted(found)] for query, found in scored.items()}


def read_qrels(path: Path) -> dict[str, set[str]]:
    relevant = defaultdict(set)
    for line in path.read_text().splitlines():
        query, _, document, grade = line.split()
        if int(grade) > 0:
            relevant[query].add(document)
    return relevant


def success(run: dict[str, list[str]], relevant: dict[str, set[str]], k: int) -> float:
    return sum(bool(set(run.get(query, [])[:k]) & good) for query, good in relevant.items()) / len(relevant)


def test_figures_recomputed_from_the_files_equal_those_of_the_table(tmp_path: Path, probes: dict[str, Any]) -> None:
    retrieved, qrels = retrieved_and_qrels(probes)
    write_trec(tmp_path, retrieved, qrels)
    run, relevant = read_run(tmp_path / "self.run"), read_qrels(tmp_path / "self.qrels")
    assert success(run, relevant, 1) == pytest.approx(probes["hit_1"].mean())
    assert success(run, relevant, 10) == pytest.approx(probes["hit_10"].mean())
    assert 0 < probes["hit_1"].mean() < probes["hit_10"].mean() < 1


def test_no_query_has_the_name_of_a_document(tmp_path: Path, probes: dict[str, Any]) -> None:
    write_trec(tmp_path, *retrieved_and_qrels(probes))
    run = read_run(tmp_path / "self.run")
    assert not set(run) & {document for found in run.values() for document in found}


def test_tied_scores_keep_the_order_in_which_rows_came(tmp_path: Path) -> None:
    rows = [
        {"run": "labelled", "query_id": "q", "rank": rank, "chunk_id": chunk, "score": 0.5}
        for rank, chunk in ((3, "a"), (1, "c"), (2, "b"))
    ]
    judged = [{"run": "labelled", "query_id": "q", "chunk_id": "c", "relevance": 1}]
    write_trec(tmp_path, pa.Table.from_pylist(rows, TABLES["retrieved"]), pa.Table.from_pylist(judged, TABLES["qrels"]))
    assert (tmp_path / "labelled.run").read_text().splitlines() == [
        "q Q0 c 1 3 audit-pipeline",
        "q Q0 b 2 2 audit-pipeline",
        "q Q0 a 3 1 audit-pipeline",
    ]


def test_white_space_in_ids_does_not_break_the_columns(tmp_path: Path) -> None:
    names = ["two words", "100%", "tab\there", "wide\u00a0space", "plain", "", "%"]
    judged = [{"run": "self", "query_id": f"self:{name}", "chunk_id": name, "relevance": 1} for name in names]
    rows = [{"run": "self", "query_id": f"self:{name}", "rank": 1, "chunk_id": name, "score": 1.0} for name in names]
    write_trec(tmp_path, pa.Table.from_pylist(rows, TABLES["retrieved"]), pa.Table.from_pylist(judged, TABLES["qrels"]))
    relevant = read_qrels(tmp_path / "self.qrels")
    assert relevant["self:two%20words"] == {"two%20words"}
    assert len(relevant) == len(names) == len(set.union(*relevant.values()))
    assert success(read_run(tmp_path / "self.run"), relevant, 1) == 1


def test_an_empty_id_keeps_its_column(tmp_path: Path) -> None:
    judged = [{"run": "self", "query_id": "self:", "chunk_id": "", "relevance": 1}]
    rows = [{"run": "self", "query_id": "self:", "rank": 1, "chunk_id": "", "score": 1.0}]
    write_trec(tmp_path, pa.Table.from_pylist(rows, TABLES["retrieved"]), pa.Table.from_pylist(judged, TABLES["qrels"]))
    assert (tmp_path / "self.run").read_text() == "self: Q0 % 1 1 audit-pipeline\n"
    assert (tmp_path / "self.qrels").read_text() == "self: 0 % 1\n"


def test_a_run_that_returned_nothing_counts_its_queries_as_misses(tmp_path: Path) -> None:
    judged = [{"run": "self", "query_id": "self:a", "chunk_id": "a", "relevance": 1}]
    write_trec(tmp_path, TABLES["retrieved"].empty_table(), pa.Table.from_pylist(judged, TABLES["qrels"]))
    assert (tmp_path / "self.run").read_text() == ""
    assert success(read_run(tmp_path / "self.run"), read_qrels(tmp_path / "self.qrels"), 10) == 0
