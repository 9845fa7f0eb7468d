"""The reading of an audit, its strata and what it says to a person. The table of readings is in verdict_table.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.proportions import NOT_MEASURED, Z_95, Proportion, newcombe_difference, stratified, wilson_of_share
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.anomalies import stratum_anomalies
from audit_pipeline.retrieval.formatting_arms import arms_text
from audit_pipeline.retrieval.let_through import LetThrough, let_through
from audit_pipeline.retrieval.places import with_places
from audit_pipeline.retrieval.row_anomalies import row_anomalies
from audit_pipeline.retrieval.strata import median_batch_probes, strata_tables, with_filter
from audit_pipeline.retrieval.tables import booleans
from audit_pipeline.retrieval.verdict_findings import verdict_findings
from audit_pipeline.retrieval.verdict_table import State, States, readings_of
from audit_pipeline.retrieval.verdict_text import verdict_text

UNKNOWN_TEXT = "what the vectors encode is not known, so the settings' prompts say nothing of them"
_MOST_QUERIES = 1_000_000
HELD_OUT_LOW = 0.5
"""heldout@10 under this is a low ceiling: most sentences do not lead back to their chunk. A reading, not a limit."""


@dataclass(frozen=True)
class Figures:
    """The figures a reading rests on, with twin misses counted as hits beside the plain ones."""

    self_1: Proportion
    self_10: Proportion
    twins_1: Proportion
    twins_10: Proportion
    held_out: Proportion
    labelled: Proportion
    let_through: LetThrough | None = None  # the self figures without what the filter hides, where it hides any probe


@dataclass(frozen=True)
class Undecided:
    """A figure whose interval straddles its limit, and how many probes or queries in all would decide it."""

    measure: str
    figure: Proportion
    limit: float
    needed: int | None  # None: no number of them would


@dataclass(frozen=True)
class Verdict:
    """The reading with what it rests on."""

    reading: str
    figures: Figures
    states: States
    possible: tuple[str, ...]  # readings that the intervals leave open; one of them where it is decided
    undecided: tuple[Undecided, ...]


def run_verdict(
    settings: IndexAuditSettings,
    population: pa.Table,
    self_retrieval: StageResult | None,
    held_out: StageResult | None,
    labelled: StageResult | None,
    findings: Sequence[Finding],
    *,
    own_prompts: Mapping[str, str] | None = None,
    observed: StageResult | None = None,
    arms: Sequence[Mapping[str, Any]] = (),
    both_sides: str = "",
) -> StageResult:
    """Strata, anomalies and the reading of the runs that took place (None or an empty result: did not run).

    Of each run the table and the summary are used. ``population`` are all chunks (see ``strata.strata_tables``);
    ``findings`` those of the stages before; ``own_prompts`` the model's own known prompts by role (query, passage or
    document); ``observed`` the run of the application's own queries; ``arms`` the section formatting_arms of
    audit.json, and ``both_sides`` what is to be said of one prompt on both sides.
    Returns the table strata; the summary has ``verdict`` {reading, text}, and ``self_retrieval``,
    ``held_out`` and ``labelled`` with their by_... lists, to be merged into those sections.
    """
    runs = {
        "self": with_filter(_table(self_retrieval, "self_retrieval"), population),
        "held_out": with_filter(_table(held_out, "held_out_retrieval"), population),
        "labelled": with_filter(_table(labelled, "labelled_retrieval"), population),
    }
    placed = {name: None if table is None else with_places(table, population) for name, table in runs.items()}
    strata, sections = strata_tables(placed, with_places(population, population))
    figures = _figures(runs["self"], held_out, labelled)
    if figures.let_through is not None:
        sections["self_retrieval"] |= {"let_through": figures.let_through.as_dict(settings.limits)}  # type: ignore[dict-item]
    verdict = read(figures, settings, population.num_rows, any(f.severity == "error" for f in findings))
    anomalies = stratum_anomalies(placed, settings)
    anomalies += row_anomalies(runs, population, anomalies, settings)
    own = verdict_findings(verdict, runs, settings)
    unknown = any(finding.code == "embedded_text_unknown" for finding in findings)
    blind = [UNKNOWN_TEXT] if unknown else blind_spots(settings, own_prompts or {})
    smallest = median_batch_probes(runs["self"]) if runs["self"] is not None else 0
    seen = observed.summary if observed is not None and observed.summary else None
    prompts = " ".join(said for said in (arms_text(arms), both_sides) if said)
    text = verdict_text(verdict, settings, runs, [*findings, *anomalies], blind, smallest, seen, prompts)
    return StageResult(
        {"strata": strata},
        {"verdict": {"reading": verdict.reading, "text": text}, **sections},
        [*anomalies, *own],
    )


def read(figures: Figures, settings: IndexAuditSettings, chunks: int, error_finding: bool) -> Verdict:
    """The reading of these figures. Where an interval straddles its limit and it matters, ``undecided``."""
    limits = settings.limits
    states = States(
        self_1=state_of(figures.self_1, limits.self_at_1),
        self_10=state_of(figures.self_10, limits.self_at_10),
        labelled=labelled_state(figures.labelled, figures.held_out, limits.labelled_gap),
        held_out=state_of(figures.held_out, HELD_OUT_LOW),
        twins_1=state_of(figures.twins_1, limits.self_at_1),
        twins_10=state_of(figures.twins_10, limits.self_at_10),
        error_finding=error_finding,
    )
    possible = tuple(sorted(readings_of(states)))
    reading = possible[0] if len(possible) == 1 else "undecided"
    undecided = _undecided(figures, states, settings, chunks) if reading == "undecided" else []
    return Verdict(reading, figures, states, possible, tuple(undecided))


def state_of(figure: Proportion, limit: float) -> State:
    """Where a figure stands: high when its whole interval reaches the limit, low when none of it does."""
    if figure.value is None or figure.low is None or figure.high is None:
        return "none"
    if figure.low >= limit:
        return "high"
    return "low" if figure.high < limit else "undecided"


def labelled_state(labelled: Proportion, ceiling: Proportion, gap: float) -> State:
    """low when labelled success lies more than the gap under the held-out ceiling (Newcombe interval)."""
    if labelled.value is None or ceiling.value is None:
        return "none"
    _, low, high = newcombe_difference(ceiling, labelled)
    if low > gap:
        return "low"
    return "high" if high <= gap else "undecided"


def probes_to_decide(share: float, limit: float, chunks: int) -> int:
    """Probes in all at which a share that stays as it is leaves its limit outside the Wilson interval.

    Wilson's interval holds the limit exactly while n (share - limit)^2 <= z^2 limit (1 - limit); the finite population
    then shrinks n to n / (1 + n / chunks). A share on its limit needs a census.
    """
    if share == limit:
        return chunks
    n = Z_95**2 * limit * (1 - limit) / (share - limit) ** 2
    return min(chunks, math.floor(n / (1 + n / max(chunks, 1))) + 1)


def queries_to_decide(labelled: Proportion, ceiling: Proportion, gap: float) -> int | None:
    """Labelled queries in all at which a share that stays as it is leaves the gap outside Newcombe's interval.

    None where no number of them does: the ceiling's own interval is too wide, or the difference is the gap.
    """
    assert labelled.value is not None

    def decided(n: int) -> bool:
        assert labelled.value is not None
        return labelled_state(wilson_of_share(labelled.value, n), ceiling, gap) != "undecided"

    if not decided(_MOST_QUERIES):
        return None
    few, enough = labelled.n, _MOST_QUERIES  # the interval only shrinks with n, so the least n lies between
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if decided(middle) else (middle, enough)
    return enough


def blind_spots(settings: IndexAuditSettings, own_prompts: Mapping[str, str]) -> list[str]:
    """What self-retrieval cannot see with these settings, as clauses of one sentence."""
    encoder = settings.encoder
    spots = []
    if encoder.query_arm == encoder.passage_arm:
        said = f"the same prompt {encoder.query_prompt!r}" if encoder.query_prompt else "no prompt"
        spots.append(f"queries and passages carry {said}, so a prompt that is wrong on both sides leaves no trace")
    # sentence-transformers seeds query and document with empty strings: they say nothing of the model.
    known = {
        "query": own_prompts.get("query"),
        "passage": next(
            (own_prompts[role] for role in ("document", "passage", "corpus") if own_prompts.get(role)), None
        ),
    }
    configured = {"query": encoder.query_prompt, "passage": encoder.passage_prompt}
    unlike = [role for role, prompt in known.items() if prompt and prompt != configured[role]]
    if unlike:
        named = " and ".join(f"{role} {known[role]!r}" for role in unlike)
        spots.append(f"the model's own prompts differ from the configured ones ({named})")
    return spots


def _table(result: StageResult | None, name: str) -> pa.Table | None:
    return None if result is None else result.tables.get(name)


def _figures(table: pa.Table | None, held_out: StageResult | None, labelled: StageResult | None) -> Figures:
    plain = dict.fromkeys((1, 10), NOT_MEASURED)
    adjusted = dict(plain)
    if table is not None and table.num_rows:
        strata, chunks = table["stratum"].to_numpy(zero_copy_only=False), table["stratum_chunks"].to_numpy()
        twins = np.array([cause == "twin" for cause in table["cause"].to_pylist()], bool)
        for k in plain:
            if table[f"hit_{k}"].null_count == 0:
                hits = booleans(table[f"hit_{k}"])
                plain[k], adjusted[k] = stratified(hits, strata, chunks), stratified(hits | twins, strata, chunks)
    return Figures(
        plain[1],
        plain[10],
        adjusted[1],
        adjusted[10],
        _proportion(held_out, "heldout@10"),
        _proportion(labelled, "labelled_success@10"),
        let_through(table),
    )


def _proportion(result: StageResult | None, measure: str) -> Proportion:
    figure = None if result is None else result.summary.get(measure)
    return NOT_MEASURED if figure is None else Proportion(**figure)


def _undecided(figures: Figures, states: States, settings: IndexAuditSettings, chunks: int) -> list[Undecided]:
    limits = settings.limits
    candidates = [
        ("self@1", figures.self_1, states.self_1, limits.self_at_1),
        ("self@10", figures.self_10, states.self_10, limits.self_at_10),
    ]
    # The same figure with twins as hits says something of its own only where the plain one is decided.
    if states.self_1 != "undecided":
        candidates.append(("self@1 with twins as hits", figures.twins_1, states.twins_1, limits.self_at_1))
    if states.self_10 != "undecided":
        candidates.append(("self@10 with twins as hits", figures.twins_10, states.twins_10, limits.self_at_10))
    if states.labelled == "none":
        candidates.append(("heldout@10", figures.held_out, states.held_out, HELD_OUT_LOW))
    found = [
        Undecided(measure, figure, limit, probes_to_decide(figure.value, limit, chunks))
        for measure, figure, state, limit in candidates
        if state == "undecided" and figure.value is not None
    ]
    if states.labelled == "undecided":
        needed = queries_to_decide(figures.labelled, figures.held_out, limits.labelled_gap)
        found.append(Undecided("labelled_success@10", figures.labelled, limits.labelled_gap, needed))
    return found
