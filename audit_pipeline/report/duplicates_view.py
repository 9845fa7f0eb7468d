"""The section on duplicates, put into words for the page. No figure is computed here, and no chart drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit_pipeline.duplicates.separation import MOSTLY, TRUSTED
from audit_pipeline.report.duplicate_charts import share_of
from audit_pipeline.report.redundancy_words import numbers_words, redundancy_parts
from audit_pipeline.report.wording import interval, is_measured, number, per_10k, percent


def duplicates_view(audit: Mapping[str, Any]) -> dict[str, Any]:
    """The sweep's rows and what is said about them."""
    duplicates = audit["duplicates"]
    return {
        "sweep": [_sweep_row(row) for row in duplicates["sweep"]],
        "judged": any(
            row.get(key) is not None for row in duplicates["sweep"] for key in ("precision", "recall_pipeline")
        ),
        "redundancy": redundancy_parts(duplicates),
        "numbers": numbers_words(duplicates),
        "queue": queue_notice(duplicates["sweep"], duplicates["recommended"]["reason"]),
        "separation": separation_words(duplicates.get("separation")),
        "elsewhere": elsewhere_words(audit),
        "lane_recall": lane_recall_view(duplicates),
        "worth": worth_view(duplicates.get("lane_worth"), audit["timings"]),
    }


def queue_notice(sweep: Sequence[Mapping[str, Any]], reason: str = "") -> dict[str, str] | None:
    """What share of the pairs over the recommended threshold are duplicates, and how loud to say so.

    ``reason`` stands before it: what that says already is not said again.
    """
    for row in sweep:
        if row["recommended"] and row.get("precision_queue") is not None:
            share = row["precision_queue"]
            said = f"Of the {number(row['to_read'])} pairs over it that are no exact copies, an estimated "
            tone = "good" if share >= TRUSTED else "bad" if share < MOSTLY else "unsure"
            trust = "" if share >= TRUSTED or "Read them" in reason else " Read them before anything is dropped."
            return {"tone": tone, "text": f"{said}{_queue(row)} are duplicates.{trust}"}
    return None


def separation_words(separation: Mapping[str, Any] | None) -> str:
    """Both AUCs and which one decides, in sentences; empty without labels of both classes."""
    if not separation:
        return ""
    labels, candidates = separation["labels"], separation["candidates"]
    drawn = _DRAWN.get(separation.get("drawn_by", ""), "")
    by_labels = f"of the labels, each counted once, {_auc(labels)}"
    least = f"A recommendation needs at least {separation['least']:g} at the lower end."
    if candidates is None:
        return (
            f"How well the cosine tells the classes apart (AUC): {by_labels}. {least} The labels carry no score bands "
            f"that say which candidates they stand for, so this is the AUC of whatever was labelled.{drawn}"
        )
    start = f"{separation['threshold']:g}"
    decides = (
        "The second decides: it undoes the rates at which the bands were labelled, and leaves out the easy pairs below."
        if separation["decides"] == "candidates"
        else f"The first decides: from {start} most pairs are duplicates already, or too few of a class are labelled."
    )
    return (
        f"How well the cosine tells the classes apart (AUC): {by_labels}; of the candidates from {start} upwards, each "
        f"label counted for those of its band, {_auc(candidates)}. {decides} {least}{drawn}"
    )


def elsewhere_words(audit: Mapping[str, Any]) -> list[str]:
    """What the threshold does here to random pairs, and what it would do under other models; empty without one."""
    duplicates = audit["duplicates"]
    others = duplicates.get("elsewhere") or []
    if not others:
        return []
    threshold = others[0]["threshold"]
    none = duplicates["recommended"]["threshold"] is None
    here = next((row.get("random_share") for row in duplicates["sweep"] if row["threshold"] == threshold), None)
    reached = "by a share that was not measured" if here is None else f"by {per_10k(here)}"
    lowest = " No threshold is recommended; the lowest of the sweep shows it." if none else ""
    lines = [
        f"A threshold belongs to this model on this corpus.{lowest} Here {threshold:g} is reached {reached} of random "
        "pairs."
    ]
    chunks = number(audit["corpus"]["chunks"])
    lines += [
        f"Under {other['model']}, on {other['corpus']}, by {per_10k(other['random_share'])}: at that rate it would "
        f"flag about {number(other['pairs'])} pairs among your {chunks} chunks."
        for other in others
    ]
    return lines


