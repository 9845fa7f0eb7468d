from __future__ import annotations

from typing import Any

from audit_pipeline.proportions import NOT_MEASURED, wilson
from audit_pipeline.report.strata_view import FINE, LOW, UNSURE, Cell, cells_of, grid_of, pooled, worst_first


def cell(hits: int, n: int, name: str = "a", period: str = "2026-01-01") -> Cell:
    share = wilson(hits, n)
    assert share.value is not None
    assert share.low is not None
    assert share.high is not None
    return Cell(name, share.value, share.low, share.high, n, name, period)


def element(source: str | None, date: str | None, hits: int, n: int) -> dict[str, Any]:
    return {"source": source, "ingestion_date": date, "chunks": n, "n": n, "self@1": wilson(hits, n).as_dict()}


def test_one_missed_probe_of_one_may_be_chance_and_ten_of_twenty_may_not() -> None:
    assert cell(0, 1).state(0.98, cells=1) == LOW  # 2 % by chance: under 5 % where it is the only cell
    assert cell(0, 1).state(0.98, cells=50) == UNSURE
    assert cell(10, 20).state(0.98, cells=50) == LOW
    assert cell(20, 20).state(0.98, cells=50) == FINE


def test_chance_is_the_exact_binomial_tail() -> None:
    assert abs(cell(9, 10).chance(0.98) - (1 - 0.98**10)) < 1e-12


def test_the_cell_that_chance_explains_least_comes_first() -> None:
    few, many, fine = cell(0, 1, "few"), cell(60, 100, "many"), cell(50, 50, "fine")
    assert [c.name for c in worst_first([fine, few, many], 0.98)] == ["many", "few", "fine"]


def test_days_are_pooled_until_they_fit_and_their_hits_add_up() -> None:
    days = [cell(1 if day % 2 else 2, 2, "", f"2026-{month:02d}-{day:02d}") for month in (1, 2) for day in (5, 6, 7)]
    assert pooled(days, 6)[1] == "day"
    months, unit = pooled(days, 3)
    assert unit == "week"
    assert [c.period for c in months] == ["2026-W02", "2026-W06"]
    assert [(round(c.value * c.n), c.n) for c in months] == [(4, 6), (4, 6)]


def test_periods_of_four_hundred_days_and_of_no_date_fit_the_axis() -> None:
    days = [cell(1, 1, "", f"{2025 + day // 336}-{day % 336 // 28 + 1:02d}-{day % 28 + 1:02d}") for day in range(400)]
    periods, unit = pooled([*days, cell(1, 1, "", "no date")], 16)
    assert unit == "month"
    assert len(periods) <= 16
    assert periods[-1].period == "no date"
    assert sum(c.n for c in periods) == 401


def test_strata_without_probes_are_no_cells() -> None:
    empty = element("a", "2026-01-01", 1, 1) | {"self@1": NOT_MEASURED.as_dict()}
    assert cells_of([empty, element(None, None, 1, 1)], ("source", "ingestion_date"), "self@1")[0].name == (
        "(none) · no date"
    )


def test_the_grid_shows_the_worst_sources_with_all_their_periods() -> None:
    elements = [element(f"s{i}", f"2026-01-{day:02d}", 10, 10) for i in range(5) for day in (1, 2)]
    elements[7] = element("s3", "2026-01-02", 2, 10)
    grid = grid_of(elements, "self@1", 0.98, most_periods=4, most_sources=2)
    assert grid.sources == ["s3", "s0"]
    assert grid.periods == ["2026-01-01", "2026-01-02"]
    assert len(grid.cells) == 4
