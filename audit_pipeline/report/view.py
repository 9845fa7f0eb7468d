"""Everything the page shows, chosen and put into words before it is laid out. The template only lays out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from audit_pipeline.index.text_drift import WORDS as DRIFT_WORDS
from audit_pipeline.report import blind_spots, charts, duplicate_charts, strata_view
from audit_pipeline.report.ann_view import ann_chart, ann_view
from audit_pipeline.report.arms_view import arms_view
from audit_pipeline.report.drawing import NARROW, WIDE, to_svg
from audit_pipeline.report.duplicates_view import duplicates_view
from audit_pipeline.report.excerpts import rival_of, shown_misses
from audit_pipeline.report.finding_groups import group_findings
from audit_pipeline.report.limits_view import headline_cards
from audit_pipeline.report.observed_view import observed_view
from audit_pipeline.report.summary import exit_code
from audit_pipeline.report.verdict_words import verdict_words
from audit_pipeline.report.wording import CAUSES, CLUSTERS, RUNS, visible

STEPS = 3
ROLES_SHOWN = 40
_VALUE_LENGTH = 160


def page_view(
    audit: Mapping[str, Any], texts: Mapping[str, str], clusters: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The template's variables. Strings are unescaped: the template escapes all but the SVG of ``charts``."""
    groups = group_findings(audit["findings"])
    tone, headline, answer = verdict_words(audit)
    counts = {
        severity: sum(f["severity"] == severity for f in audit["findings"]) for severity in ("error", "warning", "info")
    }
    return {
        "audit": audit,
        "tone": "bad" if counts["error"] and tone == "good" else tone,
        "headline": headline,
        "answer": answer,
        "steps": [group for group in groups if group.severity != "info"][:STEPS],
        "serious": counts["error"] + counts["warning"],
        "counts": counts,
        "exit_code": exit_code(audit),
        "cards": headline_cards(audit),
        "groups": groups,
        "charts": page_charts(audit),
        "observed": observed_view(audit),
        "arms": arms_view(audit),
        "ann": ann_view(audit),
        "causes": cause_rows(audit),
        "misses": [_miss(miss, texts) for miss in shown_misses(audit)],
        "text_hidden": audit["settings"]["report"]["text"] == "none",
        "worst_batches": _worst_batches(audit),
        "duplicates": duplicates_view(audit),
        "clusters": clusters,
        "cluster_words": CLUSTERS,
        "cluster_texts": texts,
        "unmeasured": blind_spots.unmeasured(audit),
        "blind_spots": blind_spots.blind_spots(audit),
        "roles": audit["roles"][:ROLES_SHOWN],
        "settings_text": json.dumps(audit["settings"], indent=2, ensure_ascii=False),
        "plan_text": json.dumps(audit["index"]["plan"], indent=2, ensure_ascii=False),
        "timings": sorted(audit["timings"].items(), key=lambda item: -item[1]),
        "total_seconds": sum(audit["timings"].values()),
    }


