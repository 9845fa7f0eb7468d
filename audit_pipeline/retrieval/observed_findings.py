"""What the application's log shows to be wrong, and what it leaves unmeasured. Nothing is compared here."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.arms import as_arm, describe_arm
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.query_side import UNEXPLAINED
from audit_pipeline.encoder.roles import NONE, PASSAGE, QUERY
from audit_pipeline.findings import Finding
from audit_pipeline.proportions import Proportion
from audit_pipeline.retrieval.returned_rows import DECLARED_SEARCH, METRICS, NEAR, NEAR_TIMES, WITHOUT_FILTER
from audit_pipeline.retrieval.verdict_text import mean_shown

OTHER_DIMENSION = "other_dimension"
"""A query vector of another length than the table's: no encoder of this table made it."""
NOISE_SHARE = 0.01
"""Another prompt is reported where more than this share of the queries certainly carries it: single odd calls are no
mismatch."""
LEAST_QUERIES = 3
"""In a short log one odd call is a large share, and no mismatch either."""
MOST = 0.5
"""Unexplained vectors are reported where they are certainly most of them: applications may rewrite some queries."""


def observed_findings(section: dict[str, Any], table: pa.Table, settings: IndexAuditSettings) -> list[Finding]:
    """Findings of the section observed of audit.json and its ``table``; examples are query ids, never their texts."""
    found = [*_other_arms(section, table, settings), *_unexplained(section, table, settings)]
    found += _low_recall(section, table, settings)
    found += _short(section, table, settings)
    found += _invalid(section, table)
    return found + _not_measured(section)


def sent_role(name: str, arm: str) -> str:
    """What production sends, in words: the passage role ('passage: ' in front)."""
    how = describe_arm(arm).removeprefix("with ")
    if name in (PASSAGE, QUERY):
        return f"the {name} role ({how})"
    return how if name == NONE or not arm else f"a text {describe_arm(arm)}"


def _other_arms(section: dict[str, Any], table: pa.Table, settings: IndexAuditSettings) -> list[Finding]:
    side = section["query_side"]
    found = []
    for entry in side["arms"]:
        share = Proportion(**entry["share"])
        if entry["prompt"] is None or entry["name"] == QUERY or share.value is None:
            continue
        if (share.low or 0) <= NOISE_SHARE or round(share.value * share.n) < LEAST_QUERIES:
            continue
        sent = sent_role(entry["name"], as_arm(entry["prompt"], entry["request"]))
        right = sent_role(QUERY, settings.encoder.query_arm)
        count = round(share.value * share.n)
        found.append(
            Finding(
                "query_side_mismatch",
                "error",
                f"Production sends {sent}, not {right}: {count:,} of {share.n:,} observed queries.",
                f"Encode queries {describe_arm(settings.encoder.query_arm)} where the application searches; if what it "
                "sends is meant, write that in encoder.query_prompt and audit again.",
                n_compared=share.n,
                share=share.value,
                evidence={
                    "arm": entry["name"],
                    "prompt": entry["prompt"],
                    "configured": settings.encoder.query_prompt,
                    "figure": share.as_dict(),
                },
                examples=_ids(table, "role", entry["name"]),
            )
        )
    return found


def _unexplained(section: dict[str, Any], table: pa.Table, settings: IndexAuditSettings) -> list[Finding]:
    share = Proportion(**section["unexplained"])
    if share.value is None or (share.low or 0) <= MOST:
        return []
    strange = table.filter(pc.is_in(table["role"], pa.array([UNEXPLAINED, OTHER_DIMENSION])))
    losses = strange["loss"].drop_null()
    cosine = None if not len(losses) else 1 - pc.quantile(losses, 0.5)[0].as_py()
    other = len(_ids(strange, "role", OTHER_DIMENSION))
    said = "" if cosine is None else f"; their median cosine to {settings.encoder.model}'s encoding is {cosine:.3f}"
    said += f"; {other:,} have another dimension than the table" if other else ""
    return [
        Finding(
            "query_side_mismatch",
            "error",
            f"No known prompt explains the vectors of {strange.num_rows:,} of {share.n:,} observed queries: another "
            f"model, or the text is rewritten before it is encoded{said}.",
            "Look up which model and which text the application encodes. Log the text as it is encoded, and name that "
            "model under encoder.",
            n_compared=share.n,
            share=share.value,
            evidence={"arm": None, "figure": share.as_dict(), "median_cosine": cosine, "other_dimension": other},
            examples=strange["query_id"].to_pylist(),
        )
    ]


def _low_recall(section: dict[str, Any], table: pa.Table, settings: IndexAuditSettings) -> list[Finding]:
    """ann_recall_low: the figure is ann_recall's, over the application's answers instead of those of our search."""
    figure, limit = Proportion(**section["observed_recall"]), settings.limits.ann_recall_at_10
    if figure.value is None or figure.high is None or figure.high >= limit:
        return []
    returned = section["returned"]
    why, remedy = explanation(returned, limit, settings)
    low = table.filter(pc.less(table["recall"], limit)).sort_by([("recall", "ascending"), ("query_id", "ascending")])
    return [
        Finding(
            "ann_recall_low",
            "warning",
            f"Of the rows that the application got back, {mean_shown(figure)} are among the as many that are closest "
            f"to the vector it sent, under the {limit:.0%} asked for: {why}.",
            remedy,
            n_compared=figure.n,
            share=1 - figure.value,
            evidence={
                "measure": "observed_recall",
                "figure": figure.as_dict(),
                "limit": limit,
                "order": section["observed_order"],
                "explanations": returned["explanations"],
                "sources_left_out": returned["sources_left_out"],
            },
            examples=low["query_id"].to_pylist(),
        )
    ]


