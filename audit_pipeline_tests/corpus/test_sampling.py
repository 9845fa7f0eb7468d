import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_pipeline.corpus.sampling import STRATIFIED, plan_probes, proportional_allocation, stratify
from audit_pipeline.schemas import CHUNKS, PROBE_PLAN


def chunks_of(batch: str, n: int, n_tokens: int = 10) -> pa.Table:
    day, source = batch.split("|")
    rows = [
        {
            "chunk_id": f"{batch}/{n_tokens}/{i}",
            "source": source,
            "ingestion_date": dt.date.fromisoformat(day),
            "batch": batch,
            "text": "t",
            "text_sha256": "0",
            "n_words": 1,
            "n_tokens": n_tokens,
        }
        for i in range(n)
    ]
    return pa.Table.from_pylist(rows, schema=CHUNKS)


def stratified(*cells: tuple[str, int, int], seed: int = 0) -> pa.Table:
    return pa.concat_tables([STRATIFIED.empty_table(), *(stratify(chunks_of(*cell), seed) for cell in cells)])


def counts(plan: pa.Table) -> dict[str, int]:
    return {row["values"]: row["counts"] for row in plan["stratum"].combine_chunks().value_counts().to_pylist()}


def test_allocation_is_proportional_within_its_bounds() -> None:
    assert proportional_allocation(np.array([100, 300, 600]), 10).tolist() == [2, 3, 5]  # 1, 3, 6 with at least 2
    assert proportional_allocation(np.array([1, 1, 98]), 10).tolist() == [1, 1, 8]
    assert proportional_allocation(np.array([5, 5]), 99).tolist() == [5, 5]
    assert proportional_allocation(np.array([50]), 1).tolist() == [1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=30), st.integers(0, 2000))
def test_an_allocation_spends_the_total_and_keeps_its_bounds(sizes: list[int], extra: int) -> None:
    big_n_h = np.array(sizes)
    total = int(np.minimum(big_n_h, 2).sum()) + extra
    n_h = proportional_allocation(big_n_h, total)
    assert n_h.sum() == min(total, big_n_h.sum())
    assert np.all((n_h >= np.minimum(big_n_h, 2)) & (n_h <= big_n_h))


def test_every_batch_and_band_is_a_stratum_where_the_total_allows_it() -> None:
    rows = stratified(("2026-01-01|a", 60, 10), ("2026-01-01|a", 30, 50), ("2026-01-02|b", 10, 10))
    plan = plan_probes(rows, 10, None)
    assert plan.schema == PROBE_PLAN
    assert counts(plan) == {"2026-01-01|a|0-39": 5, "2026-01-01|a|40-127": 3, "2026-01-02|b|0-39": 2}
    weight = dict(zip(plan["stratum"].to_pylist(), plan["weight"].to_pylist(), strict=True))
    assert weight == {"2026-01-01|a|0-39": 12.0, "2026-01-01|a|40-127": 10.0, "2026-01-02|b|0-39": 5.0}
    assert sum(plan["weight"].to_pylist()) == pytest.approx(100)


@pytest.mark.parametrize(
    ("total", "strata"),
    [
        (12, {"2026-01-05|a|0-39", "2026-01-06|a|0-39", "2026-01-12|a|0-39", "2026-01-12|a|40-127",
              "2026-02-02|a|0-39", "2026-02-02|b|0-39"}),
        (10, {"week of 2026-01-05|a|0-39", "week of 2026-01-12|a|0-39", "week of 2026-01-12|a|40-127",
              "week of 2026-02-02|a|0-39", "week of 2026-02-02|b|0-39"}),
        (8, {"month of 2026-01-01|a|0-39", "month of 2026-01-01|a|40-127", "month of 2026-02-01|a|0-39",
             "month of 2026-02-01|b|0-39"}),
        (6, {"all dates|a|0-39", "all dates|a|40-127", "all dates|b|0-39"}),
        (4, {"all dates|a|all lengths", "all dates|b|all lengths"}),
        (3, {"all dates|all sources|all lengths"}),
    ],
)  # fmt: skip
def test_too_many_strata_are_merged_over_dates_then_bands_then_sources(total: int, strata: set[str]) -> None:
    rows = stratified(
        ("2026-01-05|a", 9, 10), ("2026-01-06|a", 9, 10), ("2026-01-12|a", 9, 10), ("2026-01-12|a", 9, 50),
        ("2026-02-02|a", 9, 10), ("2026-02-02|b", 9, 10),
    )  # fmt: skip
    plan = plan_probes(rows, total, None)
    assert set(counts(plan)) == strata
    assert len(plan) == total
    assert sum(plan["weight"].to_pylist()) == pytest.approx(54)


def test_a_total_at_or_over_the_rows_is_a_census() -> None:
    rows = stratified(("2026-01-05|a", 9, 10), ("2026-01-06|b", 1, 600))
    for total in (10, 5000):
        plan = plan_probes(rows, total, None)
        assert len(plan) == 10
        assert set(plan["weight"].to_pylist()) == {1.0}


def test_another_batch_and_another_order_of_rows_leave_the_draw_within_a_stratum() -> None:
    first = stratified(("2026-01-05|a", 100, 10))
    both = stratified(("2026-01-06|a", 100, 10), ("2026-01-05|a", 100, 10))
    alone = set(plan_probes(first, 10, None)["chunk_id"].to_pylist())
    beside = [one for one in plan_probes(both, 20, None)["chunk_id"].to_pylist() if one.startswith("2026-01-05")]
    assert set(beside) == alone
    turned = first.take(pa.array(range(99, -1, -1)))
    assert plan_probes(turned, 10, None).equals(plan_probes(first, 10, None))
    assert set(plan_probes(stratified(("2026-01-05|a", 100, 10), seed=1), 10, None)["chunk_id"].to_pylist()) != alone


@pytest.mark.parametrize("cap", [1, 3, 20])
def test_no_batch_gets_more_than_its_cap_and_the_weights_still_cover_the_corpus(cap: int) -> None:
    cells = [(f"2026-01-{day:02d}|a", day * 5, 10 + 50 * (day % 3)) for day in range(1, 29)]
    plan = plan_probes(stratified(*cells), 200, cap)
    assert max(row["counts"] for row in plan["batch"].combine_chunks().value_counts().to_pylist()) <= cap
    per_stratum = {row["stratum"]: row for row in plan.to_pylist()}
    assert {name: row["stratum_probes"] for name, row in per_stratum.items()} == counts(plan)
    assert sum(row["stratum_chunks"] for row in per_stratum.values()) == sum(n for _, n, _ in cells)


def test_an_id_on_two_rows_is_one_element_of_the_population() -> None:
    rows = stratified(("2026-01-05|a", 5, 10))
    plan = plan_probes(pa.concat_tables([rows, rows]), 100, None)
    assert len(plan) == len(set(plan["chunk_id"].to_pylist())) == 5


def test_no_rows_give_an_empty_plan() -> None:
    assert plan_probes(STRATIFIED.empty_table(), 10, None).equals(PROBE_PLAN.empty_table())
