"""The charts of the duplicates section: similarity floor and threshold sweep. No figure is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit_pipeline.report.palette import LIGHT

_FLOOR = (("p50", 0.5), ("p90", 0.1), ("p99", 0.01), ("p99.9", 0.001))
_PRECISION, _RECALL = "precision", "recall"


def floor_chart(
    floor: Mapping[str, Any], sweep: Sequence[Mapping[str, Any]], recommended: float | None, width: int
) -> Any:
    """How similar unrelated chunks are: the share of random pairs at or above a cosine, with the sweep's thresholds."""
    import altair as alt

    curve = [
        {"cosine": floor[name], "share": share, "label": f"{name} {floor[name]:.3f}"}
        for name, share in _FLOOR
        if floor[name] is not None
    ]
    if floor["max"] is not None and floor["n"]:
        curve.append({"cosine": floor["max"], "share": 1 / floor["n"], "label": f"max {floor['max']:.3f}"})
    thresholds = [{"threshold": row["threshold"]} for row in sweep]
    least = min([point["cosine"] for point in curve] + [row["threshold"] for row in thresholds])
    x = alt.Scale(domain=[max(-1.0, least - 0.04), 1.0], nice=False)
    share = alt.Y(
        "share:Q",
        scale=alt.Scale(type="log", domain=[min([1e-4, *(point["share"] for point in curve)]), 1]),
        title="random pairs at least as similar",
        axis=alt.Axis(
            labelExpr="datum.value >= 1 ? 'all' : '1 in ' + format(round(1 / datum.value), ',')", values=_decades()
        ),
    )
    base = alt.Chart(alt.Data(values=curve)).encode(x=alt.X("cosine:Q", scale=x, title="cosine"), y=share)
    line = base.mark_line(
        color=LIGHT["blue"], strokeWidth=2, point={"filled": True, "size": 50, "color": LIGHT["blue"]}
    )
    labels = base.mark_text(align="left", dx=7, dy=-5, color=LIGHT["ink"]).encode(text="label:N")
    rules = alt.Chart(alt.Data(values=thresholds)).mark_rule(color=LIGHT["muted"], strokeDash=[2, 3])
    layers = [rules.encode(x=alt.X("threshold:Q", scale=x)), line, labels]
    if recommended is not None:
        layers.append(_recommended_rule(recommended, x))
    return alt.layer(*layers).properties(width=width - 100, height=200)


def sweep_chart(sweep: Sequence[Mapping[str, Any]], recommended: float | None, width: int) -> Any:
    """Precision and recall over the thresholds with intervals where they are labelled, and the flagged pairs below."""
    import altair as alt

    order = [f"{row['threshold']:g}" for row in sweep]
    points = [
        {"threshold": f"{row['threshold']:g}", "measure": measure, **shown}
        for row in sweep
        for measure, key in ((_PRECISION, "precision"), (_RECALL, "recall_pipeline"))
        if (shown := share_of(row, key)) is not None
    ]
    flagged = [
        {
            "threshold": f"{row['threshold']:g}",
            "flagged": value,
            "label": f"{value:,.0f}",
            "recommended": row["recommended"],
        }
        for row in sweep
        if (value := row["flagged_per_10k_candidates"]) is not None
    ]
    panels = []
    if points:
        x = alt.X(
            "threshold:N",
            sort=order,
            title=None,
            scale=alt.Scale(domain=order),
            axis=alt.Axis(labelAngle=0, ticks=False),
        )
        colour = alt.Color(
            "measure:N", scale=alt.Scale(domain=[_PRECISION, _RECALL], range=[LIGHT["blue"], LIGHT["orange"]])
        )
        shape = alt.Shape("measure:N", scale=alt.Scale(domain=[_PRECISION, _RECALL], range=["circle", "square"]))
        base = alt.Chart(alt.Data(values=points)).encode(x=x, color=colour)
        y = alt.Scale(domain=[0, 100])
        panels.append(
            alt.layer(
                base.mark_rule(strokeWidth=4, opacity=0.4).encode(y=alt.Y("low:Q", scale=y, title="%"), y2="high:Q"),
                base.mark_line(strokeWidth=2).encode(y=alt.Y("value:Q", scale=y)),
                base.mark_point(filled=True, size=60, opacity=1).encode(y=alt.Y("value:Q", scale=y), shape=shape),
            ).properties(width=width - 70, height=170)
        )
    x = alt.X(
        "threshold:N",
        sort=order,
        title="cosine threshold",
        scale=alt.Scale(domain=order),
        axis=alt.Axis(labelAngle=0, ticks=False),
    )
    base = alt.Chart(alt.Data(values=flagged)).encode(
        x=x, y=alt.Y("flagged:Q", title=["flagged per 10,000", "candidate pairs"], axis=alt.Axis(tickCount=4))
    )
    bars = base.mark_bar().encode(
        color=alt.condition("datum.recommended", alt.value(LIGHT["green"]), alt.value(LIGHT["muted"]))
    )
    counts = base.mark_text(dy=-7, color=LIGHT["ink"]).encode(text="label:N")
    panels.append(alt.layer(bars, counts).properties(width=width - 70, height=120))
    if recommended is not None:
        panels[0] = panels[0].properties(title=f"recommended: {recommended:g}")
    return alt.vconcat(*panels, spacing=14).resolve_scale(color="independent", shape="independent")


def share_of(row: Mapping[str, Any], key: str) -> dict[str, float] | None:
    """A share of a sweep row in per cent with its interval, None where it was not measured."""
    value = row.get(key)
    low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
    if value is None:
        return None
    return {
        "value": 100 * value,
        "low": 100 * (value if low is None else low),
        "high": 100 * (value if high is None else high),
    }


def _recommended_rule(threshold: float, x: Any) -> Any:
    import altair as alt

    data = alt.Data(values=[{"threshold": threshold, "label": f"recommended {threshold:g}"}])
    base = alt.Chart(data).encode(x=alt.X("threshold:Q", scale=x))
    rule = base.mark_rule(color=LIGHT["green"], strokeWidth=2)
    word = base.mark_text(color=LIGHT["green"], align="right", dx=-5, dy=10, fontWeight="bold")
    return rule + word.encode(y=alt.value(0), text="label:N")


def _decades() -> list[float]:
    return [10.0**-power for power in range(8)]