def explanation(returned: dict[str, Any], limit: float, settings: IndexAuditSettings) -> tuple[str, str]:
    """What explains answers that disagree with the exact search, and what to do; the first that agrees."""
    tried = {name: Proportion(**figure) for name, figure in returned["explanations"].items()}
    explains = [name for name, figure in tried.items() if figure.value is not None and figure.value >= limit]
    declared = settings.index.metric
    agree = {name: f"{tried[name].value:.1%}" for name in explains}
    metrics = [name for name in METRICS if name in explains]
    if metrics:
        agreed = " and ".join(f"{name} ({agree[name]})" for name in metrics)
        return (
            f"they agree under {agreed}, not under the declared {declared}",
            f"Search with {declared} where the application searches, or write index.metric: {metrics[0]} and audit "
            "again.",
        )
    if WITHOUT_FILTER in explains:
        return (
            f"they agree once the filter is lifted ({agree[WITHOUT_FILTER]}): the application does not send it",
            "Send the filter, or take index.filter out of the settings and audit again.",
        )
    if DECLARED_SEARCH in explains:
        return (
            f"the search as declared returns the same rows ({agree[DECLARED_SEARCH]}): the ANN index loses the others",
            "Raise nprobes, ef or refine_factor, or build the index with less compression.",
        )
    left_out = returned["sources_left_out"]
    if left_out:
        names = ", ".join("(none)" if name is None else repr(name) for name in left_out[:3])
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        return (
            f"every nearer row that was left out is of source {names}{more}, of which no answer holds a row: a filter "
            "that the settings do not name",
            "Write the filter that the application sends in index.filter and audit again, or remove it there.",
        )
    if NEAR in explains:
        return (
            f"they are near ({agree[NEAR]} among the {NEAR_TIMES} times as many closest) but chosen and ordered "
            "by something else: hybrid search, fusion or a reranker",
            "If a reranker or a fusion is meant, log the ids that the vector search returned instead.",
        )
    return (
        "no other metric, filter or search setting that was tried explains them: another table, vectors that are not "
        "those sent, or rows that changed since",
        "Log the vector that is sent and the ids that come back for it from this table, and audit soon after.",
    )


def _short(section: dict[str, Any], table: pa.Table, settings: IndexAuditSettings) -> list[Finding]:
    returned = section["returned"]
    if not returned["short"]:
        return []
    answers, lengths = returned["answers"], returned["lengths"]
    evidence = {"answers": answers, "short": returned["short"], "expected": returned["expected"], "lengths": lengths}
    why, remedy = (
        "",
        "Filter before the search (prefilter: true), raise nprobes, or ask for more rows and cut afterwards.",
    )
    if len(lengths) == 1 and answers > 1:
        (length,) = lengths
        why = f", all of them {length}: the application asks for fewer than index.search.limit, or cuts"
        remedy = f"Write index.search.limit: {length} if that is meant, and audit again."
    elif returned["cut_between"] is not None:
        metric = settings.index.metric
        low, high = (_distance(score, metric) for score in returned["cut_between"])
        why = f", as if rows beyond a {metric} distance between {high:.4f} and {low:.4f} were cut off"
        remedy = "If a cut-off is meant, write it in index.search.max_distance and audit again; else lift it."
        evidence["cut_between_distances"] = [high, low]
    return [
        Finding(
            "short_results",
            "warning",
            f"{returned['short']:,} of {answers:,} answers that the application got hold fewer than the "
            f"{returned['expected']} chunks that were asked for and could be had{why}.",
            remedy,
            n_compared=answers,
            share=returned["short"] / answers,
            evidence=evidence,
            examples=_ids(table, "short", True),
        )
    ]


def _distance(score: float, metric: str) -> float:
    """A score as the store's distance: 1 - cos, 1 - dot, squared l2."""
    return -score if metric == "l2" else 1 - score


def _invalid(section: dict[str, Any], table: pa.Table) -> list[Finding]:
    returned, invalid = section["returned"], section["invalid"]
    if not invalid and not returned["unknown_ids"]:
        return []
    bad_rows = sum(invalid.values())
    affected = table.filter(pc.or_(pc.is_valid(table["invalid"]), pc.greater(table["unknown_ids"].fill_null(0), 0)))
    said = []
    if bad_rows:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in invalid.items())
        said.append(f"{bad_rows:,} of {section['n']:,} observed queries cannot be used in full ({reasons})")
    if returned["unknown_ids"]:
        said.append(
            f"{returned['unknown_ids']:,} of {returned['ids']:,} returned ids are not in the table (deleted since, or "
            "of another table)"
        )
    return [
        Finding(
            "labels_invalid",
            "warning",
            "; ".join(said) + ".",
            "Log text, vector and ids of the same call, and audit soon after.",
            n_compared=section["n"],
            share=affected.num_rows / section["n"],
            evidence={"invalid": invalid, "unknown_ids": returned["unknown_ids"], "ids": returned["ids"]},
            examples=affected["query_id"].to_pylist(),
        )
    ]


def _not_measured(section: dict[str, Any]) -> list[Finding]:
    parts = (
        ("query_side", "What production puts before its queries", "Log the text and the vector of each query."),
        ("returned", "What the application got back", "Log the vector of each query and the ids returned for it."),
    )
    return [
        Finding(
            "not_measured",
            "info",
            f"{what} was not measured: {section[part]['reason']}.",
            remedy,
            n_compared=0,
            evidence={"measure": f"observed.{part}"},
        )
        for part, what, remedy in parts
        if section[part]["reason"] is not None
    ]


def _ids(table: pa.Table, column: str, value: Any) -> list[str]:
    return table.filter(pc.equal(table[column], value))["query_id"].to_pylist()
