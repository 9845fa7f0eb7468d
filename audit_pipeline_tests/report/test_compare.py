"""Two audits side by side: which questions pair, what changed on them, and that an unchanged audit changed nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from audit_pipeline import schemas
from audit_pipeline.cli import app
from audit_pipeline.proportions import mcnemar, paired_difference
from audit_pipeline.report.comparable import comparable, side_of
from audit_pipeline.report.compare import compare
from audit_pipeline.report.compare_text import comparison_text
from audit_pipeline.report.pairing import pair_probes
from audit_pipeline.report.saved import open_report
from audit_pipeline_tests.small_audit import SmallAudit, median_words, rows_of_corpus

ROWS = 60


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1, 7, 1, 12), (-0.2857, -0.507, -0.026)),  # as published in Fagerland, Lydersen & Laake 2013
        ((36, 2, 12, 0), (0.2, 0.0569, 0.3404)),  # as published in Newcombe 1998b
    ],
)
def test_the_interval_of_a_paired_difference_is_the_published_one(
    counts: tuple[int, int, int, int], expected: tuple[float, float, float]
) -> None:
    assert paired_difference(*counts) == pytest.approx(expected, abs=5e-4)


def test_mcnemar_is_the_two_sided_binomial() -> None:
    assert mcnemar(7, 1) == pytest.approx(2 * (1 + 8) / 2**8)
    assert mcnemar(0, 0) == 1.0


def probes(hits: list[bool], **columns: Any) -> pd.DataFrame:
    """A self_retrieval table of probes p00, p01, ... with texts t00, t01, ..."""
    n = len(hits)
    names = [f"{number:02d}" for number in range(n)]
    return pd.DataFrame(
        {
            "probe_id": [f"self:p{name}" for name in names],
            "chunk_id": [f"p{name}" for name in names],
            "source": ["a"] * n,
            "ingestion_date": ["2026-01-02"] * n,
            "length_band": ["0-39"] * n,
            "text_sha256": [f"t{name}" for name in names],
            "hit_1": hits,
            "hit_10": [True] * n,
            "cause": [None if hit else "twin" for hit in hits],
            **columns,
        }
    )


def test_probes_pair_by_id_and_leave_out_what_only_one_asked_and_what_has_another_text() -> None:
    before = probes([True] * 5)
    after = probes([True, False, True, True, True], text_sha256=["t00", "t01", "t02", "t03", "new"])
    pairs = pair_probes("self", before.drop(index=0), after.drop(index=2))
    assert pairs.by == "id"
    assert pairs.frame["id_b"].tolist() == ["self:p01", "self:p03"]
    assert (pairs.only_a, pairs.only_b, pairs.changed) == (1, 1, 1)
    assert pairs.frame["self@1 a"].tolist() == [True, True]
    assert pairs.frame["self@1 b"].tolist() == [False, True]


def test_probes_with_new_ids_pair_by_text_and_copies_in_their_order() -> None:
    before = probes([True, False, True], text_sha256=["x", "x", "y"])
    after = probes([False, True, True], text_sha256=["y", "x", "x"], probe_id=["self:q0", "self:q1", "self:q2"])
    pairs = pair_probes("self", before, after)
    assert pairs.by == "text"
    assert list(zip(pairs.frame["id_a"], pairs.frame["id_b"], strict=True)) == [
        ("self:p02", "self:q0"),
        ("self:p00", "self:q1"),
        ("self:p01", "self:q2"),
    ]


def test_held_out_probes_pair_only_where_the_same_sentence_was_held() -> None:
    held = {"eligible": [True, True, False, True], "overlap": [False, False, None, True]}
    before = probes([True] * 4, held=["middle"] * 4, **held)
    after = probes([True] * 4, held=["middle", "first", "middle", "middle"], **held)
    assert pair_probes("held_out", before, after).frame["id_b"].tolist() == ["self:p00"]


def test_held_out_probes_pair_by_their_sentence_where_chunks_are_others() -> None:
    def held(sentences: list[str], **columns: Any) -> pd.DataFrame:
        n = len(sentences)
        asked = {"eligible": [True] * n, "overlap": [False] * n, "held_sha256": sentences}
        return probes([True] * n, **asked, **columns)

    before = held(["s0", "s1", "s2", "s2"], held=["middle"] * 4)
    names = {name: ["self:q0", "self:q1", "self:q2"] for name in ("probe_id", "text_sha256")}
    after = held(["s2", "s0", "s4"], held=["like"] * 3, **names)
    pairs = pair_probes("held_out", before, after)
    # s2 was asked of two chunks of the first: neither is the other's question.
    assert (pairs.by, pairs.frame[["id_a", "id_b"]].to_numpy().tolist()) == ("sentence", [["self:p00", "self:q1"]])
    assert (pairs.only_a, pairs.only_b) == (3, 2)


def test_labelled_queries_with_new_ids_pair_by_their_text() -> None:
    def labelled(ids: list[str], texts: list[str]) -> pd.DataFrame:
        names = {"query_id": ids, "answer_id": ["p1", "p2"], "success_10": [True, False]}
        return probes([True, True], text_sha256=texts).drop(columns=["probe_id", "chunk_id"]).assign(**names)

    pairs = pair_probes("labelled", labelled(["q1", "q2"], ["a", "b"]), labelled(["1", "2"], ["b", "c"]))
    assert (pairs.by, pairs.frame[["id_a", "id_b"]].to_numpy().tolist()) == ("text", [["q2", "1"]])


@pytest.mark.parametrize(("median_words", "shared", "compared"), [(100, 10, True), (300, 40, True), (300, 10, False)])
def test_own_texts_are_not_compared_where_the_chunks_are_others(median_words: int, shared: int, compared: bool) -> None:
    """A few chunks that are equal in both, such as whole short documents, stand for neither index."""
    new = [f"new{number}" for number in range(ROWS - shared)]
    before = probes([True] * ROWS)
    after = probes([True] * ROWS, **{n: before[n].tolist()[:shared] + new for n in ("probe_id", "text_sha256")})
    sides = {"a": {"median_words": 100}, "b": {"median_words": median_words}}
    pairs, why = comparable({"self": pair_probes("self", before, after)}, sides)
    assert len(pairs["self"].frame) == (shared if compared else 0)
    assert ("self" in why) is not compared
    if not compared:
        assert "of 100 words in the first and 300 in the second; the 10 that are equal in both" in why["self"]


@pytest.mark.parametrize(
    ("words", "weights", "median"),
    [
        ([30, 10, 20], [1, 1, 1], 20),
        ([40, 10, 20, 30], [1, 1, 1, 1], 25),  # half are no longer than 20, half no shorter than 30
        ([10, 20, 30], [8, 1, 1], 10),  # eight of ten chunks are of ten words
        ([10, None, 30], [1, 9, 3], 30),
        ([None], [1], None),
        ([], [], None),
    ],
)
def test_the_median_length_is_that_of_the_chunks_that_the_probes_stand_for(
    words: list[int | None], weights: list[float], median: float | None
) -> None:
    own = pd.DataFrame({"n_words": pd.array(words, "Int32"), "weight": weights})
    side = {"encoder": {}, "index": {}}
    assert side_of(side, own)["median_words"] == median
    assert side_of(side, own.drop(columns=["n_words"]))["median_words"] is None  # a report of an older version


def test_a_query_whose_text_changed_under_its_id_is_left_out() -> None:
    def labelled(texts: list[str]) -> pd.DataFrame:
        names = {"query_id": ["q1", "q2"], "answer_id": ["p1", "p2"], "success_10": [True, True]}
        return probes([True, True], text_sha256=texts).drop(columns=["probe_id", "chunk_id"]).assign(**names)

    pairs = pair_probes("labelled", labelled(["a", "b"]), labelled(["a", "c"]))
    assert (pairs.by, pairs.frame["id_b"].tolist(), pairs.changed) == ("query", ["q1"], 1)


def test_nothing_in_common_pairs_by_nothing() -> None:
    pairs = pair_probes("self", probes([True]), probes([True], probe_id=["self:other"], text_sha256=["other"]))
    assert (pairs.by, len(pairs.frame), pairs.only_a, pairs.only_b) == ("nothing", 0, 1, 1)


def saved(folder: Path, audit: SmallAudit, lost: int, source_of_lost: str = "a") -> Path:
    """A report folder like the small audit's, with a self table of 60 probes of two sources and some of them missed."""
    shutil.copytree(audit.report, folder)
    table = probes(
        [number >= lost for number in range(ROWS)],
        source=[source_of_lost] * 30 + ["b"] * 30,
        cause=["ann_miss" if number < lost else None for number in range(ROWS)],
    )
    table = table.assign(batch="x", stratum="x", stratum_chunks=1, weight=1.0, returned=10, n_tokens=5)
    arrow = pa.table(
        {
            field.name: pa.array(table[field.name]) if field.name in table else pa.nulls(ROWS, field.type)
            for field in schemas.SELF_RETRIEVAL
            if field.name != "ingestion_date"
        }
    )
    dates = pa.array(["2026-01-02"] * ROWS).cast(pa.date32())
    pq.write_table(arrow.append_column("ingestion_date", dates), folder / "tables" / "self_retrieval.parquet")
    return folder


