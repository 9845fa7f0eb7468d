"""What people answered becomes labels: which rows can be used, and how they join the others. No file format here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audit_pipeline.duplicates.agreement import agreement, is_adjudicated
from audit_pipeline.duplicates.answers import answer_of
from audit_pipeline.duplicates.bands import with_points
from audit_pipeline.duplicates.label_files import OVERFULL, Row
from audit_pipeline.duplicates.labelled_pairs import CONSTRUCTED, CORPUS

COLUMNS = (
    *("chunk_id_a", "chunk_id_b", "duplicate", "origin", "text_sha256_a", "text_sha256_b"),
    *("labeller", "band", "draw", "drawn_from", "fraction", "reason"),
)
_KEY = ("chunk_id_a", "chunk_id_b", "text_sha256_a", "text_sha256_b", "labeller", "duplicate")

REASONS = {
    "too_many_fields": "the row has more fields than columns",
    "no_answer": "a reason is given but no answer: fill in 'duplicate'",
    "bad_value": "'duplicate' is neither yes nor no",
    "bad_origin": "'origin' is neither corpus nor constructed",
    "missing_id": "an id is missing",
    "same_id": "both ids are the same",
    "unknown_id": "an id is not in the corpus",
    "text_changed": "a text has changed since it was queued",
    "contradictory": "one labeller answers the pair both ways in this file",
}
"""Why a row is not taken, and how that is told."""

HashOf = Callable[[str], str | None]
"""SHA-256 of the text that a chunk has now; None for an id that the corpus does not have."""


@dataclass
class Answers:
    """Usable labels as rows of COLUMNS, rejected rows with their number and reason, and rows nobody has answered."""

    labels: list[Row] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    unanswered: int = 0

    @property
    def reasons(self) -> dict[str, int]:
        return dict(sorted(Counter(row["rejected"] for row in self.rejected).items()))


def check_answers(rows: Sequence[Row], labeller: str, hash_of: HashOf | None) -> Answers:
    """Sort the rows of a filled-in file. ``labeller`` is whose they are where a row does not say.

    ``hash_of`` None leaves ids and texts unchecked. A row without answer and reason is unanswered, whatever else it
    holds: people fill their name down the column. Without a recorded hash the text as it is now is taken as judged.
    """
    found = Answers()
    usable: list[tuple[int, Row, Row]] = []
    for number, row in enumerate(rows, start=1):
        if not row.get("duplicate") and not row.get("reason") and OVERFULL not in row:
            found.unanswered += 1
            continue
        label = _label(row, labeller)
        reason = _fault(row, label, hash_of)
        if reason:
            found.rejected.append({"row": number, "rejected": reason, **row})
        else:
            usable.append((number, row, label))
    answers: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for _, _, label in usable:
        answers[_whose(label)].add(label["duplicate"])
    for number, row, label in usable:
        if len(answers[_whose(label)]) > 1:
            found.rejected.append({"row": number, "rejected": "contradictory", **row})
        else:
            found.labels.append(label)
    found.rejected.sort(key=lambda row: row["row"])
    return found


def join(there: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Both as one set of judgements in a fixed order: the order and number of imports make no difference.

    A judgement is a pair with its texts, a labeller and an answer; of two that differ in the rest only, the first in
    order stays. Two answers of one labeller in two files both stay: the pair is in conflict until it is settled.
    """
    names = sorted({name for row in [*there, *new] for name in row})
    ordered = sorted(map(_canonical, [*there, *new]), key=lambda row: [row.get(name, "") for name in (*_KEY, *names)])
    kept: dict[tuple[str, ...], Row] = {}
    for row in ordered:
        kept.setdefault(tuple(row.get(name, "") for name in _KEY), row)
    return list(kept.values())


def conflicts(labels: Sequence[Row]) -> list[list[Row]]:
    """The judgements of each pair that is answered both ways and not settled by the labeller "adjudicated"."""
    pairs: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in labels:
        pairs[tuple(row.get(name, "") for name in _KEY[:4])].append(row)
    disputed = []
    for rows in pairs.values():
        deciding = [row for row in rows if is_adjudicated([row.get("labeller", "")])[0]]
        if len({row["duplicate"] for row in deciding or rows}) > 1:
            disputed.append(rows)
    return disputed


def agreement_of(labels: Sequence[Row]) -> dict[str, Any] | None:
    """Agreement over the double labels of the rows (duplicates.agreement)."""
    numbers: dict[tuple[str, ...], int] = {}
    pair = [numbers.setdefault(tuple(row.get(name, "") for name in _KEY[:4]), len(numbers)) for row in labels]
    answered = np.array([answer_of(row["duplicate"]) is True for row in labels], dtype=bool)
    return agreement(np.array(pair, dtype=np.int64), [row.get("labeller", "") for row in labels], answered)


def _label(row: Row, labeller: str) -> Row:
    label = {name: row.get(name, "") for name in COLUMNS}
    label["origin"] = label["origin"].lower() or CORPUS
    label["labeller"] = " ".join((label["labeller"] or labeller).split())
    label["reason"] = " ".join(label["reason"].split())
    label["fraction"] = label["fraction"].replace(",", ".")  # as a spreadsheet of another language writes it
    label["band"] = with_points(label["band"])
    return _canonical(label)


def _canonical(row: Row) -> Row:
    """The row with its ids in order and its answer as true or false."""
    answer = answer_of(row.get("duplicate"))
    row = dict(row) if answer is None else {**row, "duplicate": "true" if answer else "false"}
    if row.get("chunk_id_a", "") > row.get("chunk_id_b", ""):
        for name in ("chunk_id", "text_sha256"):
            a, b = row.get(f"{name}_a", ""), row.get(f"{name}_b", "")
            row |= {f"{name}_a": b, f"{name}_b": a}
    return row


def _fault(row: Row, label: Row, hash_of: HashOf | None) -> str:
    """The first reason of REASONS that holds; fills in hashes that were not recorded."""
    if OVERFULL in row:
        return "too_many_fields"
    if not row.get("duplicate"):
        return "no_answer"
    if label["duplicate"] not in ("true", "false"):
        return "bad_value"
    if label["origin"] not in (CORPUS, CONSTRUCTED):
        return "bad_origin"
    if not label["chunk_id_a"] or not label["chunk_id_b"]:
        return "missing_id"
    if label["chunk_id_a"] == label["chunk_id_b"]:
        return "same_id"
    if hash_of is None:
        return ""
    now = {side: hash_of(label[f"chunk_id_{side}"]) for side in "ab"}
    if None in now.values():
        return "unknown_id"
    if any(label[f"text_sha256_{side}"] not in ("", now[side]) for side in "ab"):
        return "text_changed"
    label |= {f"text_sha256_{side}": str(now[side]) for side in "ab"}
    return ""


def _whose(label: Row) -> tuple[str, ...]:
    return label["chunk_id_a"], label["chunk_id_b"], label["labeller"]
