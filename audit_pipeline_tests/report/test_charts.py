from __future__ import annotations

import re
from typing import Any

from audit_pipeline.report.charts import cells_chart, overview_png
from audit_pipeline.report.drawing import NARROW, to_svg
from audit_pipeline.report.strata_view import Cell


def test_the_overview_is_a_png_small_enough_for_metadata(audit: dict[str, Any]) -> None:
    png = overview_png(audit)
    assert png is not None
    assert png.startswith(b"\x89PNG")
    assert len(png) < 100_000


def test_there_is_no_overview_of_nothing(audit: dict[str, Any]) -> None:
    from audit_pipeline.report.audit_json import not_measured

    bare = audit | {part: not_measured(part) for part in ("self_retrieval", "held_out", "ann_recall")}
    assert overview_png(bare | {"labelled": None}) is None


def test_two_long_names_with_one_beginning_stay_two_rows() -> None:
    cells = [Cell("the same long beginning " + end, 1.0, 0.8, 1.0, 20) for end in ("one", "two")]
    svg = to_svg(cells_chart(cells, 0.98, NARROW, "self@1"), "x")
    labels = re.findall(r">(the same[^<]*)<", svg)
    assert len(labels) == len(set(labels)) == 2


def test_markup_in_a_name_is_escaped_in_the_drawing() -> None:
    svg = to_svg(cells_chart([Cell("<script>x</script>", 1.0, 0.8, 1.0, 20)], 0.98, 900, "self@1"), "x")
    assert "<script" not in svg
    assert "&lt;script" in svg


def test_a_drawing_needs_no_address_and_keeps_its_ids_apart() -> None:
    svg = to_svg(cells_chart([Cell("a", 1.0, 0.8, 1.0, 20)], 0.98, 900, "self@1"), "mine")
    assert "http" not in svg
    assert all(found.startswith("mine-") for found in re.findall(r'\bid="([^"]*)"', svg))
