"""What the audit did not measure, and what its measurements cannot see, in plain words. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit_pipeline.proportions import smallest_visible_share
from audit_pipeline.report.wording import is_measured, number, percent, scope_words

_PROBES_FOR_5_PERCENT = 59
"""Of so many rows one of a defect in 5 % of them is drawn with 95 %: 0.95 ** 59 is under 0.05."""


def unmeasured(audit: Mapping[str, Any]) -> list[str]:
    """One sentence for each thing that was not measured."""
    lines = []
    if not is_measured(audit["self_retrieval"]["self@1"]):
        lines.append("Self-retrieval: no chunk was searched for by its own text.")
    elif audit["self_retrieval"]["self@10"] is None:
        lines.append("self@10: the application asks for fewer than 10 rows.")
    if not is_measured(audit["held_out"]["heldout@10"]):
        lines.append("Held-out retrieval: the ceiling that the content allows is unknown.")
    if audit["labelled"] is None or not is_measured(audit["labelled"].get("labelled_success@10")):
        lines.append("Labelled retrieval: whether real queries find their answers is unknown. Give labels.queries.")
    if audit["observed"] is None:
        lines.append("Observed queries: what the application really sends was not seen. Give labels.observed.")
    if not is_measured(audit["ann_recall"]["ann_recall@10"]):
        reason = audit["ann_recall"].get(
            "reason", "what the approximate index loses against an exact search is unknown"
        )
        lines.append(f"ann_recall@10: {reason}.")
    elif not audit["ann_sweep"]["n"]:
        lines.append(f"ANN settings: no others than the declared ones were tried: {audit['ann_sweep']['reason']}.")
    if audit["duplicates"]["recommended"]["provisional"]:
        lines.append("Duplicate labels: the threshold rests on the similarity floor alone. Give labels.pairs.")
    if audit["duplicates"]["clusters"].get("withheld"):
        lines.append("Redundancy by paraphrase: the clusters grew by chains, so it is not counted (see Duplicates).")
    for finding in audit["findings"]:
        if finding["code"] == "not_measured":
            lines.append(f"{finding['message']} ({scope_words(finding['scope'])}) {finding['remedy']}")
    return lines


def blind_spots(audit: Mapping[str, Any]) -> list[str]:
    """What the runs that were made cannot see."""
    spots = [
        "Self-retrieval cannot see what is equal on both sides: one prompt used for queries and passages alike, texts "
        "cut off at the same place, or losses of a quantised index.",
        "Held-out retrieval is scored exactly: it says what the content allows, nothing about the ANN index, and "
        "nothing about the words real users choose.",
    ]
    if audit["labelled"] is not None:
        spots.append(
            "Labelled retrieval shows how much real queries find with the settings as declared. It does not show why"
            + (", nor what the application really sends." if audit["observed"] is None else ".")
        )
    if audit["observed"] is not None:
        spots.append(
            f"Observed queries are the {number(audit['observed']['n'])} of the log: other callers, and calls before "
            "or after it, may send something else."
        )
    spots += _outside_the_sample(audit["self_retrieval"])
    spots.append(
        "A duplicate threshold belongs to this model on this corpus: training for retrieval never compared passages "
        "with passages."
    )
    return spots


def _outside_the_sample(own: Mapping[str, Any]) -> list[str]:
    """What self-retrieval may have missed because it drew a sample; of a census nothing."""
    n, first = own["n"], own["self@1"]
    visible = smallest_visible_share(n)
    if visible is None:
        return []
    # Only where every chunk was probed is the corpus-wide figure exact.
    if is_measured(first) and first["low"] == first["high"]:
        return [
            "Every chunk was searched for by its own text: none lies outside the sample. What the application's "
            "search does with other words, own texts do not show."
        ]
    few = sum(batch["n"] < _PROBES_FOR_5_PERCENT for batch in own["by_batch"])
    alone = (
        f"{number(few)} of {number(len(own['by_batch']))} batches have fewer, and are seen only together with others"
        if few
        else "every batch has as many"
    )
    return [
        f"With {number(n)} probes a defect of under {percent(visible, 2)} of the chunks could have been missed "
        f"altogether (95 %). In one batch it takes {_PROBES_FOR_5_PERCENT} probes to see a defect of 5 %: {alone}."
    ]
