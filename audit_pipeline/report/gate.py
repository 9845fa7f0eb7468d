"""Whether a change may go on: a loss between two audits beyond chance and beyond a margin. Nothing is printed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from audit_pipeline.errors import AuditInputError
from audit_pipeline.proportions import holm
from audit_pipeline.report.compare import Change, Comparison, compare
from audit_pipeline.report.power import WANTED, chance_to_see, least_loss_seen, questions_needed
from audit_pipeline.report.saved import SavedReport, open_report

MEASURES = {"self@1": "self", "self@10": "self", "heldout@10": "held_out", "labelled_success@10": "labelled"}
"""The run of each measure that the gate judges."""

State = Literal["failed", "passed", "not_seen", "not_measured"]


@dataclass(frozen=True)
class Judgement:
    """One measure: ``failed`` where it fell beyond chance by more than the margin.

    ``p`` is the p-value after Holm over the measures that are judged, ``beyond_chance`` whether it is within alpha.
    ``power`` is the chance that a loss of the margin is told from chance with this many questions, at the level of
    Holm's first step and with as many questions won as were seen; where it is under 80 % and the measure did not rise
    beyond chance the state is ``not_seen``, and ``needed`` is about the number of questions that would do (None where
    no number does). ``available`` is about how many there are where chunks are the questions: where more are
    ``needed``, ``visible`` is the smallest loss that all of them see. ``census`` says whether both audits asked
    all. ``why`` says why a measure is not measured.
    """

    measure: str
    state: State
    change: Change | None = None
    p: float | None = None
    beyond_chance: bool = False
    power: float | None = None
    needed: int | None = None
    available: int | None = None
    visible: float | None = None
    census: bool = False
    why: str | None = None


@dataclass(frozen=True)
class Gate:
    """The judgement of every measure, and the error findings that only the candidate has."""

    name: str
    baseline: str
    candidate: str
    margin: float
    alpha: float
    measures: list[Judgement]
    new_errors: list[dict[str, Any]]
    errors_fail: bool
    cautions: list[str]

    @property
    def failed(self) -> bool:
        return bool(self.of("failed")) or (self.errors_fail and bool(self.new_errors))

    def of(self, state: State) -> list[Judgement]:
        return [one for one in self.measures if one.state == state]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"failed": self.failed}


def run_gate(baseline: Path, candidate: Path, margin: float, alpha: float, errors_fail: bool) -> Gate:
    """Judge the candidate's report against the baseline's.

    Raises AuditInputError where a report cannot be used, the two are one folder, no question was asked by both, or
    margin or alpha are no shares.
    """
    for name, share in (("--margin", margin), ("--alpha", alpha)):
        if not 0 < share < 1:
            raise AuditInputError(
                f"{name}: {share} is no share between 0 and 1: write 0.01 for {_MEANING[name]}, say, and not 0 or 1"
            )
    before, after = open_report(baseline), open_report(candidate)
    if before.folder.resolve() == after.folder.resolve():
        raise AuditInputError(
            f"{before.folder}: baseline and candidate are one report: keep a copy of its folder before the change, and "
            "name that with --baseline"
        )
    return judge(before, after, margin, alpha, errors_fail)


_MEANING = {"--margin": "one question in a hundred", "--alpha": "one false alarm in a hundred gates"}


def judge(before: SavedReport, after: SavedReport, margin: float, alpha: float, errors_fail: bool) -> Gate:
    """The gate of two reports that are read. Raises AuditInputError where no question was asked by both."""
    comparison = compare(before, after)
    changes = {change.measure: change for change in comparison.changes if change.measure in MEASURES}
    if not changes:
        reasons = "; ".join(f"{run}: {why}" for run, why in comparison.not_compared.items() if run in MEASURES.values())
        raise AuditInputError(
            f"{before.folder} and {after.folder}: no question was asked by both audits"
            f"{f' ({reasons})' if reasons else ''}: name two audits of one corpus with an encoder"
        )
    adjusted = dict(zip(changes, holm(np.array([change.p for change in changes.values()])), strict=True))
    census = _is_census(before.audit) and _is_census(after.audit)
    available = _available(after.audit, changes, census)
    measures = [
        replace(
            _judged(changes[measure], float(adjusted[measure]), margin, alpha, len(changes), available.get(measure)),
            census=census and measure in available,
        )
        if measure in changes
        else Judgement(measure, "not_measured", why=_why(comparison, run))
        for measure, run in MEASURES.items()
    ]
    cautions = list(comparison.cautions)
    written = before.audit.get("created_at")
    if written is not None and written == after.audit.get("created_at"):
        cautions.append(f"Both reports are of one audit, of {written}: nothing new was put to the test.")
    if exact := [one.measure for one in measures if one.census]:
        cautions.append(
            f"Every chunk was probed by both audits, so what changed in {', '.join(exact)} is exact for the chunks "
            "that both hold; the test takes these as a sample of the chunks still to come."
        )
    names = [str(report.audit.get("name", "")) for report in (before, after)]
    if names[0] != names[1]:
        cautions.append(
            f"The reports are of two indexes, {names[0]!r} and {names[1]!r}: what differs may be the corpus."
        )
    return Gate(
        name=names[1],
        baseline=str(before.folder),
        candidate=str(after.folder),
        margin=margin,
        alpha=alpha,
        measures=measures,
        new_errors=[finding for finding in comparison.new_findings if finding["severity"] == "error"],
        errors_fail=errors_fail,
        cautions=cautions,
    )


def _judged(change: Change, p: float, margin: float, alpha: float, tests: int, available: int | None) -> Judgement:
    beyond = p <= alpha
    judged = Judgement(change.measure, "passed", change, p, beyond, available=available)
    if beyond and (change.lost - change.won) / change.n > margin:
        return replace(judged, state="failed")
    won = min(change.won / change.n, (1 - margin) / 2)
    # Of less than the margin that is found no more than that can be lost, however many questions are asked.
    losable = change.a >= margin
    power = chance_to_see(change.n, margin, won, alpha / tests) if losable else 0.0
    if power >= WANTED or (beyond and change.won > change.lost):
        return replace(judged, power=power)
    needed = questions_needed(margin, won, alpha / tests) if losable else None
    unseen = replace(judged, state="not_seen", power=power, needed=needed)
    if available is None or not losable or (needed is not None and needed <= available):
        return unseen
    return replace(unseen, visible=least_loss_seen(available, won, alpha / tests, change.a))


def _is_census(audit: Mapping[str, Any]) -> bool:
    """Whether every chunk was probed."""
    chunks = (audit.get("corpus") or {}).get("chunks")
    return bool(chunks) and (audit.get("self_retrieval") or {}).get("n") == chunks


def _available(audit: Mapping[str, Any], changes: Mapping[str, Change], census: bool) -> dict[str, int]:
    """About how many questions the corpus has for each measure whose questions are its chunks; all in a census."""
    chunks, probes = (audit.get("corpus") or {}).get("chunks"), (audit.get("self_retrieval") or {}).get("n")
    if not chunks or not probes:
        return {}
    own = max((change.n for name, change in changes.items() if MEASURES[name] == "self"), default=probes)
    return {
        # Of the chunks that both audits probed as many can be held out as of all.
        name: change.n if census else max(change.n, round(chunks * change.n / own))
        for name, change in changes.items()
        if MEASURES[name] != "labelled"
    }


def _why(comparison: Comparison, run: str) -> str:
    why = comparison.not_compared.get(run)
    if why is not None:
        return why
    return "not asked in either audit" if not comparison.paired[run]["n"] else "not measured in one of the audits"
