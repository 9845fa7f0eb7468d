"""What two audits say of duplicates, side by side: reports made by hand of a few pairs, and what is not compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.report.compare import compare
from audit_pipeline.report.compare_text import comparison_text
from audit_pipeline.report.saved import open_report
from audit_pipeline_tests.report.gate_reports import hits, write_report
from audit_pipeline_tests.report.test_pairs_compared import table

IDS = [f"self:{number:05d}" for number in range(10)]
IDS[3] = "the fourth"  # files of evaluators hold no space
A, B, C, D = IDS[:4]
PAIRS = table((A, B, "exact", 1.0), (A, C, "minhash+neighbour", 0.97), (A, D, "neighbour", 0.95))
RECOMMENDED = {"threshold": 0.94, "low": 0.92, "high": 0.96, "provisional": False, "edge": False}
NONE = {"threshold": None, "low": None, "high": None, "provisional": False, "edge": False}


def report(
    folder: Path,
    pairs: pa.Table = PAIRS,
    ids: list[str] = IDS,
    recommended: dict[str, Any] = RECOMMENDED,
    words: int = 20,
    **encoder: Any,
) -> Path:
    """A report of ten chunks: three are redundant by the embedding, one of them in numbers only."""
    write_report(folder, own=hits(10, 0))
    audit = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    audit["encoder"] = {
        "kind": "sentence_transformers",
        "model": "m",
        "query_prompt": "",
        "passage_prompt": "",
    } | encoder
    audit["corpus"] = {"chunks": len(ids)}
    embedding = None if recommended["threshold"] is None else 0.3
    audit["duplicates"] = {
        "redundancy": {"exact": 0.1, "lexical": 0.2, "embedding": embedding},
        "numbers_only": {"lexical": 0.0, "embedding": 0.1},
        "recommended": {"withheld": None, **recommended},
        "floor": {"p99.9": 0.5, "n": 45},
        "regime": {"name": "stored"},
        "sweep": [],
        "labels": {"duplicates": 40, "others": 50, "invalid": {"unknown_id": 2}, "conflicts": 1},
        "separation": {"labels": {"value": 0.9, "low": 0.8}, "candidates": None, "decides": "labels"},
    }
    audit["settings"] = {"duplicates": {"jaccard": 0.7}}
    (folder / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    pq.write_table(pairs, folder / "tables" / "candidate_pairs.parquet")
    probes = pq.read_table(folder / "tables" / "self_retrieval.parquet")
    place = probes.schema.get_field_index("n_words")
    probes = probes.set_column(place, probes.schema.field("n_words"), [np.full(10, words, dtype=np.int32)])
    pq.write_table(probes, folder / "tables" / "self_retrieval.parquet")
    (folder / "beir" / "self").mkdir(parents=True)
    lines = [json.dumps({"_id": name.replace(" ", "%20"), "title": "", "text": ""}) + "\n" for name in ids]
    (folder / "beir" / "self" / "corpus.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def compared(first: Path, second: Path) -> tuple[dict[str, Any], str]:
    """The part on duplicates, and the lines of the whole comparison as one."""
    found = compare(open_report(first), open_report(second))
    return found.duplicates, " ".join(comparison_text(found).split())


def test_the_same_report_twice_changed_nothing(tmp_path: Path) -> None:
    one = report(tmp_path / "a")
    found, said = compared(one, one)
    assert (found["other_scale"], found["settings"], found["not_compared"]) == (None, {}, {})
    assert found["sides"]["a"]["redundancy"] == {
        "exact": {"share": 0.1, "chunks": 1},
        "lexical": {"share": 0.2, "chunks": 2},
        "embedding": {"share": 0.2, "chunks": 2},  # without the one that differs in numbers only
    }
    assert [found["copied"][part]["stay"] for part in ("copies", "pairs")] == [1, 1]
    assert found["flagged"]["pairs"]["flagged"] == {"a": 2, "b": 2}
    assert "exact copies: 10.0 % (1 of 10) -> 10.0 % (1 of 10) +0.0 points" in said
    assert "with paraphrases: 20.0 % (2 of 10) -> 20.0 % (2 of 10) +0.0 points" in said
    assert "labels: 40 duplicates, 50 others, 1 in conflict, 2 not usable -> 40" in said
    assert "(AUC): 0.90 (at least 0.80, of the labels) -> 0.90" in said


def test_planted_copies_are_told_with_their_chunks(tmp_path: Path) -> None:
    planted = table(*[(name, f"{name} copy", "exact", 1.0) for name in (C, D)])
    after = report(tmp_path / "b", pa.concat_tables([PAIRS, planted]), [*IDS, f"{C} copy", f"{D} copy"])
    found, said = compared(report(tmp_path / "a"), after)
    copies = found["copied"]["copies"]
    assert (copies["stay"], copies["new"]["count"], copies["new_chunk"]["count"]) == (1, 0, 2)
    assert f"copies beyond the first of a text: 1 -> 3, 1 stay; 2 new with a chunk (such as {C} | {C} copy)" in said
    assert found["flagged"]["pairs"]["stay"] == 2


def test_thresholds_on_one_scale_are_moved_only_where_their_intervals_part(tmp_path: Path) -> None:
    before = report(tmp_path / "a")
    near = report(tmp_path / "b", recommended=RECOMMENDED | {"threshold": 0.96, "low": 0.96, "high": 0.97})
    far = report(tmp_path / "c", recommended=RECOMMENDED | {"threshold": 0.98, "low": 0.97, "high": 0.99})
    found, said = compared(before, near)
    assert "threshold: 0.94 (0.92 to 0.96) -> 0.96 (0.96 to 0.97): the intervals meet, so no move is shown" in said
    assert "20.0 % (2 of 10) -> 20.0 % (2 of 10): each over its own threshold, so no difference is taken" in said
    assert (found["flagged"]["pairs"]["stay"], found["flagged"]["pairs"]["gone"]["examples"]) == (1, [[A, D]])
    assert "0.98 (0.97 to 0.99): the intervals do not meet" in compared(before, far)[1]
    provisional = report(tmp_path / "d", recommended=NONE | {"threshold": 0.96, "provisional": True})
    said = compared(before, provisional)[1]
    assert "-> 0.96 (no interval), provisional, without labels regime" in said


@pytest.mark.parametrize(
    ("encoder", "why"),
    [
        ({"model": "other"}, "the models are two: m and other"),
        ({"passage_prompt": "passage: "}, "the vectors are made in two ways, which differ in passage_prompt"),
        (
            {"fingerprint": "f", "max_tokens": 128},
            "the vectors are made in two ways, which differ in fingerprint and max_tokens",
        ),
        ({"model": None}, "which models made the vectors is not known"),
    ],
)
def test_thresholds_of_two_scales_are_not_subtracted(tmp_path: Path, encoder: dict[str, Any], why: str) -> None:
    found, said = compared(report(tmp_path / "a"), report(tmp_path / "b", **encoder))
    assert found["other_scale"].startswith(why)
    assert "stand on two scales, so they are not subtracted" in said
    assert "intervals meet" not in said
    assert "20.0 % (2 of 10) -> 20.0 % (2 of 10): each over its own threshold, so no difference is taken" in said
    assert "with edited copies: 20.0 % (2 of 10) -> 20.0 % (2 of 10) +0.0 points" in said  # by the texts alone
    assert found["flagged"]["pairs"]["stay"] == 2


def test_a_query_prompt_moves_the_scale_under_the_regime_of_queries_alone(tmp_path: Path) -> None:
    before, after = report(tmp_path / "a"), report(tmp_path / "b", query_prompt="query: ")
    assert compared(before, after)[0]["other_scale"] is None
    for folder in (before, after):
        audit = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
        audit["duplicates"]["regime"]["name"] = "query"
        (folder / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    assert compared(before, after)[0]["other_scale"] == "the vectors are made in two ways, which differ in query_prompt"
    stored = report(tmp_path / "c", query_prompt="query: ")
    assert compared(after, stored)[0]["other_scale"] == "the regimes are two: query and stored"


def test_without_a_threshold_only_copied_text_is_compared_and_the_withheld_row_is_shown(tmp_path: Path) -> None:
    none = NONE | {"withheld": {"threshold": 0.9, "low": 0.9, "high": 0.92}}
    found, said = compared(report(tmp_path / "a", recommended=none), report(tmp_path / "b"))
    assert (found["flagged"], found["not_compared"]) == (None, {"flagged": "the first audit recommends no threshold"})
    assert "threshold: none recommended (withheld: 0.9 (0.9 to 0.92)) -> 0.94 (0.92 to 0.96)" in said
    assert "with paraphrases: not measured -> 20.0 %" in said
    assert "not compared: pairs over the threshold: the first audit recommends no threshold." in said
    assert found["copied"]["pairs"]["stay"] == 1
    found, _ = compared(tmp_path / "a", report(tmp_path / "c", recommended=none))
    assert found["not_compared"] == {"flagged": "neither audit recommends a threshold"}


def test_ids_that_are_new_or_name_other_chunks_are_no_pairs_of_both(tmp_path: Path) -> None:
    before = report(tmp_path / "a")
    new = report(tmp_path / "b", table(("x", "y", "exact", 1.0)), ["x", "y"])
    assert compared(before, new)[0]["not_compared"]["pairs"].startswith("no id of a chunk is in both audits")
    longer = report(tmp_path / "c", words=60)
    assert compared(before, longer)[0]["not_compared"] == {}  # longer, but the probes of one id are of one text
    probes = pq.read_table(longer / "tables" / "self_retrieval.parquet")
    place = probes.schema.get_field_index("text_sha256")
    pq.write_table(
        probes.set_column(place, "text_sha256", [pa.array([f"new{number}" for number in range(10)])]),
        longer / "tables" / "self_retrieval.parquet",
    )
    found, said = compared(before, longer)
    assert "the chunks are others, of 20 words in the first and 60 in the second" in found["not_compared"]["pairs"]
    assert (found["copied"], found["flagged"]) == (None, None)
    assert "exact copies: 10.0 % (1 of 10) -> 10.0 % (1 of 10)" in said


def test_a_copy_of_a_part_of_a_report_and_an_older_one_are_said_to_be_so(tmp_path: Path) -> None:
    before, part = report(tmp_path / "a"), report(tmp_path / "b")
    (part / "beir" / "self" / "corpus.jsonl").unlink()
    assert compared(before, part)[0]["not_compared"]["pairs"].startswith("the second report lacks")
    (before / "tables" / "candidate_pairs.parquet").unlink()
    assert compared(before, part)[0]["not_compared"]["pairs"].startswith("the first and the second report lacks")
    older = write_report(tmp_path / "c", own=hits(10, 0))
    found, said = compared(before, older)
    assert found["sides"] is None
    assert "not compared: duplicates: the second audit holds nothing on duplicates: run it again." in said


def test_settings_that_differ_are_told(tmp_path: Path) -> None:
    before, after = report(tmp_path / "a"), report(tmp_path / "b")
    audit = json.loads((after / "audit.json").read_text(encoding="utf-8"))
    audit["settings"]["duplicates"]["jaccard"] = 0.8
    (after / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    found, said = compared(before, after)
    assert found["settings"] == {"jaccard": [0.7, 0.8]}
    assert "the settings under duplicates differ: jaccard 0.7 -> 0.8." in said
