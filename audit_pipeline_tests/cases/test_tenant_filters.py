"""Tables of many tenants whose application filters by the asking tenant: sound ones are silent, faults are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from lancedb.index import IvfFlat

from audit_pipeline.errors import AuditInputError
from audit_pipeline_tests.cases.conftest import AuditTable, Corpus, table_of

FILTER = "user_id = '{user_id}' AND lang = 'en'"
SHARED = 12  # texts that every tenant holds
SIZES = {
    "o'hara": 60,
    "smith": 40,
    "tiny": 5,
    "lee": 50,
}  # own texts of each tenant; one holds fewer than are asked for


def tenants(corpus: Corpus, shared: int = SHARED) -> dict[str, Any]:
    """Texts, vectors and user_id: each tenant's own texts, and the first ``shared`` texts once for each but one."""
    places, users = [], []
    start = shared
    for user, size in SIZES.items():
        own = [*(range(shared) if user != "tiny" else ()), *range(start, start + size)]
        places += own
        users += [user] * len(own)
        start += size
    return {"texts": [corpus.texts[n] for n in places], "vectors": corpus.vectors[places], "user_id": users}


def written(corpus: Corpus, **changes: Any) -> pa.Table:
    columns = {**tenants(corpus), **changes}
    columns.setdefault("lang", ["en"] * len(columns["user_id"]))
    return table_of(columns.pop("texts"), columns.pop("vectors"), **columns)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_sound_table_of_tenants_gives_no_finding_above_info(
    audit_table: AuditTable, corpus: Corpus, indexed: bool, tmp_path: Path
) -> None:
    table = written(corpus)
    first_of_shared = [n for n, text in enumerate(table["text"].to_pylist()) if text == table["text"][0].as_py()]
    assert len(first_of_shared) == 3
    queries = [
        {"query": " ".join(table["text"][n].as_py().split()[:8]), "chunk_id": f"c{n:04}"} for n in range(13, 60, 2)
    ]
    queries.append({"query": table["text"][0].as_py(), "contains": table["text"][0].as_py()[:60]})
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")

    def index(written_table: Any) -> None:
        if indexed:
            written_table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=1))

    found = audit_table(table, after=index, filter=FILTER, labels={"queries": str(tmp_path / "queries.jsonl")})
    assert found.codes("error", "warning") == set()
    report = found.report
    assert found.causes == {}
    assert report["self_retrieval"]["self@1"]["value"] == 1
    assert report["self_retrieval"]["self@1_unique"]["value"] == 1  # another tenant's copy is no rival
    assert report["self_retrieval"]["short_results"] == 0
    assert report["ann_recall"]["ann_recall@10"]["value"] == (1 if indexed else None)  # else exact: nothing to measure
    assert report["labelled"]["judged_for_others"] == {"queries": 1, "judgements": 2}
    filters = report["self_retrieval"]["filters"]
    assert (filters["columns"], filters["distinct"]) == (["user_id"], 4)
    assert filters["haystack"] == {"smallest": 5, "largest": 72}
    assert {e["filter"]["user_id"]: (e["chunks"], e["n"]) for e in report["self_retrieval"]["by_filter"]} == {
        user: (size + SHARED * (user != "tiny"),) * 2 for user, size in SIZES.items()
    }


def test_another_tenants_copy_does_not_hold_the_held_out_sentence(audit_table: AuditTable, corpus: Corpus) -> None:
    # Where only some rows are probed, the copies of their texts stay whole; 24 of the 60 probes or so have two.
    found = audit_table(written(corpus, **tenants(corpus, shared=40)), filter=FILTER, sample={"total": 60})
    assert found.report["held_out"]["n"] > 30
    assert found.report["held_out"]["overlap"] < 6  # four texts repeat a sentence of their own tenant


def test_rows_without_a_tenant_are_reached_by_nobody(audit_table: AuditTable, corpus: Corpus) -> None:
    users: list[str | None] = list(tenants(corpus)["user_id"])
    users[3] = users[100] = None
    found = audit_table(written(corpus, user_id=users), filter=FILTER)
    excluded = found.finding("filter_excludes")
    assert (excluded["severity"], excluded["evidence"]["rows"]) == ("warning", 2)
    assert sorted(excluded["examples"]) == ["c0003", "c0100"]
    assert found.causes == {"filter_excluded": 2}
    assert {miss["chunk_id"] for miss in found.report["misses"] if miss["run"] == "self"} == {"c0003", "c0100"}
    assert found.codes("warning") <= {"filter_excludes", "self_low"}


def test_a_fixed_part_of_the_filter_hides_rows_by_intent(audit_table: AuditTable, corpus: Corpus) -> None:
    lang = ["en"] * len(tenants(corpus)["user_id"])
    lang[7] = "de"
    found = audit_table(written(corpus, lang=lang), filter=FILTER)
    assert (found.finding("filter_excludes")["severity"], found.causes) == ("info", {"filter_excluded": 1})


