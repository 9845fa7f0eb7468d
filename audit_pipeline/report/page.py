"""Renders audit.html, one self-contained file, from a finished audit. Wording is in wording.py, charts in charts.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit_pipeline.report import wording


def render_page(audit: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """The page as HTML text; ``texts`` holds what may be shown of a chunk by its id."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("audit_pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": wording.percent, "number": wording.number, "scope": wording.scope_words}
    return environment.get_template("page.html.j2").render(audit=audit, texts=texts, words=wording)