def test_what_got_worse_is_told_with_interval_cause_and_stratum(audited: SmallAudit, tmp_path: Path) -> None:
    before, after = saved(tmp_path / "before", audited, 1), saved(tmp_path / "after", audited, 15)
    found = compare(open_report(before), open_report(after))
    change = next(change for change in found.changes if change.measure == "self@1")
    assert (change.n, change.won, change.lost, change.causes) == (60, 0, 14, {"ann_miss": 14})
    assert change.difference == pytest.approx(-14 / 60)
    assert change.p == pytest.approx(2 / 2**14)
    assert change.beyond_chance
    assert change.low < change.difference < change.high < 0
    assert [(c.measure, c.scope) for c in found.strata if "source" in c.scope] == [("self@1", {"source": "a"})]
    text = comparison_text(found)
    assert "Beyond chance worse: self@1." in text
    assert "98.3 % -> 75.0 %  -23.3 points" in text
    assert "lost to: ann_miss 14" in text
    assert max(map(len, text.splitlines())) <= 130


def test_one_measure_of_many_that_changed_by_chance_is_not_told(audited: SmallAudit, tmp_path: Path) -> None:
    before, after = saved(tmp_path / "before", audited, 0), saved(tmp_path / "after", audited, 6)
    found = compare(open_report(before), open_report(after))
    change = next(change for change in found.changes if change.measure == "self@1")
    assert change.p == pytest.approx(2 / 2**6)  # .031 by itself, and one of several measures
    assert len(found.changes) > 1
    assert not change.beyond_chance


