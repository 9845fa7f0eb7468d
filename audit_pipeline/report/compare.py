"""What got better or worse between two audits, question by question. Which questions pair is pairing.py's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from audit_pipeline.proportions import holm, mcnemar, paired_difference
from audit_pipeline.report.by_document import pair_documents
from audit_pipeline.report.carried import carried_thresholds
from audit_pipeline.report.comparable import cautions, comparable, side_of, without_documents
from audit_pipeline.report.duplicates_compared import compare_duplicates
from audit_pipeline.report.pairing import RUNS, STRATA, Pairs, pair_probes
from audit_pipeline.report.saved import SavedReport
from audit_pipeline.retrieval.anomalies import benjamini_hochberg

MIN_PAIRS = 20
"""Questions a stratum needs to be compared by itself."""
MOSTLY = 0.9
"""Share of all questions from which a stratum says what the whole says."""


@dataclass(frozen=True)
class Change:
    """One measure on the questions that both audits asked, over the whole (``scope`` empty) or in one stratum.

    ``difference`` is the second audit's share less the first's, with its 95 % interval; ``p`` is the exact McNemar
    test, ``beyond_chance`` says whether it holds: at 5 % over all measures together for the whole (Holm 1979), at a
    false discovery rate of 5 % over the strata (Benjamini & Hochberg 1995). ``causes`` counts why the questions that
    were lost are missed now.
    """

    measure: str
    scope: dict[str, str]
    n: int
    a: float
    b: float
    difference: float
    low: float
    high: float
    won: int
    lost: int
    p: float
    beyond_chance: bool
    causes: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """Two audits side by side: what they are, how their questions pair, what changed on them, findings new or gone.

    ``causes`` counts of each run why its paired questions are missed in either; ``not_compared`` says why a run is not
    compared, in a sentence. Of held-out sentences that one audit asked again of the other, ``asked_again`` says what
    became of those that are in no figure. ``carried`` is what each one's duplicate threshold flags in the other,
    ``duplicates`` what both say of duplicates (duplicates_compared).
    """

    a: str
    b: str
    sides: dict[str, dict[str, Any]]
    paired: dict[str, dict[str, Any]]
    not_compared: dict[str, str]
    asked_again: dict[str, int]
    changes: list[Change]
    causes: dict[str, dict[str, dict[str, int]]]
    strata: list[Change]
    new_findings: list[dict[str, Any]]
    gone_findings: list[dict[str, Any]]
    cautions: list[str]
    carried: list[dict[str, Any]]
    duplicates: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(a: SavedReport, b: SavedReport) -> Comparison:
    """The second audit against the first. Raises AuditInputError where a table is missing."""
    tables = {run: (a.table(run), b.table(run)) for run in RUNS}
    pairs = {run: pair_probes(run, *tables[run]) for run in RUNS}
    sides = {side: side_of(report.audit, own) for side, report, own in zip("ab", (a, b), tables["self"], strict=True)}
    pairs, not_compared = comparable(pairs, sides)
    documents = (a.documents(), b.documents())
    if len(pairs["labelled"].frame):
        reason = without_documents(*documents)
        if reason is None and documents[0] is not None and documents[1] is not None:
            pairs["documents"] = pair_documents(pairs["labelled"], (documents[0], documents[1]), tables["labelled"])
        elif reason is not None:
            not_compared["documents"] = reason
    changes = [
        change
        for pair in pairs.values()
        for measure in pair.measures
        if (change := _change(pair, measure, {}, pair.frame)) is not None
    ]
    return Comparison(
        a=str(a.folder),
        b=str(b.folder),
        sides=sides,
        paired={
            run: {
                "by": pair.by,
                "n": len(pair.frame),
                "only_a": pair.only_a,
                "only_b": pair.only_b,
                "changed": pair.changed,
            }
            for run, pair in pairs.items()
            if run in RUNS
        },
        not_compared=not_compared,
        asked_again=_asked_again(a, b, tables["held_out"]) if pairs["held_out"].by == "sentence" else {},
        changes=_judged(changes),
        causes={run: _causes(pair.frame) for run, pair in pairs.items() if run in RUNS},
        strata=[change for pair in pairs.values() for change in _of_strata(pair)],
        new_findings=_without(b.audit["findings"], a.audit["findings"]),
        gone_findings=_without(a.audit["findings"], b.audit["findings"]),
        carried=carried_thresholds(a.audit, b.audit),
        duplicates=compare_duplicates(a, b, tables["self"], (sides["a"]["median_words"], sides["b"]["median_words"])),
        cautions=cautions(a.audit, b.audit, pairs),
    )


def _asked_again(a: SavedReport, b: SavedReport, tables: tuple[pd.DataFrame, pd.DataFrame]) -> dict[str, int]:
    """Sentences that one audit asked again and what became of those it could not, or that stand elsewhere too."""
    for report, table in ((b, tables[1]), (a, tables[0])):
        counts = (report.audit.get("held_out") or {}).get("asked_again")
        if counts:
            reasons = table.loc[~table["eligible"], "ineligible_reason"].value_counts().to_dict()
            elsewhere = int(table["overlap"].fillna(False).astype(bool).sum())
            return dict(counts) | {str(why): int(n) for why, n in sorted(reasons.items())} | {"overlap": elsewhere}
    return {}


def _causes(frame: pd.DataFrame) -> dict[str, dict[str, int]]:
    return {side: _counted(frame[f"cause_{side}"].dropna()) for side in "ab"}


def _counted(causes: pd.Series) -> dict[str, int]:
    """How often each stands there, the most frequent first."""
    counts = causes.value_counts()
    return {str(cause): int(n) for cause, n in sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))}


def _change(pair: Pairs, measure: str, scope: dict[str, str], frame: pd.DataFrame) -> Change | None:
    both = frame[frame[f"{measure} a"].notna() & frame[f"{measure} b"].notna()]
    if not len(both):
        return None
    before, after = both[f"{measure} a"].to_numpy(bool), both[f"{measure} b"].to_numpy(bool)
    lost, won = before & ~after, ~before & after
    counts = int((before & after).sum()), int(lost.sum()), int(won.sum()), int((~before & ~after).sum())
    difference, low, high = paired_difference(*counts)
    p = mcnemar(counts[1], counts[2])
    return Change(
        measure=measure,
        scope=scope,
        n=len(both),
        a=float(before.mean()),
        b=float(after.mean()),
        difference=difference,
        low=low,
        high=high,
        won=counts[2],
        lost=counts[1],
        p=p,
        beyond_chance=p <= 0.05,
        causes=_counted(both.loc[lost, "cause_b"].fillna("not judged")),
        examples=both.loc[lost, "id_b"].head(5).tolist(),
    )


def _judged(changes: list[Change]) -> list[Change]:
    """The changes with what is beyond chance among all of them: each measure is a chance of a false alarm."""
    adjusted = holm(np.array([change.p for change in changes]))
    return [replace(change, beyond_chance=bool(p <= 0.05)) for change, p in zip(changes, adjusted, strict=True)]


def _of_strata(pair: Pairs) -> list[Change]:
    """Strata with enough pairs, tested together over all measures of the run; those beyond chance only."""
    tested = []
    for measure in pair.measures:
        for name in STRATA:
            for value, frame in pair.frame.groupby(name, dropna=True):
                change = _change(pair, measure, {name: str(value)}, frame)
                # What holds every pair is the whole once more.
                if change is not None and MIN_PAIRS <= change.n < MOSTLY * len(pair.frame):
                    tested.append(change)
    found = benjamini_hochberg(np.array([change.p for change in tested]))
    return [change for change, beyond in zip(tested, found, strict=True) if beyond]


def _without(findings: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Findings whose code and scope the others do not have."""
    known = {_identity(finding) for finding in others}
    return [
        {name: finding[name] for name in ("code", "severity", "scope", "message", "remedy")}
        for finding in findings
        if _identity(finding) not in known
    ]


def _identity(finding: Mapping[str, Any]) -> tuple[str, str]:
    return finding["code"], json.dumps(finding["scope"], sort_keys=True)
