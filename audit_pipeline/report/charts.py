"""The retrieval charts: headline figures, strata, causes. The duplicates' charts are in duplicate_charts.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit_pipeline.report.drawing import to_png
from audit_pipeline.report.palette import LIGHT
from audit_pipeline.report.strata_view import Cell, Grid
from audit_pipeline.report.wording import is_measured, number, percent

ROW = 40  # px a row of the figures chart
_STATES = ["fine", "unsure", "low"]  # in the order of strata_view.FINE, UNSURE, LOW; the page explains them
_STATE_COLOURS = [LIGHT["blue"], LIGHT["orange"], LIGHT["red"]]


def figures_chart(rows: Sequence[tuple[str, Mapping[str, Any], float | None]], width: int) -> Any:
    """Self, held-out, labelled and ANN figures beside each other with their intervals.

    ``rows`` are (name, proportion, limit or None), measured ones only, in the order shown.
    """
    import altair as alt

    data: list[dict[str, Any]] = [
        {
            "name": name,
            "value": 100 * figure["value"],
            "low": 100 * figure["low"],
            "high": 100 * figure["high"],
            "limit": None if limit is None else 100 * limit,
            "label": f"{percent(figure['value'])}, n {number(figure['n'])}",
        }
        for name, figure, limit in rows
    ]
    names = [name for name, _, _ in rows]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=130))
    x = alt.Scale(domain=[0, 100])
    base = alt.Chart(alt.Data(values=data)).encode(y=y)
    tens = alt.Axis(tickCount=10 if width > 500 else 5)
    interval = base.mark_rule(strokeWidth=5, opacity=0.45, color=LIGHT["blue"]).encode(
        x=alt.X("low:Q", scale=x, title="% found", axis=tens), x2="high:Q"
    )
    point = base.mark_point(filled=True, size=70, opacity=1, color=LIGHT["blue"]).encode(x=alt.X("value:Q", scale=x))
    limits = (
        base.mark_tick(thickness=2, size=22, color=LIGHT["red"])
        .encode(x=alt.X("limit:Q", scale=x))
        .transform_filter("datum.limit !== null")
    )
    words = base.mark_text(align="left", dy=-13, color=LIGHT["ink"]).encode(x=alt.value(2), text="label:N")
    return alt.layer(interval, limits, point, words).properties(width=width - 140, height=ROW * len(rows))


def cells_chart(cells: Sequence[Cell], limit: float, width: int, title: str) -> Any:
    """One row a cell: its share with interval against the limit, in the order given."""
    import altair as alt

    room = 34 if width > 500 else 18  # letters
    names = [f"{name} (n {number(cell.n)})" for name, cell in zip(_short_names(cells, room), cells, strict=True)]
    data: list[dict[str, Any]] = [
        {
            "name": name,
            "value": 100 * cell.value,
            "low": 100 * cell.low,
            "high": 100 * cell.high,
            "state": _STATES[cell.state(limit, len(cells))],
        }
        for name, cell in zip(names, cells, strict=True)
    ]
    label_room = 240 if width > 500 else 150
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=label_room - 10))
    x = alt.Scale(domain=[_least(cells), 100], zero=False)
    base = alt.Chart(alt.Data(values=data)).encode(y=y, color=_state_colour())
    interval = base.mark_rule(strokeWidth=4, opacity=0.5).encode(
        x=alt.X("low:Q", scale=x, title=title, axis=alt.Axis(tickCount=10 if width > 500 else 5)), x2="high:Q"
    )
    point = base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("value:Q", scale=x), shape=_state_shape())
    return alt.layer(interval, point, _limit_rule(limit)).properties(width=width - label_room, height=20 * len(cells))


def timeline_chart(cells: Sequence[Cell], limit: float, width: int, title: str) -> Any:
    """Periods from left to right with their intervals against the limit."""
    import altair as alt

    data: list[dict[str, Any]] = [
        {
            "name": cell.name,
            "value": 100 * cell.value,
            "low": 100 * cell.low,
            "high": 100 * cell.high,
            "state": _STATES[cell.state(limit, len(cells))],
        }
        for cell in cells
    ]
    names = [row["name"] for row in data]
    axis = alt.Axis(labelAngle=-60, labelOverlap=True, ticks=False, labelSeparation=4)
    y = alt.Scale(domain=[_least(cells), 100], zero=False)
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X("name:N", sort=names, title=None, axis=axis), color=_state_colour()
    )
    interval = base.mark_rule(strokeWidth=3, opacity=0.5).encode(y=alt.Y("low:Q", scale=y, title=title), y2="high:Q")
    point = base.mark_point(filled=True, size=50, opacity=1).encode(y=alt.Y("value:Q", scale=y), shape=_state_shape())
    return alt.layer(interval, point, _limit_rule(limit, horizontal=True)).properties(width=width - 60, height=170)


def grid_chart(grid: Grid, limit: float, width: int) -> Any:
    """Source x period: one mark a cell that says whether it lies under the limit, and how sure that is."""
    import altair as alt

    data: list[dict[str, Any]] = [
        {
            "source": cell.source,
            "period": cell.period,
            "state": _STATES[cell.state(limit, len(grid.cells))],
            "n": cell.n,
        }
        for cell in grid.cells
    ]
    label_room = 200 if width > 500 else 120
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X(
            "period:N",
            sort=grid.periods,
            title=None,
            axis=alt.Axis(labelAngle=-60, ticks=False, domain=False, grid=True, labelOverlap=True),
        ),
        y=alt.Y(
            "source:N",
            sort=grid.sources,
            title=None,
            axis=alt.Axis(ticks=False, domain=False, grid=True, labelLimit=label_room - 10),
        ),
        color=_state_colour(),
        shape=_state_shape(),
        size=alt.Size("n:Q", scale=alt.Scale(type="sqrt", range=[30, 150], domainMin=1), legend=None),
    )
    marks = base.mark_point(filled=True, opacity=1)
    return marks.properties(width=width - label_room, height=19 * len(grid.sources))


def causes_chart(causes: Mapping[str, Mapping[str, int]], width: int) -> Any:
    """Misses by cause, one bar a run."""
    import altair as alt

    runs = {"self": "own text", "held_out": "held-out sentence", "labelled": "judged query"}
    data: list[dict[str, Any]] = [
        {"cause": cause, "run": runs[run], "misses": count, "label": number(count)}
        for run, counts in causes.items()
        for cause, count in counts.items()
        if count
    ]
    total: dict[str, int] = {}
    for row in data:
        total[row["cause"]] = total.get(row["cause"], 0) + row["misses"]
    order = sorted(total, key=lambda cause: (-total[cause], cause))
    present = [label for label in runs.values() if any(row["run"] == label for row in data)]
    colours = dict(zip(runs.values(), (LIGHT["blue"], LIGHT["orange"], LIGHT["purple"]), strict=True))
    base = alt.Chart(alt.Data(values=data)).encode(
        y=alt.Y("cause:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False)),
        yOffset=alt.YOffset("run:N", sort=present),
        x=alt.X("misses:Q", title="missed probes", axis=alt.Axis(tickMinStep=1, format=",d")),
    )
    bars = base.mark_bar().encode(
        color=alt.Color("run:N", scale=alt.Scale(domain=present, range=[colours[label] for label in present]))
    )
    counts = base.mark_text(align="left", dx=4, color=LIGHT["ink"]).encode(text="label:N")
    return alt.layer(bars, counts).properties(width=width - 160, height=len(order) * (10 + 14 * len(present)))


def headline_rows(audit: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any], float | None]]:
    """The measured headline figures as rows of ``figures_chart``."""
    limits = audit["settings"]["limits"]
    labelled = audit["labelled"] or {}
    rows = [
        ("self@1", audit["self_retrieval"]["self@1"], limits["self_at_1"]),
        ("self@10", audit["self_retrieval"]["self@10"], limits["self_at_10"]),
        ("heldout@1", audit["held_out"]["heldout@1"], None),
        ("heldout@10", audit["held_out"]["heldout@10"], None),
        ("labelled_success@10", labelled.get("labelled_success@10"), None),
        ("labelled_recall@10", labelled.get("labelled_recall@10"), None),
        ("ann_recall@10", audit["ann_recall"]["ann_recall@10"], limits["ann_recall_at_10"]),
    ]
    return [(name, figure, limit) for name, figure, limit in rows if is_measured(figure)]


def overview_png(audit: Mapping[str, Any]) -> bytes | None:
    """The headline figures as a PNG under 100 kB for asset metadata; None where nothing was measured.

    It holds figures only: no corpus text and no source name.
    """
    rows = headline_rows(audit)
    return to_png(figures_chart(rows, 640)) if rows else None


def _short_names(cells: Sequence[Cell], letters: int) -> list[str]:
    """Names cut to what the axis has room for, and still all different."""
    names: list[str] = []
    for cell in cells:
        cut = cell.name if len(cell.name) <= letters else cell.name[: letters - 1] + "…"
        again = sum(name == cut or name.startswith(f"{cut} #") for name in names)
        names.append(f"{cut} #{again + 1}" if again else cut)
    return names


def _least(cells: Sequence[Cell]) -> int:
    """Where the axis begins: the tens under the lowest interval, so that shares near 100 % can be told apart."""
    return min(90, 10 * int(10 * min(cell.low for cell in cells)))


def _state_colour() -> Any:
    import altair as alt

    return alt.Color("state:N", scale=alt.Scale(domain=_STATES, range=_STATE_COLOURS), legend=None)


def _state_shape() -> Any:
    import altair as alt

    shapes = ["circle", "diamond", "square"]
    return alt.Shape("state:N", scale=alt.Scale(domain=_STATES, range=shapes), legend=None)


def _limit_rule(limit: float, horizontal: bool = False) -> Any:
    import altair as alt

    rule = alt.Chart(alt.Data(values=[{"limit": 100 * limit}])).mark_rule(strokeDash=[4, 3], color=LIGHT["muted"])
    return rule.encode(y="limit:Q") if horizontal else rule.encode(x="limit:Q")
