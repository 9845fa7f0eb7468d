"""The section on the application's own queries, chosen and put into words for the page. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROLES: dict[str, str] = {
    "query": "as the settings say",
    "passage": "the documents' prompt, not the queries'",
    "unexplained": "no known prompt: another model, or the text is rewritten before it is encoded",
    "other_dimension": "not of the table's length: another model",
    "not_identifiable": "rounded so far that its prompt cannot be told",
}
SEARCHES: dict[str, str] = {
    "cosine": "under cosine",
    "l2": "under l2",
    "dot": "under dot",
    "without_filter": "without the filter",
    "declared_search": "with what the search as declared returns now",
    "near": "if five times as many of the closest counted",
}


def observed_view(audit: Mapping[str, Any]) -> dict[str, Any] | None:
    """The section with its rows in words; None where the audit had no log of the application's queries."""
    observed = audit["observed"]
    if observed is None:
        return None
    rows = [
        {**arm, "meaning": ROLES.get(arm["name"], "another prompt than the settings say")}
        for arm in observed["query_side"]["arms"]
    ]
    tried = observed["returned"]["explanations"]
    explanations = [{"name": SEARCHES[name], "figure": figure} for name, figure in tried.items()]
    return {**observed, "rows": rows, "explanations": explanations}
