"""What two audits say of duplicates, in lines for a terminal. No figure is computed here but a plain difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from audit_pipeline.report.wording import REDUNDANCY, number, percent

_SETTLED = ("threshold", "low", "high")


def duplicate_lines(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lines of the part ``duplicates`` of a comparison, each with its indent."""
    if found["sides"] is None:
        return [(f"not compared: {part}: {why}.", "") for part, why in found["not_compared"].items()]
    a, b = found["sides"]["a"], found["sides"]["b"]
    lines = [("duplicates, shares of all chunks of each audit:", "")]
    lines += [(line, "  ") for line in _redundancy(a, b, found["other_scale"])]
    lines += [(line, "  ") for line in _thresholds(a, b, found["other_scale"])]
    lines += _pairs(found)
    if found["settings"]:
        differ = ", ".join(f"{name} {one} -> {other}" for name, (one, other) in found["settings"].items())
        lines.append((f"Mind: the settings under duplicates differ: {differ}.", "  "))
    return lines


def _redundancy(a: Mapping[str, Any], b: Mapping[str, Any], other_scale: str | None) -> Iterator[str]:
    for lane, words in REDUNDANCY.items():
        one, other = a["redundancy"][lane], b["redundancy"][lane]
        line = f"{words}: {_share(one, a)} -> {_share(other, b)}"
        if one["share"] is None or other["share"] is None:
            yield line
        elif lane == "embedding" and (other_scale or a["recommended"]["threshold"] != b["recommended"]["threshold"]):
            yield f"{line}: each over its own threshold, so no difference is taken"
        else:
            yield f"{line}  {100 * (other['share'] - one['share']):+.1f} points"


def _share(part: Mapping[str, Any], side: Mapping[str, Any]) -> str:
    if part["share"] is None:
        return "not measured"
    return f"{percent(part['share'])} ({number(part['chunks'])} of {number(side['chunks'])})"


def _thresholds(a: Mapping[str, Any], b: Mapping[str, Any], other_scale: str | None) -> Iterator[str]:
    one, other = a["recommended"], b["recommended"]
    yield f"threshold: {_threshold(one)} -> {_threshold(other)}{_overlap(one, other) if other_scale is None else ''}"
    regimes = a["regime"] if a["regime"] == b["regime"] else f"{a['regime']} -> {b['regime']}"
    yield f"regime: {regimes}; one random pair in 1,000 reaches {_floor(a)} -> {_floor(b)}"
    if other_scale is not None:
        yield (
            f"Thresholds and cosines stand on two scales, so they are not subtracted: {other_scale}. What can be set "
            "side by side is how well each tells the labels apart, and what each flags."
        )
    yield f"labels: {_labels(a)} -> {_labels(b)}"
    if a["auc"] or b["auc"]:
        yield f"cosine tells the classes apart (AUC): {_auc(a)} -> {_auc(b)}; intervals of each by itself, not paired"


def _threshold(recommended: Mapping[str, Any]) -> str:
    if recommended["threshold"] is None:
        withheld = recommended["withheld"]
        return "none recommended" + (f" (withheld: {_range(withheld)})" if withheld else "")
    kind = ", provisional, without labels" if recommended["provisional"] else ""
    edge = ", the edge of its sweep" if recommended["edge"] else ""
    return f"{_range(recommended)}{kind}{edge}"


def _range(row: Mapping[str, Any]) -> str:
    threshold, low, high = (row[name] for name in _SETTLED)
    if low is None or high is None:
        return f"{threshold:g} (no interval)"
    return f"{threshold:g} ({low:g} to {high:g})"


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Whether the intervals of two thresholds on one scale part; empty where one of them has none."""
    if any(row[name] is None for row in (one, other) for name in _SETTLED):
        return ""
    apart = one["high"] < other["low"] or other["high"] < one["low"]
    return ": the intervals do not meet" if apart else ": the intervals meet, so no move is shown"


def _floor(side: Mapping[str, Any]) -> str:
    floor = side["floor"]
    return "not measured" if floor["p99.9"] is None else f"{floor['p99.9']:.3f} (n {number(floor['n'])})"


def _labels(side: Mapping[str, Any]) -> str:
    labels = side["labels"]
    if labels is None:
        return "not known"
    parts = [f"{number(labels['duplicates'])} duplicates", f"{number(labels['others'])} others"]
    parts += [f"{number(labels[name])} {words}" for name, words in _UNUSED.items() if labels[name]]
    return ", ".join(parts)


def _auc(side: Mapping[str, Any]) -> str:
    auc = side["auc"]
    return "not measured" if auc is None else f"{auc['value']:.2f} (at least {auc['low']:.2f}, of the {auc['of']})"


def _pairs(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    copied, flagged = found["copied"], found["flagged"]
    if copied is not None:
        yield f"pairs ({number(copied['chunks_in_both'])} chunks are in both, by id):", "  "
        yield f"copies beyond the first of a text: {_moved(copied['copies'])}", "    "
        yield f"copied text that was edited: {_moved(copied['pairs'])}", "    "
    if flagged is not None:
        yield f"over the threshold of each: {_moved(flagged['pairs'])}", "    "
    for part, why in found["not_compared"].items():
        yield f"not compared: {_PARTS[part]}: {why}.", "  "


def _moved(part: Mapping[str, Any]) -> str:
    """How many pairs there were and are, and what came and went, with an example of each."""
    line = f"{number(part['flagged']['a'])} -> {number(part['flagged']['b'])}, {number(part['stay'])} stay"
    for name, words in _MOVED.items():
        count, examples = part[name]["count"], part[name]["examples"]
        if count:
            such = f" (such as {' | '.join(examples[0])})" if examples else ""
            line += f"; {number(count)} {words}{such}"
    return line


_UNUSED = {"conflicts": "in conflict", "invalid": "not usable"}
_PARTS = {"pairs": "which pairs came and went", "flagged": "pairs over the threshold"}
_MOVED = {
    "gone": "gone between chunks of both",
    "lost_chunk": "gone with a chunk",
    "new": "new between chunks of both",
    "new_chunk": "new with a chunk",
}
