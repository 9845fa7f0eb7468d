"""Strata that are out of line with the rest of their dimension. The figures themselves are in strata.py."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.retrieval.strata import KEYS, RUNS, RunMeasures, judged_probes
from audit_pipeline.scopes import Cell, cells_in, merge_cells

MIN_PROBES = 20
NOT_TO_BLAME = "misses to twins and to rows in another role count as hits"
_MOSTLY = 0.9
FALSE_DISCOVERY_RATE = 0.05
JUDGED = {"self": "self@1", "held_out": "heldout@10", "labelled": "labelled_success@10"}
"""The figure of each run that its strata are judged by."""

_OF_A_SCOPE = ("source", "ingestion_date", "length_band")
_WORDS = {"position": "{} chunks of their documents", "document": "document {!r}"}


@dataclass(frozen=True)
class Contrast:
    """One stratum against the rest: ``effect`` is how much lower its share of hits is, ``p`` one-sided and exact."""

    keys: tuple[str, ...]
    n: int
    hits: int
    rest_n: int
    effect: float
    p: float


def stratum_anomalies(runs: dict[str, pa.Table | None], settings: IndexAuditSettings) -> list[Finding]:
    """Findings of the strata that hit less often than the rest of their dimension.

    Within length band and among haystacks of like size, by an exact conditional test (the hits of a stratum are
    hypergeometric within each band given the band's totals, and their sum's distribution is the convolution: the
    one-sided exact form of Mantel & Haenszel 1959), Benjamini & Hochberg (1995) at 5 % over the strata tested
    together, and with an effect of at least ``limits.source_gap``. Misses to twins and to rows in another role count
    as hits. Single cells come first and merge to sources and dates; then sources, dates, tenants (the values a row
    fills the application's filter with), length bands, places in the document and documents are tested without the
    probes already accounted for, so that one defect is reported once. Length bands are compared by own texts alone,
    which find themselves at any length: how often a sentence or a query leads to a text depends on how much it says.
    A scope holds no tenant, place or document: these stand in the evidence, as ``filter``, ``position`` and
    ``document``.
    """
    findings = []
    for run in RUNS:
        table = runs.get(run.run)
        if table is None or table.num_rows == 0:
            continue
        probes = judged_probes(run, table, run.measures[JUDGED[run.run]])
        left_out = frozenset(() if run.run == "self" else ("length_band",))
        for scope, contrast in _scopes(probes, settings.limits.source_gap, left_out):
            findings.append(_finding(run, scope, contrast, probes))
    return findings


def contrasts(probes: pd.DataFrame, dimension: str) -> list[Contrast]:
    """Each stratum of a dimension with at least ``MIN_PROBES`` probes against the rest, sorted by key.

    ``probes`` has source, ingestion_date, length_band, comparable (int, see ``judged_probes``) and hit (bool). Only
    probes of one band and comparable haystacks are compared; the length bands themselves as wholes. A stratum with
    nothing beside it is left out.
    """
    strata = probes.groupby(list(KEYS[dimension]), sort=True).indices
    alike = ["comparable"] if dimension == "length_band" else ["length_band", "comparable"]
    kinds = _Kinds.of(probes, alike)
    found = []
    for key, rows in sorted(strata.items(), key=lambda item: str(item[0])):
        contrast = kinds.contrast(key if isinstance(key, tuple) else (key,), np.asarray(rows))
        if contrast is not None and contrast.n >= MIN_PROBES:
            found.append(contrast)
    return found


@dataclass(frozen=True)
class _Kinds:
    """Probes by what they may be compared with: ``kind`` (m,) int of each, and all probes and hits of each kind."""

    kind: np.ndarray
    hit: np.ndarray
    n: np.ndarray
    hits: np.ndarray

    @classmethod
    def of(cls, probes: pd.DataFrame, alike: list[str]) -> _Kinds:
        kind = probes.groupby(alike, sort=False).ngroup().to_numpy()
        hit = probes["hit"].to_numpy(bool)
        width = int(kind.max(initial=0)) + 1
        return cls(kind, hit, *_counts(kind, hit, width))

    def contrast(self, keys: tuple[str, ...], rows: np.ndarray) -> Contrast | None:
        """These rows against all others of their kinds, None where none of them has anything beside it."""
        n, hits = _counts(self.kind[rows], self.hit[rows], len(self.n))
        compared = (n > 0) & (self.n > n)
        if not compared.any():
            return None
        n, hits, total, total_hits = n[compared], hits[compared], self.n[compared], self.hits[compared]
        rest, rest_hits = total - n, total_hits - hits
        weight = n * rest / total
        effect = float(np.sum(weight * (rest_hits / rest - hits / n)) / weight.sum())
        p = _p_of_so_few(n, hits, total, total_hits)
        return Contrast(keys, int(n.sum()), int(hits.sum()), int(rest.sum()), effect, p)


def _counts(kind: np.ndarray, hit: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(probes, hits) of each kind, both (width,) int."""
    return np.bincount(kind, minlength=width), np.bincount(kind, weights=hit, minlength=width).astype(np.int64)


def benjamini_hochberg(p: np.ndarray, rate: float = FALSE_DISCOVERY_RATE) -> np.ndarray:
    """Which of the (m,) p-values are discoveries at this false discovery rate, (m,) bool."""
    order = np.argsort(p)
    passing = np.flatnonzero(p[order] <= rate * np.arange(1, len(p) + 1) / max(len(p), 1))
    discovered = np.zeros(len(p), bool)
    if len(passing):
        discovered[order[: passing[-1] + 1]] = True
    return discovered


def _p_of_so_few(n: np.ndarray, hits: np.ndarray, total: np.ndarray, total_hits: np.ndarray) -> float:
    """Probability of at most ``hits.sum()`` hits among ``n`` probes drawn within each band from its total."""
    from scipy.stats import hypergeom

    distribution = np.ones(1)
    lowest = 0
    for own, all_n, all_hits in zip(n, total, total_hits, strict=True):
        first, last = max(0, own - (all_n - all_hits)), min(own, all_hits)
        distribution = np.convolve(distribution, hypergeom.pmf(np.arange(first, last + 1), all_n, all_hits, own))
        lowest += first
    return float(min(1.0, distribution[: int(hits.sum()) - lowest + 1].sum()))


def _scopes(
    probes: pd.DataFrame, least_effect: float, left_out: frozenset[str]
) -> list[tuple[dict[str, str], Contrast]]:
    """Scopes with their contrasts: cells first, then what the cells leave unexplained."""
    dated = probes[probes["ingestion_date"] != ""]
    scopes: list[tuple[dict[str, str], Contrast]] = []
    by_cell = {_cell(contrast): contrast for contrast in _low(dated, "batch", least_effect)}
    # Of a cell with too few probes to be tested nothing is known: it counts as one that is in line, or the only cell
    # that is large enough would stand for the whole corpus.
    for scope in merge_cells(by_cell, _cells(dated)):
        cells = [by_cell[cell] for cell in sorted(cells_in(scope, by_cell), key=str)]
        scopes.append((scope, cells[0] if len(cells) == 1 else _together(dated, scope, cells)))
    for dimension in ("source", "ingestion_date", "filter", "length_band", "position", "document"):
        if dimension not in probes or dimension in left_out:
            continue
        explained = np.zeros(len(probes), bool)
        for scope, _ in scopes:
            explained |= _mask(probes, scope)
        if explained.all():
            break
        left = probes[~explained].dropna(subset=list(KEYS[dimension]))
        for contrast in _low(left, dimension, least_effect):
            scope = dict(zip(KEYS[dimension], contrast.keys, strict=True))
            scopes = [entry for entry in scopes if not _within(entry[0], scope)]
            scopes.append((scope, contrast))
    return scopes


def _cell(contrast: Contrast) -> Cell:
    return contrast.keys[0], dt.date.fromisoformat(contrast.keys[1])


def _cells(probes: pd.DataFrame) -> set[Cell]:
    """Every cell with a probe."""
    pairs = probes[list(KEYS["batch"])].drop_duplicates().itertuples(index=False)
    return {(source, dt.date.fromisoformat(day)) for source, day in pairs}


def _low(probes: pd.DataFrame, dimension: str, least_effect: float) -> list[Contrast]:
    """The strata that are anomalies."""
    tested = contrasts(probes.reset_index(drop=True), dimension)
    discovered = benjamini_hochberg(np.array([c.p for c in tested]))
    return [c for c, is_low in zip(tested, discovered, strict=True) if is_low and c.effect >= least_effect]


def _within(keys: dict[str, str], scope: dict[str, str]) -> bool:
    return bool(keys) and all(keys.get(name) == value for name, value in scope.items())


def _together(probes: pd.DataFrame, scope: dict[str, str], cells: list[Contrast]) -> Contrast:
    """The scope of several cells as one contrast: all of it against what lies outside, which none of its own low cells
    pull down. Where nothing comparable does, the widest p and the mean effect by probes stand for all."""
    whole = _Kinds.of(probes, ["length_band", "comparable"]).contrast(
        cells[0].keys, np.flatnonzero(_mask(probes, scope))
    )
    if whole is not None and whole.n >= MIN_PROBES:
        return whole
    n = sum(c.n for c in cells)
    effect = sum(c.effect * c.n for c in cells) / n
    return Contrast(
        cells[0].keys, n, sum(c.hits for c in cells), min(c.rest_n for c in cells), effect, max(c.p for c in cells)
    )


def _mask(probes: pd.DataFrame, scope: dict[str, str]) -> np.ndarray:
    mask = np.ones(len(probes), bool)
    for name, value in scope.items():
        mask &= (probes[name] == value).to_numpy()
    return mask


def _named(name: str, value: str | None) -> str:
    value = "null" if value is None else value
    if name in _WORDS:
        return _WORDS[name].format(value)
    return f"{name.replace('_', ' ') if name in _OF_A_SCOPE else name} {value}"  # a column keeps its name


def _remedy(run: str, scope: dict[str, str], missed: pd.DataFrame) -> str:
    """What to do of the misses: what a reader cuts off, or what all texts of a length share, no re-ingestion mends."""
    if "cause" in missed and len(missed) and (missed["cause"] == "truncated").mean() >= _MOSTLY:
        return "Its misses differ only beyond what the encoder reads of them: cut them into shorter chunks."
    if "length_band" in scope:
        return "Look at the causes of its misses: what texts of this length have in common is no fault of one batch."
    if run == "held_out":
        return "Look at its texts: short, repeated or cut ones leave little to be found by; then at what wrote them."
    if run == "labelled":
        return "Compare the words and prompts of its queries with its texts, and check its judgements."
    return "Look at the causes of its misses; then re-ingest it the way the others were ingested."


def _finding(run: RunMeasures, scope: dict[str, str], contrast: Contrast, probes: pd.DataFrame) -> Finding:
    measure = JUDGED[run.run]
    within = _mask(probes, scope)
    missed = probes[within & ~probes["hit"].to_numpy(bool)]
    # The tables count these among the probes of the scope, so its figure there is another one.
    others = int(within.sum()) - contrast.n
    beside = f" (another {others:,} have nothing to be compared with)" if others > 0 else ""
    tenant = json.loads(scope["filter"]) if "filter" in scope else {}
    shown: dict[str, str | None] = {name: value for name, value in scope.items() if name != "filter"} | tenant
    named = ", ".join(_named(name, value) for name, value in shown.items()) or "the corpus"
    return Finding(
        "stratum_anomaly",
        "warning",
        f"{named}: {measure} is {contrast.hits:,} of {contrast.n:,}{beside}, {100 * contrast.effect:.0f} points under "
        f"the rest of its kind{'' if 'length_band' in scope else ' at equal length'}; {NOT_TO_BLAME}.",
        _remedy(run.run, scope, missed),
        n_compared=contrast.n,
        share=1 - contrast.hits / contrast.n,
        # Findings have no scope for a document or a place in it: they stand in the evidence.
        scope={name: value for name, value in scope.items() if name in _OF_A_SCOPE},
        evidence={name: value for name, value in scope.items() if name not in _OF_A_SCOPE}
        | {
            "measure": measure,
            "hits": contrast.hits,
            "rest_n": contrast.rest_n,
            "effect": round(contrast.effect, 6),
            "p": contrast.p,
            **({"filter": tenant} if tenant else {}),
        },
        examples=sorted(missed["chunk_id"]) if "chunk_id" in missed else [],
    )
