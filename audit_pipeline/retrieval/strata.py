"""The figures of each source, date, batch, length band and tenant. Which of them are out of line: anomalies.py."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.corpus.bands import LENGTH_BANDS, length_band
from audit_pipeline.corpus.batches import NO_SOURCE
from audit_pipeline.proportions import wilson
from audit_pipeline.retrieval.let_through import hidden_by_filter
from audit_pipeline.retrieval.like_haystacks import can_miss, like_haystacks
from audit_pipeline.retrieval.places import PLACES
from audit_pipeline.retrieval.tables import booleans

DIMENSIONS = ("source", "ingestion_date", "batch", "length_band", "position", "document")
KEYS: dict[str, tuple[str, ...]] = {
    "source": ("source",),
    "ingestion_date": ("ingestion_date",),
    "batch": ("source", "ingestion_date"),
    "length_band": ("length_band",),
    "filter": ("filter",),
    "position": ("position",),
    "document": ("source", "document"),
}
OPTIONAL = frozenset(("position", "document"))
"""Dimensions that only chunks with a document have; others are in none of their strata."""

LEAST_OF_DOCUMENT = 20
MOST_DOCUMENTS = 20
"""Documents are shown from that many probes on, and at most so many of them, the largest first."""
_NO_DATE = ""  # stands for null while grouping, which drops nulls


@dataclass(frozen=True)
class RunMeasures:
    """How one run's table becomes figures: measure -> column of hits, and which rows count."""

    run: str
    section: str
    measures: dict[str, str]
    counts: Callable[[pd.DataFrame], pd.Series] | None = None
    k: int = 10  # of the measure that strata are judged by


RUNS = (
    RunMeasures("self", "self_retrieval", {"self@1": "hit_1", "self@10": "hit_10"}, k=1),
    RunMeasures(
        "held_out",
        "held_out",
        {"heldout@1": "hit_1", "heldout@10": "hit_10"},
        lambda probes: probes["eligible"].astype(bool) & ~probes["overlap"].fillna(False).astype(bool),
    ),
    RunMeasures(
        "labelled",
        "labelled",
        {"labelled_success@10": "success_10", "exact_success@10": "exact_success_10"},
    ),
)


def strata_tables(
    runs: dict[str, pa.Table | None], population: pa.Table
) -> tuple[pa.Table, dict[str, dict[str, list[dict[str, Any]]]]]:
    """The table STRATA, and for each section of audit.json its by_source, by_ingestion_date, ... lists.

    ``runs``: run name (self, held_out, labelled) -> its table, None where it did not run. ``population`` are all
    chunks with source, batch, ingestion_date and length_band (or n_tokens and n_words, from which the band follows):
    ``chunks`` of a stratum are counted there, and a stratum without probes is shown with n 0. Each figure is hits of
    n with its Wilson interval. ``ingestion_date`` is the first day of the batch's period, null where rows have none.
    Where the population has a column filter (the values that a row fills the application's filter with, a JSON
    object; the runs then have it too, see ``with_filter``), by_filter lists those with probes: there may be thousands.
    By position (first, middle or last of its document) and by document where tables and population have these columns
    (``places.with_places``); of the documents only the largest that have enough probes.
    """
    chunks = frame(population)
    dimensions = (*DIMENSIONS, "filter") if "filter" in chunks else DIMENSIONS
    tables, sections = [], {}
    for run in RUNS:
        table = runs.get(run.run)
        if table is None:
            continue
        probes = frame(table)
        lists = {}
        for dimension in dimensions:
            elements = _elements(run, dimension, probes, chunks)
            tables += [_rows(run, dimension, element) for element in elements]
            if dimension == "filter":
                elements = [e | {"filter": json.loads(e["filter"])} for e in elements if e["n"]]
            lists[f"by_{dimension}"] = elements
        sections[run.section] = lists
    rows = [row for some in tables for row in some]
    return pa.Table.from_pylist(rows, schema=schemas.STRATA), sections


def with_filter(table: pa.Table | None, population: pa.Table) -> pa.Table | None:
    """A run's table with the population's column filter, by the chunk or the answer of each row."""
    if table is None or "filter" not in population.column_names:
        return table
    of_chunk = table["chunk_id" if "chunk_id" in table.column_names else "answer_id"]
    place = pc.index_in(of_chunk, value_set=population["chunk_id"].combine_chunks())
    return table.append_column("filter", population["filter"].take(place))


def frame(table: pa.Table) -> pd.DataFrame:
    """What strata are made of as a DataFrame: source "(none)" for null, the batch's period as ISO date or ""."""
    names = (
        "position",
        "document",
        "cause",
        "haystack",
        "batch",
        "length_band",
        "eligible",
        "overlap",
        "hit_1",
        "hit_10",
        "success_10",
        "exact_success_10",
        "chunk_id",
        "filter",
    )
    columns: dict[str, Any] = {name: table[name].to_pandas() for name in names if name in table.column_names}
    n = table.num_rows
    source = (
        table["source"].fill_null(NO_SOURCE).to_pandas()
        if "source" in table.column_names
        else pd.Series([NO_SOURCE] * n)
    )
    batch = columns["batch"].fillna("")
    period = batch.str.partition("|")[0] if n else batch
    if "ingestion_date" in table.column_names:
        period = period.where(table["ingestion_date"].is_valid().to_pandas(), _NO_DATE)
    if "length_band" not in columns:
        columns["length_band"] = length_band(table["n_tokens"], table["n_words"]).to_pandas()
    columns = {name: pd.Series([None] * n, dtype=object) for name in OPTIONAL} | columns
    return pd.DataFrame(columns | {"source": source.to_numpy(), "ingestion_date": period.to_numpy()})


