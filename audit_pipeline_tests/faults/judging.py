"""Whether an audit said of a planted defect what it should: detected, in its place, with the right causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from audit_pipeline.findings import Finding
from audit_pipeline.retrieval.causes import UNDETERMINED
from audit_pipeline_tests.faults.index import Audited, Batch
from audit_pipeline_tests.faults.kind import Kind

PLACED = ("source", "ingestion_date")


@dataclass(frozen=True)
class Judged:
    """What became of one planted defect.

    ``causes`` counts the causes of the misses that it produced, by run: those the sound twin does not have.
    ``elsewhere`` are findings, errors and warnings, that stand in another place or that nothing explains.
    """

    detected: bool
    placed: bool
    causes: dict[str, Counter[str]]
    right: int
    attributed: int
    undetermined: int
    elsewhere: tuple[str, ...]


def judge(kind: Kind, batch: Batch, planted: Audited, sound: Audited) -> Judged:
    """The audit of the planted index beside that of its sound twin."""
    before = {shown(finding) for finding in sound.findings}
    new = [finding for finding in planted.findings if shown(finding) not in before]
    # The sound twin may have a finding of the whole corpus as well: then it must say something else of this index.
    said = {finding.message for finding in sound.findings}
    own = [
        finding
        for finding in planted.findings
        if (finding.code, finding.severity) == (kind.code, kind.severity)
        and (shown(finding) not in before or (not finding.scope and finding.message not in said))
    ]
    causes = {
        run: Counter(cause for chunk, cause in missed.items() if chunk not in sound.causes.get(run, {}))
        for run, missed in planted.causes.items()
    }
    expected: Mapping[str, frozenset[str] | None]
    expected = {"self": kind.causes, "held_out": kind.held_out, "labelled": kind.labelled}
    judged = {run: allowed for run, allowed in expected.items() if allowed is not None and run in causes}
    right = sum(n for run, allowed in judged.items() for cause, n in causes[run].items() if cause in allowed)
    undetermined = sum(causes[run][UNDETERMINED] for run in judged)
    attributed = sum(sum(causes[run].values()) for run in judged) - undetermined
    where = {} if kind.scope == "corpus" else batch.scope
    elsewhere = tuple(
        shown(finding) for finding in new if not explained(finding, kind, batch) and finding.severity != "info"
    )
    if kind.code is None:
        detected = not any(kind.held_out or ()) or bool(causes.get("held_out"))
        placed = not elsewhere
    else:
        detected = any(is_named(finding, kind) for finding in own)
        placed = detected and all(finding.scope == where for finding in own) and not elsewhere
    return Judged(detected, placed, causes, right, attributed, undetermined, elsewhere)


def is_named(finding: Finding, kind: Kind) -> bool:
    """Whether the finding's evidence names what it must, where the kind asks for that."""
    if kind.evidence is None or not kind.evidence[1]:
        return True
    key, what = kind.evidence
    return what in finding.evidence.get(key, {})


def explained(finding: Finding, kind: Kind, batch: Batch) -> bool:
    """Whether a finding is the expected one or one that follows from the defect, in its place or in the whole."""
    if finding.code in kind.anywhere:
        return True
    if finding.code != kind.code and finding.code not in kind.beside:
        return False
    place = {name: value for name, value in finding.scope.items() if name in PLACED}
    return not place or all(batch.scope[name] == value for name, value in place.items())


def shown(finding: Finding) -> str:
    return f"{finding.severity} {finding.code} {sorted(finding.scope.items())}"
