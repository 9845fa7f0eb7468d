"""Findings that follow from the runs as a whole: limits breached, twins, hubs, what was not measured."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding
from audit_pipeline.proportions import newcombe_difference
from audit_pipeline.retrieval.concentration import where_misses_lie
from audit_pipeline.retrieval.verdict_text import shown

if TYPE_CHECKING:
    from audit_pipeline.retrieval.verdict import Verdict

_INELIGIBLE = {
    "too_few_sentences": "have too few sentences",
    "no_long_sentence": "have no sentence long enough",
    "no_heading": "have no heading",
    "all_overlap": "share every candidate with a neighbour",
    "repeated": "repeat the held text",
    "missing_row": "are not in the table",
    "not_looked_at": "were not looked at",
    "role_unknown": "are of batches whose vectors no known prompt or template gives",
    "role_not_measured": "are of batches whose prompt was not measured, since the encoder is not reproducible",
    "text_not_embedded": "are of batches whose vectors encode something else than the text",
}
HUB_WINS = 5
"""Probes of other chunks that one chunk must win to be named a hub."""


def verdict_findings(verdict: Verdict, runs: dict[str, pa.Table | None], settings: IndexAuditSettings) -> list[Finding]:
    """Findings self_low, relationship_gap, undecided, twins, hubs and not_measured, all with the corpus as scope."""
    findings = [*_self_low(verdict, runs["self"], settings), *_gap(verdict, runs["labelled"], settings)]
    findings += _undecided(verdict)
    findings += _twins(runs["self"])
    findings += _hubs(runs)
    return findings + _not_measured(verdict, runs["held_out"])


def _self_low(verdict: Verdict, table: pa.Table | None, settings: IndexAuditSettings) -> list[Finding]:
    found = []
    limits, figures, states = settings.limits, verdict.figures, verdict.states
    for measure, column, figure, state, limit in (
        ("self@1", "hit_1", figures.self_1, states.self_1, limits.self_at_1),
        ("self@10", "hit_10", figures.self_10, states.self_10, limits.self_at_10),
    ):
        if state == "low" and figure.value is not None and table is not None:
            found.append(
                Finding(
                    "self_low",
                    "warning",
                    f"{measure} is {shown(figure)}, under the {limit:.1%} asked for."
                    f"{where_misses_lie(table, pc.invert(table[column]))}{_let_through(verdict, measure)}",
                    _remedy_of_low(verdict, settings),
                    n_compared=figure.n,
                    share=1 - figure.value,
                    evidence={"measure": measure, "figure": figure.as_dict(), "limit": limit},
                    examples=_missed(table, column, "chunk_id"),
                )
            )
    return found


def _let_through(verdict: Verdict, measure: str) -> str:
    """What the filter hides and what is found of the rest, as a sentence after others."""
    passed = verdict.figures.let_through
    if passed is None:
        return ""
    figure = passed.self_1 if measure == "self@1" else passed.self_10
    rest = (
        f"among the {passed.n:,} that it lets through {measure} is {shown(figure)}"
        if passed.n
        else "it lets none through"
    )
    return f" The filter hides {passed.hidden:,} of the {passed.hidden + passed.n:,} probes; {rest}."


def _remedy_of_low(verdict: Verdict, settings: IndexAuditSettings) -> str:
    passed = verdict.figures.let_through
    if passed is None or not passed.explains(settings.limits):
        return "Follow the causes of the misses, the most frequent first."
    if not passed.n:
        return "Mend the filter (index.filter), or the columns it asks for: every search comes back empty."
    return (
        "Nothing to do where the filter is meant to hide these rows (see filter_excludes); otherwise mend it, or the "
        "columns it asks for."
    )


def _gap(verdict: Verdict, table: pa.Table | None, settings: IndexAuditSettings) -> list[Finding]:
    held_out, labelled = verdict.figures.held_out, verdict.figures.labelled
    if verdict.states.labelled != "low" or table is None or labelled.value is None:
        return []
    difference, low, high = newcombe_difference(held_out, labelled)
    unseen = settings.labels.observed is None
    return [
        Finding(
            "relationship_gap",
            "warning",
            f"Labelled queries succeed in {shown(labelled)}, the held-out ceiling is {shown(held_out)}: a gap of "
            f"{difference:.1%} ({low:.1%} to {high:.1%}).",
            "Compare the prompts of both sides and the queries' words with the texts' words"
            + (", then hand over what the application really sends (labels.observed)." if unseen else "."),
            n_compared=labelled.n,
            share=1 - labelled.value,
            evidence={"gap": difference, "low": low, "high": high, "limit": settings.limits.labelled_gap},
            examples=_missed(table, "success_10", "query_id"),
        )
    ]


def _undecided(verdict: Verdict) -> list[Finding]:
    found = []
    for entry in verdict.undecided:
        if entry.measure == "labelled_success@10":
            said = f"its gap to heldout@10 straddles {entry.limit:.1%}"
            remedy = (
                "Raise sample.total: the ceiling's own interval is too wide for any number of labelled queries."
                if entry.needed is None
                else f"Label about {entry.needed:,} queries in all."
            )
        else:
            said = f"its interval straddles the limit of {entry.limit:.1%}"
            remedy = f"Set sample.total to about {entry.needed:,}."
        found.append(
            Finding(
                "undecided",
                "info",
                f"{entry.measure} is {shown(entry.figure)}: {said}.",
                remedy,
                n_compared=entry.figure.n,
                evidence={
                    "measure": entry.measure,
                    "figure": entry.figure.as_dict(),
                    "limit": entry.limit,
                    "n_that_decides": entry.needed,
                },
            )
        )
    return found


def _twins(table: pa.Table | None) -> list[Finding]:
    if table is None or table.num_rows == 0:
        return []
    rows = _of_cause(table, "twin")
    if not rows:
        return []
    numeric = sum(bool(evidence.get("numeric")) for _, evidence in rows)
    groups = [int(evidence["group"]) for _, evidence in rows]
    return [
        Finding(
            "twins",
            "info",
            f"{len(rows):,} of {table.num_rows:,} probes missed rank 1 to near-identical chunks ({numeric:,} of them "
            f"differ in numbers only); the largest group has {max(groups):,}."
            f"{where_misses_lie(table, pc.equal(table['cause'], 'twin'))}",
            "See duplicate_clusters; leave those that differ in numbers: they are distinct facts.",
            n_compared=table.num_rows,
            share=len(rows) / table.num_rows,
            evidence={"misses": len(rows), "numeric": numeric, "largest_group": max(groups)},
            examples=[chunk_id for chunk_id, _ in rows],
        )
    ]


def _hubs(runs: dict[str, pa.Table | None]) -> list[Finding]:
    wins: dict[str, set[str]] = defaultdict(set)
    n = 0
    for name, key in (("self", "chunk_id"), ("held_out", "chunk_id"), ("labelled", "query_id")):
        table = runs[name]
        if table is None:
            continue
        n += int(pc.sum(table["eligible"]).as_py() or 0) if name == "held_out" else table.num_rows
        for probe, evidence in _of_cause(table, "encoder", key):
            wins[evidence["winner"]].add(probe)
    hubs = sorted(
        ((len(lost), chunk_id) for chunk_id, lost in wins.items() if len(lost) >= HUB_WINS), key=lambda h: (-h[0], h[1])
    )
    if not hubs:
        return []
    won = set().union(*(wins[chunk_id] for _, chunk_id in hubs))
    return [
        Finding(
            "hubs",
            "info",
            f"{len(hubs):,} chunks win the probes of {HUB_WINS} or more other chunks each, {len(won):,} in all.",
            "Look at them: navigation, boilerplate and very short texts are better left out of the index.",
            n_compared=n,
            share=len(won) / n,
            evidence={"hubs": {chunk_id: count for count, chunk_id in hubs[:20]}},
            examples=[chunk_id for _, chunk_id in hubs],
        )
    ]


def _not_measured(verdict: Verdict, held_out: pa.Table | None) -> list[Finding]:
    figures = verdict.figures
    remedies = {
        "self@1": (figures.self_1, "Name an encoder, and check that the sample is not empty."),
        "self@10": (figures.self_10, "Ask for at least ten rows (index.search.limit), and name an encoder."),
        "heldout@10": (figures.held_out, _remedy_of_no_ceiling(held_out)),
        "labelled_success@10": (figures.labelled, "Hand over labelled queries (labels.queries) and ask for ten rows."),
    }
    return [
        Finding(
            "not_measured",
            "info",
            f"{measure} was not measured{_why_no_ceiling(held_out) if measure == 'heldout@10' else ''}.",
            remedy,
            n_compared=0,
            evidence={"measure": measure},
        )
        for measure, (figure, remedy) in remedies.items()
        if figure.value is None
    ]


def _why_no_ceiling(table: pa.Table | None) -> str:
    """What kept the probes from being held out, as the end of a sentence; empty where nothing was looked at."""
    if table is None or not table.num_rows:
        return ""
    overlap = pc.sum(table["overlap"]).as_py() or 0
    eligible = pc.sum(table["eligible"]).as_py() or 0
    counts = Counter(reason for reason in table["ineligible_reason"].to_pylist() if reason is not None)
    said = [f"{n:,} {_INELIGIBLE.get(reason, reason)}" for reason, n in sorted(counts.items())]
    if overlap:
        said.append(f"of {eligible:,} held sentences {overlap:,} stand in another chunk too, as in overlapping windows")
    return f": of {table.num_rows:,} probes {', '.join(said)}" if said else ""


def _remedy_of_no_ceiling(table: pa.Table | None) -> str:
    reasons = Counter([] if table is None else table["ineligible_reason"].drop_null().to_pylist())
    if reasons and reasons.most_common(1)[0][0] == "role_not_measured":
        return "Make the encoder give the same vector for a text whatever stands in its batch."
    if reasons and reasons.most_common(1)[0][0] == "role_unknown":
        return "Name what was embedded (index.embed_text), and the prompt before it (encoder.passage_prompt)."
    return "It needs an encoder and chunks of three sentences or more."


def _missed(table: pa.Table, column: str, key: str) -> list[str]:
    hits = table[column].to_pylist()
    return [name for name, hit in zip(table[key].to_pylist(), hits, strict=True) if hit is False]


def _of_cause(table: pa.Table, cause: str, key: str = "chunk_id") -> list[tuple[str, dict[str, Any]]]:
    """(id, evidence) of the misses with this cause."""
    columns = (table[key].to_pylist(), table["cause"].to_pylist(), table["evidence"].to_pylist())
    return [(name, json.loads(notes)) for name, own, notes in zip(*columns, strict=True) if own == cause]