def test_the_same_audit_twice_changed_nothing(audited: SmallAudit, tmp_path: Path) -> None:
    before, after = saved(tmp_path / "before", audited, 5), saved(tmp_path / "after", audited, 5)
    found = compare(open_report(before), open_report(after))
    assert all(change.difference == 0 and not change.beyond_chance for change in found.changes)
    assert (found.strata, found.new_findings, found.gone_findings, found.cautions) == ([], [], [], [])
    assert "No measure changed beyond chance" in comparison_text(found)
    whole = compare(open_report(audited.report), open_report(audited.report))
    assert {side["median_words"] for side in whole.sides.values()} == {median_words(rows_of_corpus())}


def test_findings_are_new_or_gone_by_code_and_scope(audited: SmallAudit, tmp_path: Path) -> None:
    before, after = saved(tmp_path / "before", audited, 0), saved(tmp_path / "after", audited, 0)
    audit = json.loads((after / "audit.json").read_text(encoding="utf-8"))
    finding = {"code": "role_mismatch", "severity": "error", "message": "m", "remedy": "r", "n_compared": 4}
    audit["findings"] = [{**finding, "scope": {"source": "b"}}]
    (after / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    found = compare(open_report(before), open_report(after))
    assert [(f["code"], f["scope"]) for f in found.new_findings] == [("role_mismatch", {"source": "b"})]
    assert {f["code"] for f in found.gone_findings} == {f["code"] for f in audited.audit()["findings"]}


def test_the_command_prints_the_comparison(audited: SmallAudit, tmp_path: Path) -> None:
    before = saved(tmp_path / "before", audited, 1)
    printed = CliRunner().invoke(app, ["compare", str(before), str(audited.report / "audit.json")])
    assert printed.exit_code == 0, printed.output
    assert "no self probe is the same in both" in printed.output.replace("\n  ", " ")
    as_json = CliRunner().invoke(app, ["compare", str(before), str(before), "--json"])
    assert json.loads(as_json.output)["paired"]["self"] == {"by": "id", "n": 60, "only_a": 0, "only_b": 0, "changed": 0}
