"""Findings: their codes, their severities and their one shape. How a defect is detected belongs to the rooms."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]

ERROR_CODES = frozenset(
    "missing_rows duplicate_ids invalid_vectors dimension_mismatch metric_mismatch index_empty text_drift "
    "role_mismatch misaligned_vectors vector_drift query_side_mismatch provenance_mixed".split()
)
WARNING_CODES = frozenset(
    "self_low orphan_rows empty_text short_results below_cutoff ann_recall_low fts_index_stale truncation "
    "stratum_anomaly relationship_gap prompt_not_applied encoder_unstable labels_invalid labels_few "
    "no_usable_threshold candidates_missed".split()
)
INFO_CODES = frozenset(
    "embedded_text_found twins hubs hot_bucket chunk_windows placeholder_rows embedded_text_unknown index_absent "
    "undecided not_measured generations rows_fell position_gaps chained_clusters".split()
)
# The same defect can matter or not: which of the two is decided where it is detected, and only between these.
SEVERITIES_OF_AMBIGUOUS_CODES: dict[str, frozenset[Severity]] = {
    "index_stale": frozenset(("error", "warning")),
    "not_normalised": frozenset(("error", "warning")),
    "filter_excludes": frozenset(("warning", "info")),
    "text_drift": frozenset(("error", "warning")),
}

MAX_EXAMPLES = 5
SEVERITY_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


def severities_of(code: str) -> frozenset[Severity]:
    """Every severity a finding code may carry. Raises KeyError for an unknown code."""
    if code in SEVERITIES_OF_AMBIGUOUS_CODES:
        return SEVERITIES_OF_AMBIGUOUS_CODES[code]
    if code in ERROR_CODES:
        return frozenset(("error",))
    if code in WARNING_CODES:
        return frozenset(("warning",))
    if code in INFO_CODES:
        return frozenset(("info",))
    raise KeyError(code)


@dataclass(frozen=True)
class Finding:
    """One defect or remark at the smallest set of cells that holds it.

    ``scope`` has any of ``source`` (raw name), ``ingestion_date`` (ISO date of the batch key), ``length_band`` and
    ``rows`` ([first, last] in table order); an empty scope is the whole corpus. ``share`` is the affected share of
    the ``n_compared`` rows or probes; ``n_compared`` 0 means that nothing was compared, which is never a pass.
    """

    code: str
    severity: Severity
    message: str
    remedy: str
    n_compared: int
    share: float | None = None
    scope: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.severity not in severities_of(self.code):
            raise ValueError(f"finding {self.code!r} cannot have severity {self.severity!r}")
        object.__setattr__(self, "examples", [str(example) for example in self.examples[:MAX_EXAMPLES]])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def sort_key(finding: Finding) -> tuple[int, str, str]:
    """Errors first, then by code and scope, so that two equal audits print findings in one order."""
    return (SEVERITY_ORDER[finding.severity], finding.code, repr(sorted(finding.scope.items())))
