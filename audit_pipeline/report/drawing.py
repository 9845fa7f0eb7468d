"""Turns an Altair chart into inline SVG or a small PNG. What a chart shows belongs to charts.py and its kin."""

from __future__ import annotations

import io
import re
from typing import Any

from audit_pipeline.report.palette import LIGHT

WIDE, NARROW = 900, 310  # px: inside the page's column, and inside a phone of 390 px with its margins
_NAMESPACE = re.compile(r'\s+xmlns(:\w+)?="[^"]*"')
_SIZE = re.compile(r'(<svg\b[^>]*?)\s+width="([\d.]+)" height="([\d.]+)"')
_IDS = re.compile(r'(id="|url\(#)((?:clip|gradient_|pattern_)\d+)')


def to_svg(chart: Any, prefix: str) -> str:
    """The chart as an SVG element for inlining; ``prefix`` keeps its ids apart from those of other charts.

    Namespaces are dropped (HTML needs none, and the page then holds no address at all), and the width becomes a
    maximum, so that a narrow window shrinks the chart instead of scrolling.
    """
    text = io.StringIO()
    _styled(chart).save(text, format="svg")
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = _NAMESPACE.sub("", svg, count=2)
    svg = _SIZE.sub(r'\1 style="width:\2px"', svg, count=1)
    return _IDS.sub(rf"\g<1>{prefix}-\g<2>", svg)


def to_png(chart: Any, scale: float = 1.0) -> bytes:
    """The chart as a PNG on white."""
    data = io.BytesIO()
    _styled(chart).save(data, format="png", scale_factor=scale)
    return data.getvalue()


def _styled(chart: Any) -> Any:
    text = {"labelColor": LIGHT["ink"], "titleColor": LIGHT["muted"], "labelFontSize": 12, "titleFontSize": 12}
    axis = {**text, "titleFontWeight": "normal", "gridColor": LIGHT["line"], "domainColor": LIGHT["line"]}
    return (
        chart.configure(
            background=LIGHT["ground"],
            font="sans-serif",
            aria=False,
            padding={"left": 14, "right": 8, "top": 5, "bottom": 5},
        )
        .configure_axis(**axis, tickColor=LIGHT["line"])
        .configure_view(stroke=None)
        .configure_legend(**text, orient="top", title=None, symbolOpacity=1)
        .configure_text(fontSize=12)
        .configure_title(color=LIGHT["ink"], fontSize=13, anchor="start", fontWeight="bold")
    )
