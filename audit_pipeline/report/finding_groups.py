"""Findings of one code shown as one: what is to blame stands once, its places beneath. No finding is made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit_pipeline.findings import SEVERITY_ORDER
from audit_pipeline.report.wording import CODES, scope_words, share_words

# They speak of what the audit was given rather than of the index, so they never come before what they are to judge.
_OF_LABELS = frozenset(("labels_invalid", "labels_few", "no_usable_threshold", "candidates_missed"))

# Notes that say how to read the figures come before those that count rows.
_NOTES = ("embedded_text_unknown", "embedded_text_found", "undecided")


@dataclass(frozen=True)
class FindingGroup:
    """All findings of one code and severity, the one that affects most first."""

    code: str
    severity: str
    findings: list[Mapping[str, Any]]

    @property
    def title(self) -> str:
        return CODES[self.code]

    @property
    def first(self) -> Mapping[str, Any]:
        return self.findings[0]

    @property
    def where(self) -> str:
        """The place of the first finding, how many more there are, and how many findings where places share some."""
        places = len({scope_words(finding["scope"]) for finding in self.findings})
        more = f" and {places - 1} more place{'s' if places > 2 else ''}" if places > 1 else ""
        several = f", {len(self.findings)} findings" if len(self.findings) > places else ""
        return scope_words(self.first["scope"]) + more + several

    @property
    def share(self) -> str:
        return share_words(self.first)


def affected(finding: Mapping[str, Any]) -> float:
    """Rows or probes a finding speaks of, as far as they are known."""
    return (finding["share"] or 0.0) * finding["n_compared"]


def group_findings(findings: Sequence[Mapping[str, Any]]) -> list[FindingGroup]:
    """Groups ordered by severity, then by the rows they affect; what is said of labels comes after the rest."""
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for finding in findings:
        grouped.setdefault((finding["severity"], finding["code"]), []).append(finding)
    groups = [
        FindingGroup(code, severity, sorted(members, key=lambda finding: (-affected(finding), str(finding["scope"]))))
        for (severity, code), members in grouped.items()
    ]
    order: Mapping[str, int] = {str(severity): place for severity, place in SEVERITY_ORDER.items()}
    return sorted(
        groups,
        key=lambda group: (
            order[group.severity],
            group.code in _OF_LABELS,
            _NOTES.index(group.code) if group.code in _NOTES else len(_NOTES),
            -sum(map(affected, group.findings)),
            group.code,
        ),
    )
