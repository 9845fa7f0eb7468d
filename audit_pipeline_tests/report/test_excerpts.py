from __future__ import annotations

from typing import Any

import pyarrow as pa

from audit_pipeline.report.clusters_view import largest_clusters
from audit_pipeline.report.excerpts import EXCERPT_CHARACTERS, cut_excerpts, shown_misses, wanted_chunk_ids
from audit_pipeline.schemas import TABLES


def miss(chunk_id: str, cause: str, **evidence: Any) -> dict[str, Any]:
    return {"chunk_id": chunk_id, "run": "self", "cause": cause, "evidence": evidence}


def clusters(*sizes: int) -> pa.Table:
    rows = [
        {
            "cluster_id": f"{chr(97 + place)}0",
            "chunk_id": f"{chr(97 + place)}{member}",
            "is_representative": member == 0,
            "cosine_to_representative": 1.0,
            "chain_only": member > 1,
            "numeric": False,
            "action": "drop" if member else "keep",
        }
        for place, size in enumerate(sizes)
        for member in range(size)
    ]
    return pa.Table.from_pylist(rows, TABLES["duplicate_clusters"])


def test_an_excerpt_is_one_line_that_ends_at_a_word() -> None:
    table = pa.table({"chunk_id": ["a", "b", "c"], "text": ["short\n text", "word " * 200, None]})
    shown = cut_excerpts(table, "excerpt")
    assert shown["a"] == "short text"
    assert shown["b"].endswith("word …")
    assert len(shown["b"]) <= EXCERPT_CHARACTERS + 2
    assert "c" not in shown
    assert cut_excerpts(table, "full")["b"] == "word " * 200
    assert cut_excerpts(table, "none") == {}


def test_two_examples_of_each_cause_are_shown_and_their_rivals_wanted() -> None:
    audit = {
        "misses": [
            miss("a", "encoder", winner="w"),
            miss("b", "encoder", winner="w"),
            miss("c", "encoder", winner="x"),
            miss("d", "twin", twins=["t", "u"], group=3),
            miss("e", "missing_row", table_rows=10),
            miss("f", "truncated", equal_rows=["v"], group=2),
            miss("g", "role_mismatch", arm="query", rows_ahead=["y", "z"]),
        ]
    }
    assert [shown["chunk_id"] for shown in shown_misses(audit)] == ["a", "b", "d", "e", "f", "g"]
    assert wanted_chunk_ids(audit) == ["a", "w", "b", "d", "t", "e", "f", "v", "g", "y"]
    assert wanted_chunk_ids({"misses": []}, clusters(2)) == ["a0", "a1"]


def test_the_largest_clusters_come_first_with_their_representative_on_top() -> None:
    shown = largest_clusters(clusters(2, 7, 3, 2, 2, 2))
    assert [(entry["cluster_id"], entry["size"], entry["chain_only"]) for entry in shown[:3]] == [
        ("b0", 7, 5),
        ("c0", 3, 1),
        ("a0", 2, 0),
    ]
    assert len(shown) == 5
    assert [member["chunk_id"] for member in shown[0]["members"]] == ["b0", "b1", "b2", "b3"]
    assert largest_clusters(clusters()) == []