def page_charts(audit: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Each chart as SVG for wide and narrow windows; one that would be empty is left out."""
    return {"wide": _drawn(audit, WIDE, "w"), "narrow": _drawn(audit, NARROW, "n")}


def cause_rows(audit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Causes that occurred, the most frequent first, with their counts by run and what they mean."""
    names = {cause for counts in audit["causes"].values() for cause, count in counts.items() if count}
    rows = [
        {"cause": cause, "meaning": CAUSES[cause], **{run: audit["causes"][run].get(cause, 0) for run in RUNS}}
        for cause in names
    ]
    return sorted(rows, key=lambda row: (-sum(row[run] for run in RUNS), row["cause"]))


def _drawn(audit: Mapping[str, Any], width: int, prefix: str) -> dict[str, str]:
    own, limits, duplicates = audit["self_retrieval"], audit["settings"]["limits"], audit["duplicates"]
    limit = limits["self_at_1"]
    drawn: dict[str, Any] = {}
    rows = charts.headline_rows(audit)
    if rows:
        drawn["figures"] = charts.figures_chart(rows, width)
    sources = strata_view.worst_first(strata_view.cells_of(own["by_source"], ("source",), "self@1"), limit)
    if sources:
        drawn["sources"] = charts.cells_chart(sources, limit, width, "self@1 in %")
    days = strata_view.cells_of(own["by_ingestion_date"], ("ingestion_date",), "self@1")
    if days:
        periods, _ = strata_view.pooled(days, 40 if width == WIDE else strata_view.MAX_PERIODS)
        drawn["dates"] = charts.timeline_chart(periods, limit, width, "self@1 in %")
    tenants = strata_view.worst_first(strata_view.cells_of(own.get("by_filter", []), ("filter",), "self@1"), limit)
    if tenants:
        drawn["filters"] = charts.cells_chart(tenants, limit, width, "self@1 in %")
    bands = sorted(strata_view.cells_of(own["by_length_band"], ("length_band",), "self@1"), key=_tokens)
    if bands:
        drawn["lengths"] = charts.cells_chart(bands, limit, width, "self@1 in %, by tokens of the chunk")
    grid = strata_view.grid_of(own["by_batch"], "self@1", limit, 24 if width == WIDE else 12)
    if len(grid.sources) > 1 and len(grid.periods) > 1:
        drawn["grid"] = charts.grid_chart(grid, limit, width)
    if any(count for counts in audit["causes"].values() for count in counts.values()):
        drawn["causes"] = charts.causes_chart(audit["causes"], width)
    if audit["ann_sweep"]["n"]:
        drawn["ann"] = ann_chart(audit["ann_sweep"], width)
    recommended = duplicates["recommended"]["threshold"]
    if duplicates["floor"]["n"]:
        drawn["floor"] = duplicate_charts.floor_chart(duplicates["floor"], duplicates["sweep"], recommended, width)
    if any(row["flagged_per_10k_candidates"] is not None for row in duplicates["sweep"]):
        drawn["sweep"] = duplicate_charts.sweep_chart(duplicates["sweep"], recommended, width)
    return {name: to_svg(chart, f"{prefix}-{name}") for name, chart in drawn.items()}


def _worst_batches(audit: Mapping[str, Any]) -> list[strata_view.Cell]:
    limit = audit["settings"]["limits"]["self_at_1"]
    cells = strata_view.cells_of(audit["self_retrieval"]["by_batch"], ("source", "ingestion_date"), "self@1")
    worst = strata_view.worst_first(cells, limit, 8)
    return [cell for cell in worst if cell.state(limit, len(cells)) == strata_view.LOW]


def _tokens(band: strata_view.Cell) -> int:
    """Where a length band such as '40-127' or '2048+' begins."""
    return int("".join(itertools.takewhile(str.isdigit, band.name)) or 0)


def _miss(miss: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    rival = rival_of(miss)
    evidence = miss["evidence"]
    if miss["cause"] == "text_drift":
        evidence = evidence | {"kind": DRIFT_WORDS[evidence["kind"]]}
    shown = {key: _short(value) for key, value in evidence.items() if value not in (rival, [rival])}
    return {
        **miss,
        "run_words": RUNS[miss["run"]],
        "meaning": CAUSES[miss["cause"]],
        "place": _place(miss),
        "evidence": shown,
        "rival": rival,
        "text": texts.get(miss["chunk_id"]),
        "rival_text": texts.get(rival) if rival else None,
    }


def _place(miss: Mapping[str, Any]) -> str:
    returned, best, worst = miss["rank_returned"], miss["rank_min"], miss["rank_max"]
    exact = "no place by exact score" if best is None else f"place {best:,} by exact score"
    if best is not None and worst is not None and worst != best:
        exact = f"place {best:,} to {worst:,} by exact score, tied"
    if miss["run"] == "held_out":
        return exact
    return f"{'not among the results' if returned is None else f'place {returned:,} of the results'}, {exact}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = visible(text)
    return text if len(text) <= _VALUE_LENGTH else text[:_VALUE_LENGTH] + " …"
