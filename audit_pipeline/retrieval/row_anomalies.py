"""A stretch of a table without dates whose probes miss more than the rest. How it is found is in change_point.py."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.retrieval.anomalies import JUDGED, NOT_TO_BLAME, benjamini_hochberg
from audit_pipeline.retrieval.change_point import ChangePoint, change_point
from audit_pipeline.retrieval.strata import RUNS, RunMeasures, judged_probes

TABLE_ROW = "table_row"
"""Column of the population: the ordinal of each chunk's row in the table."""

_PARTS = ("filter", "document")  # of an anomaly's evidence: parts that a scope has no key for

FALSE_DISCOVERY_RATE = 0.005
"""Stricter than that of other strata: whoever looks for a change anywhere looks in very many places."""

_EFFECTS = {"self": 1.0, "held_out": 2.0}
"""Least effect of each run in units of ``limits.source_gap``.

Rows usually stand in the order of their documents, and how hard content is changes along it: held-out sentences of a
reference are harder than those of prose. Own texts find themselves whatever they say.
"""


def row_anomalies(
    runs: dict[str, pa.Table | None], population: pa.Table, known: Sequence[Finding], settings: IndexAuditSettings
) -> list[Finding]:
    """stratum_anomaly with scope {rows: [first, last]}: probes that miss more from one row of the table on.

    Only where the population has the column ``TABLE_ROW`` and no dates. Probes are compared within source, length band
    and haystacks of like size; misses to twins (a copy follows its original) or to rows in another role count as
    hits; probes of the sources, tenants and documents that ``known`` anomalies name are left out. The p-values of the
    runs are judged together (Benjamini & Hochberg at 0.5 %).
    """
    if TABLE_ROW not in population.column_names or population["ingestion_date"].null_count < len(population):
        return []
    found: list[tuple[RunMeasures, pd.DataFrame, ChangePoint]] = []
    for run in RUNS:
        table = runs.get(run.run)
        if run.run not in _EFFECTS or table is None or not table.num_rows:
            continue
        probes = _in_table_order(run, table, population)
        probes = probes[~_explained(probes, known)].reset_index(drop=True)
        groups = probes.groupby(["source", "length_band", "comparable"], sort=False).ngroup().to_numpy()
        point = change_point(probes["hit"].to_numpy(bool), groups, settings.sample.seed)
        if point is not None:
            found.append((run, probes, point))
    discovered = benjamini_hochberg(np.array([point.p for *_, point in found]), FALSE_DISCOVERY_RATE)
    return [
        _finding(run, probes, point)
        for (run, probes, point), is_new in zip(found, discovered, strict=True)
        if is_new and point.effect >= _EFFECTS[run.run] * settings.limits.source_gap
    ]


def _explained(probes: pd.DataFrame, known: Sequence[Finding]) -> np.ndarray:
    """(n,) bool: probes of a source, a tenant or a document that an anomaly names by itself."""
    explained = np.zeros(len(probes), bool)
    for finding in known:
        named = {**finding.scope, **{key: finding.evidence[key] for key in _PARTS if key in finding.evidence}}
        for key, value in named.items() if len(named) == 1 else ():
            if key in probes:
                explained |= (probes[key].map(_parsed) if key == "filter" else probes[key]).eq(value).to_numpy(bool)
    return explained


def _parsed(shown: object) -> object:
    return json.loads(shown) if isinstance(shown, str) else shown


def _in_table_order(run: RunMeasures, table: pa.Table, population: pa.Table) -> pd.DataFrame:
    probes = judged_probes(run, table, run.measures[JUDGED[run.run]])
    place = pc.index_in(pa.array(probes["chunk_id"]), value_set=population["chunk_id"].combine_chunks())
    rows = population[TABLE_ROW].combine_chunks().take(place).to_numpy(zero_copy_only=False)
    probes = probes.assign(row=rows).dropna(subset=["row"])
    return probes.sort_values("row", kind="stable").reset_index(drop=True)


def _finding(run: RunMeasures, probes: pd.DataFrame, point: ChangePoint) -> Finding:
    inside = probes.iloc[point.first : point.last + 1]
    first, last = int(inside["row"].iloc[0]), int(inside["row"].iloc[-1])
    missed = inside[~inside["hit"].to_numpy(bool)]
    measure = JUDGED[run.run]
    return Finding(
        "stratum_anomaly",
        "warning",
        f"rows {first:,} to {last:,} of the table: {measure} is {point.hits:,} of {point.n:,}, {point.effect:.0%} "
        f"under {point.rest_hits:,} of {point.rest_n:,} in the rest of the table at equal length; "
        f"{NOT_TO_BLAME}.",
        "Look at the causes of its misses, and at what changed in the writer when these rows were written.",
        n_compared=point.n,
        share=1 - point.hits / point.n,
        scope={"rows": [first, last]},
        evidence={
            "measure": measure,
            "hits": point.hits,
            "rest_n": point.rest_n,
            "effect": round(point.effect, 6),
            "p": point.p,
        },
        examples=sorted(missed["chunk_id"]),
    )
