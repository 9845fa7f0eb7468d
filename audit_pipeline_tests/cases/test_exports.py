"""Exported rankings, judgements and texts: other evaluators find the audit's own figures in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
from ir_measures import R, Success

from audit_pipeline_tests.cases.conftest import Audit, Corpus, auditing, table_of

ROWS, EQUAL = 90, 3
MEASURES = [Success @ 1, Success @ 10, R @ 10]
RANX = """\
import json, sys
from ranx import Qrels, Run, evaluate
for qrels, run in json.load(sys.stdin):
    found = evaluate(Qrels(qrels), Run(run), ["hit_rate@1", "hit_rate@10", "recall@10"], make_comparable=True)
    print(json.dumps([float(value) for value in found.values()]))
"""


@pytest.fixture(scope="module")
def audit(corpus: Corpus, encoded: Path, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """90 rows, the first three of them equal; some judged queries miss, and one is called as a chunk is."""
    picked = [0] * EQUAL + list(range(1, ROWS - EQUAL + 1))
    table = table_of([corpus.texts[n] for n in picked], corpus.vectors[picked])
    queries = [{"_id": f"q {n}", "query": corpus.texts[picked[n]][:50], "chunk_id": f"c{n:04}"} for n in range(10, 50)]
    # Judged relevant although it is the text of another chunk, and named as a chunk is.
    queries += [
        {"_id": f"c{n:04}", "query": corpus.texts[picked[n]], "chunk_id": f"c{n - 30:04}"} for n in range(60, 70)
    ]
    folder = tmp_path_factory.mktemp("exports")
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit_pipeline.report.publish.render_page", lambda *_: "")
        labels = {"queries": str(folder / "queries.jsonl")}
        return auditing(folder, corpus, encoded)(table, labels=labels, report={"text": "full"})


def reports(audit: Audit) -> Path:
    return audit.folder / "state" / "reports" / "case"


def beir_qrels(folder: Path) -> dict[str, dict[str, int]]:
    header, *lines = (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "query-id\tcorpus-id\tscore"
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for line in lines:
        query, document, score = line.split("\t")
        found[query][document] = int(score)
    return dict(found)


def json_lines(path: Path) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    by_id = {row["_id"]: row for row in rows}
    assert len(by_id) == len(rows)
    return by_id


def test_other_evaluators_find_the_same_figures_in_the_files(audit: Audit) -> None:
    report, figures = audit.report, {}
    for run, section, names in (
        ("self", "self_retrieval", ("self@1", "self@10")),
        ("held_out", "held_out", ("heldout@1", "heldout@10")),
        ("labelled", "labelled", ("labelled_success@10", "labelled_recall@10")),
    ):
        figures[run] = [report[section][name]["value"] for name in names]
    handed = []
    for run, expected in figures.items():
        ranking = list(ir_measures.read_trec_run(str(reports(audit) / "trec" / f"{run}.run")))
        of_trec = list(ir_measures.read_trec_qrels(str(reports(audit) / "trec" / f"{run}.qrels")))
        of_beir = beir_qrels(reports(audit) / "beir" / run)
        for judged in (of_trec, of_beir):
            found = ir_measures.calc_aggregate(MEASURES, judged, ranking)
            measured = [found[m] for m in (MEASURES[1:] if run == "labelled" else MEASURES[:2])]
            assert measured == pytest.approx(expected, abs=1e-9), run
        scored: dict[str, dict[str, float]] = defaultdict(dict)
        for row in ranking:
            scored[row.query_id][row.doc_id] = row.score
        handed.append((of_beir, scored))
    # Its compiler takes half a minute to say the same.
    ranx = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RANX],
        input=json.dumps(handed),
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    by_ranx = [json.loads(line) for line in ranx.stdout.splitlines()]
    for (run, expected), values in zip(figures.items(), by_ranx, strict=True):
        assert (values[1:] if run == "labelled" else values[:2]) == pytest.approx(expected, abs=1e-9), run
    assert report["self_retrieval"]["self@1"]["value"] == pytest.approx((ROWS - EQUAL + 1) / ROWS)
    assert 0 < report["held_out"]["heldout@10"]["value"] < 1
    assert 0 < report["labelled"]["labelled_success@10"]["value"] < 1


def test_queries_and_documents_stand_in_the_files_under_names_of_their_own(audit: Audit, corpus: Corpus) -> None:
    for run, queries in (("self", ROWS), ("held_out", audit.report["held_out"]["n"]), ("labelled", 50)):
        folder = reports(audit) / "beir" / run
        documents, asked, judged = (
            json_lines(folder / "corpus.jsonl"),
            json_lines(folder / "queries.jsonl"),
            beir_qrels(folder),
        )
        assert len(documents) == ROWS
        assert len(asked) == queries
        assert set(asked) == set(judged)
        assert {document for of_query in judged.values() for document in of_query} <= set(documents)
        ranked = {row.query_id for row in ir_measures.read_trec_run(str(reports(audit) / "trec" / f"{run}.run"))}
        assert ranked <= set(judged)
        assert not set(judged) & set(documents)
        if run == "self":
            assert asked["self:c0012"] == {"_id": "self:c0012", "text": corpus.texts[10]}
            assert documents["c0012"] == {"_id": "c0012", "title": "", "text": corpus.texts[10]}
        if run == "held_out":
            for name, query in asked.items():
                assert query["text"] not in documents[name.removeprefix("heldout:")]["text"]
        if run == "labelled":
            assert set(judged["query:c0061"]) == {"c0031"}
            assert asked["query:c0061"]["text"] == corpus.texts[59]


def test_three_rows_of_one_vector_share_the_ranks_one_to_three(audit: Audit) -> None:
    probes = audit.tables().table("self_retrieval", text=False).set_index("chunk_id")
    equal = [f"c{n:04}" for n in range(EQUAL)]
    assert probes.loc[equal, "rank_min"].tolist() == [1, 1, 1]
    assert probes.loc[equal, "rank_max"].tolist() == [3, 3, 3]
    assert sorted(probes.loc[equal, "rank_returned"]) == [1, 2, 3]
    others = probes.drop(equal)
    assert np.array_equal(others[["rank_min", "rank_max"]].to_numpy(), np.ones((ROWS - EQUAL, 2)))
    own = audit.report["self_retrieval"]
    # As returned one of the three is first; in their favour all are; not shared by another, none is.
    figures = {name: own[name]["value"] * ROWS for name in ("self@1", "self@1_lenient", "self@1_unique", "self@10")}
    assert figures == pytest.approx({"self@1": 88, "self@1_lenient": 90, "self@1_unique": 87, "self@10": 90})
    assert own["self@1"]["n"] == ROWS
