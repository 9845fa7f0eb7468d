"""The page's rows on ANN settings, put into words, and their chart. No figure is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit_pipeline.report.palette import LIGHT

_PRESENT, _RECOMMENDED, _OTHER = "as configured", "recommended", "tried"


def ann_view(audit: Mapping[str, Any]) -> dict[str, Any] | None:
    """The section's variables; None where no ANN index answers or no settings were tried."""
    sweep = audit["ann_sweep"]
    if not sweep["n"]:
        return None
    names = _varied(sweep["settings"])
    return {**sweep, "names": names, "rows": [_row(row, names) for row in sweep["settings"]]}


def ann_chart(sweep: Mapping[str, Any], width: int) -> Any:
    """Each setting by its time per query and its recall with the interval, against the limit."""
    import altair as alt

    figures = [row["ann_recall@10"] for row in sweep["settings"]]
    data: list[dict[str, Any]] = [
        {"ms": row["median_ms"], "kind": _kind(row)} | {name: 100 * figure[name] for name in ("value", "low", "high")}
        for row, figure in zip(sweep["settings"], figures, strict=True)
    ]
    least = min(90, 10 * int(10 * min(figure["low"] for figure in figures)))
    y = alt.Scale(domain=[least, 100], zero=False)
    kinds = [_OTHER, _PRESENT, _RECOMMENDED]
    colours = alt.Scale(domain=kinds, range=[LIGHT["blue"], LIGHT["orange"], LIGHT["green"]])
    shapes = alt.Scale(domain=kinds, range=["circle", "diamond", "square"])
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X("ms:Q", title="ms per query (median)", axis=alt.Axis(tickCount=6)),
        color=alt.Color("kind:N", scale=colours),
    )
    interval = base.mark_rule(strokeWidth=3, opacity=0.4).encode(
        y=alt.Y("low:Q", scale=y, title="ann_recall@10 in %"), y2="high:Q"
    )
    point = base.mark_point(filled=True, size=90, opacity=1).encode(
        y=alt.Y("value:Q", scale=y), shape=alt.Shape("kind:N", scale=shapes)
    )
    limit = alt.Chart(alt.Data(values=[{"limit": 100 * sweep["limit"]}]))
    rule = limit.mark_rule(strokeDash=[4, 3], color=LIGHT["muted"]).encode(y=alt.Y("limit:Q", scale=y))
    return alt.layer(rule, interval, point).properties(width=width - 80, height=200)


def _varied(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that any row has a value for, in the order of the settings file."""
    return [name for name in ("nprobes", "ef", "refine_factor") if any(row[name] is not None for row in rows)]


def _kind(row: Mapping[str, Any]) -> str:
    return _PRESENT if row["present"] else _RECOMMENDED if row["recommended"] else _OTHER


def _row(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    times = row["times_present"]
    against = f"{times['median']:.2f} ({times['low']:.2f} to {times['high']:.2f})"
    return {
        **row,
        "values": [(name, "none" if row[name] is None else str(row[name])) for name in names],
        "against": "1" if row["present"] else against,
        "mark": "" if _kind(row) == _OTHER else _kind(row),
        "time": f"{row['median_ms']:.2f} ms ({row['p90_ms']:.2f})",
    }