def worth_view(worth: Mapping[str, Any] | None, timings: Mapping[str, float]) -> dict[str, Any] | None:
    """Which lane earns its place: its parts in words, what it cost, and the advice; None in a report from before it."""
    if not worth:
        return None
    rows = [
        {"words": words, "pairs": worth[part]["pairs"], "labelled": _figure(worth[part]["labelled"])}
        for part, words in _PARTS.items()
    ]
    spent = [f"{words} {timings[stage]:.1f} s" for stage, words in _SPENT.items() if stage in timings]
    return {
        "advice": worth["advice"],
        "rows": rows,
        "found": _found_words(worth["found"]),
        "cost": f"Seconds of this audit: {', '.join(spent)}; making the vectors comes on top of the latter."
        if spent
        else "",
    }


def _found_words(found: Mapping[str, Mapping[str, Any]]) -> str:
    if not any(is_measured(found[lane]) for lane in _LANES):
        return (
            "What share of the duplicates each lane finds is not measured: no pair of different texts is labelled one."
        )
    shares = ", ".join(f"{words} {_figure(found[lane])}" for lane, words in _LANES.items())
    return f"Of the labelled duplicates that are no exact copies: {shares}."


def lane_recall_view(duplicates: Mapping[str, Any]) -> dict[str, Any]:
    """What share of the pairs that are there the two searching lanes find: MinHash by Jaccard, and the neighbours."""
    minhash, neighbours = duplicates["minhash"], duplicates["neighbours"]
    expected = {point["jaccard"]: point["value"] for point in minhash["expected_recall"]}
    rows = [
        {
            "jaccard": f"{point['jaccard']:g}",
            "found": _figure(point),
            "expected": percent(expected[point["jaccard"]]),
        }
        for point in minhash["measured_recall"]
    ]
    saturated = neighbours["saturated_rows"]
    lowest = min((row["threshold"] for row in duplicates["sweep"]), default=None)
    said = f"Neighbours, against an exact scan of a sample of rows: {_figure(neighbours['exact_sample_recall'])}."
    if saturated is not None and lowest is not None:
        said += (
            f" Rows whose last neighbour still reaches {lowest:g}, so that pairs beyond it were never seen: "
            f"{number(saturated)}."
        )
    return {"rows": rows, "neighbours": said}


_DRAWN = {
    "components": " Intervals: families of labelled pairs that share chunks, drawn 2,000 times.",
    "chunks": " Intervals: chunks drawn 2,000 times, as one family holds more than a third of the labels: rather too "
    "wide than too narrow.",
}
_PARTS = {
    "minhash_only": "MinHash alone: verified copied text that no neighbour list holds",
    "both": "both: verified copied text that a neighbour list holds as well",
    "embedding_only": "the embedding alone: over the threshold, and no verified copied text",
}
_LANES = {"minhash": "MinHash finds", "embedding": "the embedding", "either": "either of them"}
_SPENT = {"minhash_pairs": "exact copies and MinHash", "neighbour_pairs": "neighbours, with what verifies their pairs"}


def _figure(figure: Mapping[str, Any]) -> str:
    if not is_measured(figure):
        return "not measured"
    return f"{percent(figure['value'])} ({interval(figure)}; n {number(figure['n'])})"


def _auc(auc: Mapping[str, Any]) -> str:
    pairs = f"{number(auc['duplicates'])} duplicates, {number(auc['others'])} others"
    return f"{auc['value']:.2f} (at least {auc['low']:.2f}; {pairs})"


def _queue(row: Mapping[str, Any]) -> str:
    share, low, high = (row.get(f"precision_queue{end}") for end in ("", "_low", "_high"))
    if share is None:
        return "-"
    interval = "" if low is None or high is None else f" ({100 * low:.0f} to {100 * high:.0f})"
    return f"{percent(share)}{interval}"


def _sweep_row(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: share_of(row, key) for key in ("precision", "recall_pipeline")}
    labelled = row["tp"] + row["fp"] + row["fn"] > 0
    to_read = row.get("to_read", row["flagged"])
    return {
        "threshold": f"{row['threshold']:g}",
        "recommended": row["recommended"],
        "precision": _with_interval(shown["precision"]),
        "precision_n": row["tp"] + row["fp"] if labelled else 0,
        "queue": _queue(row),
        "queue_n": row.get("precision_queue_n") or 0,
        "recall": _with_interval(shown["recall_pipeline"]),
        "recall_n": row["tp"] + row["fn"] if labelled else 0,
        "to_read": number(to_read),
        "copies": number(row["flagged"] - to_read),
        "per_10k": number(row["flagged_per_10k_candidates"]),
        "per_10k_chunks": number(row["flagged_per_10k_chunks"]),
        "random": "-" if row.get("random_share") is None else percent(row["random_share"], 3),
        "exchange": "-" if row.get("exchange") is None else f"{row['exchange']:.2f}",
    }


def _with_interval(share: Mapping[str, float] | None) -> str:
    return "-" if share is None else f"{share['value']:.1f} % ({share['low']:.0f} to {share['high']:.0f})"