def _elements(run: RunMeasures, dimension: str, probes: pd.DataFrame, chunks: pd.DataFrame) -> list[dict[str, Any]]:
    keys = list(KEYS[dimension])
    if dimension == "filter" or dimension in OPTIONAL:
        chunks = chunks.dropna(subset=keys)  # a chunk that the table lacks fills no filter
    sizes = chunks.groupby(keys, dropna=False, observed=True).size()
    counted = probes if run.counts is None else probes[run.counts(probes)]
    counted = counted.dropna(subset=keys)
    n = counted.groupby(keys).size()
    if dimension == "document":
        enough = sizes[sizes.index.isin(n.index[n >= LEAST_OF_DOCUMENT])]
        sizes = enough.sort_index().sort_values(ascending=False, kind="stable").head(MOST_DOCUMENTS)
        n = n[n.index.isin(sizes.index)]
    index = sizes.index.union(n.index) if len(sizes) and len(n) else (sizes.index if len(sizes) else n.index)
    hits = {}
    for measure, column in run.measures.items():
        measured = counted[counted[column].notna()]
        hits[measure] = (measured.groupby(keys).size(), measured[measured[column].astype(bool)].groupby(keys).size())
    looked_at = (
        probes.dropna(subset=keys).groupby(keys)["eligible"].agg(["size", "sum"]) if run.run == "held_out" else None
    )
    elements = []
    for key in index:
        values = key if isinstance(key, tuple) else (key,)
        element: dict[str, Any] = {name: value or None for name, value in zip(keys, values, strict=True)}
        element |= {"chunks": int(sizes.get(key, 0)), "n": int(n.get(key, 0))}
        for measure, (asked, hit) in hits.items():
            unmeasured = len(counted) > 0 and asked.sum() == 0
            element[measure] = None if unmeasured else wilson(int(hit.get(key, 0)), int(asked.get(key, 0))).as_dict()
        if looked_at is not None:
            size, eligible = looked_at.loc[key] if key in looked_at.index else (0, 0)
            element["eligible"] = wilson(int(eligible), int(size)).as_dict()
        elements.append(element)
    return sorted(elements, key=lambda element: [_order(name, element[name]) for name in keys])


def judged_probes(run: RunMeasures, table: pa.Table, column: str) -> pd.DataFrame:
    """The probes of a run that strata are judged by, with ``hit`` (bool) from this column.

    Misses to twins and to rows in another role count as hits: of two equal texts the row that stands first wins, which
    says nothing about the source of the other, and rows that were written under another prompt are the fault of the
    batch they belong to, which ``role_mismatch`` names. A miss
    of cause ``truncated`` stays one, for its text differs from the others and cannot be found. ``comparable`` (int)
    groups probes of like haystacks; those that can hardly miss among so few rows are left out, and those whose rows the
    filter hides, which ``filter_excludes`` names.
    """
    probes = frame(table).assign(outdone=_outdone(table))[~hidden_by_filter(table)]
    if run.counts is not None:
        probes = probes[run.counts(probes)]
    probes = probes[probes[column].notna()].dropna(subset=["length_band"])
    hit = probes[column].astype(bool) | probes["outdone"]
    probes = probes.assign(hit=hit, comparable=0)
    if "haystack" in probes and probes["haystack"].notna().all():
        haystack = probes["haystack"].to_numpy(np.int64)
        probes = probes.assign(comparable=like_haystacks(haystack))[can_miss(haystack, run.k)]
    return probes.reset_index(drop=True)


def _outdone(table: pa.Table) -> np.ndarray:
    """(n,) bool: misses for which not the own row is to blame but those ahead of it: twins, or rows in another role."""
    of_twins = pc.equal(table["cause"], "twin")
    if "evidence" in table.column_names:
        # Inside of a JSON string the quotes would be escaped: this is the key, whatever the ids say.
        of_others = pc.and_(
            pc.equal(table["cause"], "role_mismatch"), pc.match_substring(table["evidence"], '"rows_ahead": ')
        )
        of_twins = pc.or_kleene(of_twins, of_others)
    return booleans(pc.fill_null(of_twins, False))


def _order(name: str, value: str | None) -> tuple[int, str]:
    if name == "length_band" and value in LENGTH_BANDS:
        return LENGTH_BANDS.index(value), ""
    if name == "position" and value in PLACES:
        return PLACES.index(value), ""
    return 0, value or ""


def _rows(run: RunMeasures, dimension: str, element: dict[str, Any]) -> list[dict[str, Any]]:
    date = element.get("ingestion_date")
    rows = []
    for measure in (*run.measures, *(("eligible",) if run.run == "held_out" else ())):
        figure = element[measure] or {"value": None, "low": None, "high": None, "n": 0}
        rows.append(
            {
                "run": run.run,
                "dimension": dimension,
                "source": element.get("source"),
                "ingestion_date": dt.date.fromisoformat(date) if date else None,
                "length_band": element.get("length_band"),
                "filter": element.get("filter"),
                "position": element.get("position"),
                "document": element.get("document"),
                "chunks": element["chunks"],
                "n": figure["n"],
                "measure": measure,
                "value": figure["value"],
                "low": figure["low"],
                "high": figure["high"],
            }
        )
    return rows


def median_batch_probes(probes: pa.Table) -> int:
    """Median number of probes in a batch that has any; 0 without probes."""
    if probes.num_rows == 0:
        return 0
    return int(np.median(frame(probes).groupby("batch").size()))
