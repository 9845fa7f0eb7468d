"""Renders audit.html, one self-contained file, from a finished audit. What it says is chosen in view.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit_pipeline.plural import counted
from audit_pipeline.report import palette, wording
from audit_pipeline.report.view import page_view
from audit_pipeline.retrieval.diagnosis import LEXICAL_CAP


def render_page(audit: Mapping[str, Any], texts: Mapping[str, str], clusters: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page as HTML text.

    ``texts`` holds what may be shown of a chunk by its id, ``clusters`` the largest duplicate clusters. Every string
    of the audit is escaped; only SVG drawn by this room and the styles are inserted as they are.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("audit_pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": lambda share: wording.unbroken(wording.percent(share)),
        "number": wording.number,
        "counted": counted,
        "severities": wording.severity_counts,
        "agreement": wording.agreement_words,
        "scope": wording.scope_words,
        "share": lambda finding: wording.unbroken(wording.share_words(finding)),
        "interval": lambda figure: wording.unbroken(wording.interval(figure)),
        "visible": wording.visible,
        "without_figures": wording.without_figures,
        "limit": lambda limit: wording.unbroken(wording.limit_words(limit)),
        "unbroken": wording.unbroken,
    }
    view = page_view(audit, texts, clusters)
    view["word_searches"] = LEXICAL_CAP
    view["charts"] = {
        size: {name: Markup(svg) for name, svg in drawn.items()} for size, drawn in view["charts"].items()
    }
    return environment.get_template("page.html.j2").render(
        **view,
        light=palette.css_variables(0),
        dark=palette.css_variables(1),
        chart_colours=Markup(palette.css_chart_colours()),
    )