def test_a_tenants_number_in_a_struct_is_a_number_whether_or_not_it_stands_in_quotes(
    audit_table: AuditTable, corpus: Corpus
) -> None:
    numbers = pa.array([list(SIZES).index(user) - 2 for user in tenants(corpus)["user_id"]])
    table = written(corpus).append_column("who", pa.StructArray.from_arrays([numbers], names=["id"]))
    for template in ("who.id = {who.id}", "who.id = '{who.id}'"):
        found = audit_table(table, filter=template)
        assert (found.causes, found.codes("error", "warning")) == ({}, set())
        assert found.report["self_retrieval"]["filters"]["distinct"] == 4


def test_a_filter_applied_after_the_search_loses_the_texts_that_many_tenants_share(
    audit_table: AuditTable, corpus: Corpus
) -> None:
    # Fourteen tenants hold the same five texts: of the ten rows closest, a tenant's own may be none.
    users = [f"u{n}" for n in range(14) for _ in range(5)]
    table = table_of(
        [corpus.texts[n] for _ in range(14) for n in range(5)], np.tile(corpus.vectors[:5], (14, 1)), user_id=users
    )
    after = audit_table(table, filter="user_id = {user_id}", search={"prefilter": False})
    assert set(after.causes) == {"filter_excluded"}
    assert after.causes["filter_excluded"] >= 20
    misses = [miss for miss in after.report["misses"] if miss["run"] == "self"]
    assert all(miss["evidence"]["found_by"] == "prefilter" for miss in misses)
    assert "short_results" in after.codes("warning")
    before = audit_table(table, filter="user_id = {user_id}")
    assert (before.causes, before.codes("error", "warning")) == ({}, set())


@pytest.mark.page
def test_a_tenant_whose_vectors_are_wrong_is_named(audit_table: AuditTable, corpus: Corpus) -> None:
    parts = tenants(corpus)
    of_lee = np.flatnonzero(np.array(parts["user_id"]) == "lee")
    parts["vectors"][of_lee] = parts["vectors"][np.roll(of_lee, 7)]
    found = audit_table(written(corpus, **parts), filter=FILTER)
    page = (found.folder / "state" / "reports" / "case" / "audit.html").read_text(encoding="utf-8")
    assert "By user_id" in page
    assert "o&#39;hara" in page or "o'hara" in page
    anomalies = [f for f in found.report["findings"] if f["code"] == "stratum_anomaly"]
    assert [anomaly["evidence"].get("filter") for anomaly in anomalies] == [{"user_id": "lee"}]
    assert anomalies[0]["scope"] == {}
    assert "user_id lee" in anomalies[0]["message"]
    assert found.causes == {"misaligned": len(of_lee)}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("user_id = {user}", "no column 'user'"),
        ("user_id = {user_id", "brace"),
        ("user_id = {}", "brace"),
        ("user_id = '{user_id}", "never closed"),
        ("user_id = {vector}", "cannot be filled in"),
        ("user_id = {user_id} AND nowhere = 1", "LanceDB refuses"),
        ("user_id IS NOT DISTINCT FROM {user_id}", "LanceDB refuses"),
    ],
)
def test_a_filter_that_cannot_be_used_is_one_sentence(
    audit_table: AuditTable, corpus: Corpus, template: str, said: str
) -> None:
    with pytest.raises(AuditInputError, match=r"^index\.(filter|search): ") as refused:
        audit_table(written(corpus), filter=template)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_null_tenant_can_be_asked_for_in_the_sql_that_lancedb_takes(audit_table: AuditTable, corpus: Corpus) -> None:
    users: list[str | None] = list(tenants(corpus)["user_id"])
    users[3] = users[100] = None
    nullable = "(user_id = {user_id} OR (user_id IS NULL AND {user_id} IS NULL))"
    found = audit_table(written(corpus, user_id=users), filter=nullable)
    assert (found.causes, found.codes("error", "warning")) == ({}, set())


@pytest.mark.parametrize("dated", [False, True])
def test_a_large_tenant_is_not_out_of_line_because_small_ones_cannot_miss(
    audit_table: AuditTable, corpus: Corpus, dated: bool
) -> None:
    users = [f"u{n // 8}" for n in range(120)] + ["big"] * 180
    dates = {"ingestion_date": [f"2026-01-0{1 + (n >= 120)}" for n in range(300)]} if dated else {}
    found = audit_table(corpus.rows(slice(300), user_id=users, **dates), filter="user_id = {user_id}")
    assert found.codes("error", "warning") == set()
    held_out = found.tables().table("held_out_retrieval")
    asked = held_out[held_out["eligible"]].merge(
        pd.DataFrame({"chunk_id": [f"c{n:04}" for n in range(300)], "u": users})
    )
    assert set(asked[asked["u"] == "big"]["haystack"]) == {180}
    assert set(asked[asked["u"] != "big"]["haystack"]) == {8}
    assert asked[asked["u"] != "big"]["hit_10"].all()
    assert asked[asked["u"] == "big"]["hit_10"].mean() < 0.8  # without the defence an effect of over 15 points
    text = found.report["verdict"]["text"]
    assert (
        f"{(asked['u'] != 'big').sum():,} of {len(asked):,} are among 10 or fewer, where nothing can be missed" in text
    )
