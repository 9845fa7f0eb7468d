"""Observed retrieval: the queries the application really sent, and what it got back. The log is read in corpus/."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.arms import split_arm
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.text import is_blank
from audit_pipeline.encoder.fidelity import NOT_IDENTIFIABLE
from audit_pipeline.encoder.query_side import UNEXPLAINED, QuerySide
from audit_pipeline.encoder.roles import QUERY
from audit_pipeline.index.snapshot import NULL, USABLE, VECTOR_STATES, WRONG_DIMENSION, TableSnapshot
from audit_pipeline.index.vectors import to_matrix
from audit_pipeline.proportions import NOT_MEASURED, bootstrap_mean, wilson
from audit_pipeline.results import Progress, StageResult, no_progress
from audit_pipeline.retrieval import observed_findings as report
from audit_pipeline.retrieval.observed_findings import OTHER_DIMENSION
from audit_pipeline.retrieval.ranking import Identities
from audit_pipeline.retrieval.returned_rows import (
    ReturnedRows,
    agree,
    cut_between,
    explain,
    returned_rows,
    sources_left_out,
)
from audit_pipeline.retrieval.tables import as_schema

DEPTH = 100
"""Most returned rows of one query that are compared."""
WITHOUT_QUERY = "without_query"


@dataclass(frozen=True)
class ObservedLog:
    """The rows of a log (corpus.observed_queries.OBSERVED_QUERIES) with their vectors as a matrix.

    ``vectors`` (m, d) float32, ``state`` (m,) as in index.snapshot, ``has_text`` (m,) bool, ``given`` the rows of the
    whole log.
    """

    rows: pa.Table
    vectors: np.ndarray
    state: np.ndarray
    has_text: np.ndarray
    given: int

    @classmethod
    def of(cls, rows: pa.Table, given: int, dimension: int) -> ObservedLog:
        vectors, state = to_matrix(rows["vector"].combine_chunks(), dimension)
        has_text = pc.invert(is_blank(rows["query"])).fill_null(False)
        return cls(rows, vectors, state, has_text.to_numpy(zero_copy_only=False).astype(bool), given)

    @property
    def to_judge(self) -> np.ndarray:
        """Places of the queries whose vectors can be compared with a fresh encoding."""
        return np.flatnonzero(self.has_text & (self.state == USABLE))

    @property
    def invalid(self) -> list[str | None]:
        """What is wrong with each row, (m,): its text is missing, or its vector cannot be used; null where nothing."""
        return [
            WITHOUT_QUERY if not text else None if state in (USABLE, NULL) else VECTOR_STATES[state]
            for text, state in zip(self.has_text, self.state, strict=True)
        ]


def run_observed(
    snapshot: TableSnapshot,
    log: ObservedLog,
    side: QuerySide | None,
    unmeasured: str | None,
    settings: IndexAuditSettings,
    progress: Progress = no_progress,
) -> StageResult:
    """What the application sends and gets, as far as its log shows it.

    ``side`` judges ``log.to_judge``, in that order; None where the query side was not measured, for the reason
    ``unmeasured``. Returns the table observed_retrieval and the section observed of audit.json.
    """
    m = log.rows.num_rows
    identities = Identities(snapshot)
    depth = min(settings.index.search.limit, DEPTH)
    got = returned_rows(log.rows["returned_ids"].combine_chunks(), snapshot, depth)
    role = np.full(m, None, dtype=object)
    loss = np.full(m, np.nan)
    if side is not None:
        role[log.to_judge], loss[log.to_judge] = side.role, side.loss
    if unmeasured is None:
        role[log.has_text & (log.state == WRONG_DIMENSION)] = OTHER_DIMENSION
    judged = _query_side(role[np.array([r is not None for r in role], bool)].tolist(), side, unmeasured, settings)
    compared, recall, order, short = _returned(snapshot, identities, log, got, depth, settings, progress)
    invalid = log.invalid
    section = {
        "n": m,
        "given": log.given,
        "as_configured": judged.pop("as_configured"),
        "unexplained": judged.pop("unexplained"),
        "observed_recall": compared.pop("observed_recall"),
        "observed_order": compared.pop("observed_order"),
        "query_side": judged,
        "returned": compared,
        "without_vector": int(np.count_nonzero(log.state == NULL)),
        "without_ids": int(m - got.logged.sum()),
        "invalid": dict(sorted(Counter(reason for reason in invalid if reason is not None).items())),
    }
    columns = {
        "query_id": log.rows["query_id"],
        "invalid": pa.array(invalid, pa.string()),
        "role": pa.array(role, pa.string()),
        "loss": pa.array(loss, mask=np.isnan(loss)),
        "returned": pa.array(got.distinct, pa.int32(), mask=~got.logged),
        "unknown_ids": pa.array(got.unknown, pa.int32(), mask=~got.logged),
        "short": pa.array(short, pa.bool_()),
        "recall": pa.array(recall, mask=np.isnan(recall)),
        "order": pa.array(order, mask=np.isnan(order)),
    }
    table = as_schema(columns, schemas.OBSERVED_RETRIEVAL).sort_by("query_id")
    return StageResult({"observed_retrieval": table}, section, report.observed_findings(section, table, settings))


def _query_side(
    roles: list[str], side: QuerySide | None, unmeasured: str | None, settings: IndexAuditSettings
) -> dict[str, Any]:
    n, counts = len(roles), Counter(roles)
    if not n and unmeasured is None:
        unmeasured = "the log holds no query with both its text and its vector"
    arms = side.arms if side is not None else {QUERY: settings.encoder.query_arm}
    shown = []
    for name, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])):
        prompt, request = split_arm(arms[name]) if name in arms else (None, {})
        shown.append({"name": name, "prompt": prompt, "request": request, "share": wilson(count, n).as_dict()})
    strange = counts[UNEXPLAINED] + counts[OTHER_DIMENSION]
    judged = {
        "n": n,
        "reason": unmeasured,
        "as_configured": wilson(counts[QUERY], n).as_dict() if n else NOT_MEASURED.as_dict(),
        "unexplained": wilson(strange, n).as_dict() if n else NOT_MEASURED.as_dict(),
        "arms": shown,
        "loss_median": float(np.median(side.loss)) if side is not None and len(side.loss) else None,
        "tolerance": side.calibration.tolerance if side is not None else None,
    }
    return judged | {"role": _role(judged, side, settings)}


def _role(judged: dict[str, Any], side: QuerySide | None, settings: IndexAuditSettings) -> str:
    """One word for the side: not_measured, an arm's name, unexplained, mixed, or why the role cannot be told."""
    if not judged["n"]:
        return "not_measured"
    first = judged["arms"][0]
    if first["share"]["low"] <= report.MOST:
        return UNEXPLAINED if judged["unexplained"]["low"] > report.MOST else "mixed"
    if first["name"] == OTHER_DIMENSION:
        return UNEXPLAINED
    if first["name"] == QUERY and side is not None:
        if settings.encoder.query_arm == settings.encoder.passage_arm:
            return "not_applicable"  # one configured arm: there is no role to confirm
        if not side.calibration.identifiable(settings.encoder.passage_arm):
            return NOT_IDENTIFIABLE
    return first["name"]


def _returned(
    snapshot: TableSnapshot,
    identities: Identities,
    log: ObservedLog,
    got: ReturnedRows,
    depth: int,
    settings: IndexAuditSettings,
    progress: Progress,
) -> tuple[dict[str, Any], np.ndarray, np.ndarray, list[bool | None]]:
    """The section ``returned``, and recall, order and shortness of each row; NaN and None where not compared."""
    m = log.rows.num_rows
    search = settings.index.search
    recall, order = np.full(m, np.nan), np.full(m, np.nan)
    short: list[bool | None] = [None] * m
    section: dict[str, Any] = {
        "n": 0,
        "reason": None,
        "answers": int(got.logged.sum()),
        "ids": int((np.minimum(got.distinct, depth)).sum()),
        "unknown_ids": int(got.unknown.sum()),
        "asked": search.limit,
        "expected": None,
        "short": None,
        "lengths": {},
        "cut_between": None,
        "explanations": {},
        "sources_left_out": [],
        "observed_recall": NOT_MEASURED.as_dict(),
        "observed_order": NOT_MEASURED.as_dict(),
    }
    if settings.index.filter is not None and snapshot.passes_filter is None:
        return section | {"reason": "the application's filter was not evaluated over the rows"}, recall, order, short
    if snapshot.row_filter is not None:
        columns = ", ".join(snapshot.row_filter.names)
        why = f"the filter is filled from a row ({columns}), and the log does not say with which value"
        return section | {"reason": why}, recall, order, short
    passing = snapshot.searchable if snapshot.passes_filter is None else snapshot.searchable & snapshot.passes_filter
    expected = min(search.limit, len(np.unique(identities.codes[passing])))
    is_short = got.logged & (got.distinct < expected)
    if not search.cutoff:  # a cut-off is there to shorten results
        short = [bool(one) if logged else None for one, logged in zip(is_short, got.logged, strict=True)]
        lengths = Counter(got.distinct[got.logged].tolist())
        section |= {
            "expected": expected,
            "short": int(is_short.sum()),
            "lengths": {str(length): count for length, count in sorted(lengths.items())},
        }
    usable = got.logged & (log.state == USABLE)
    places = np.flatnonzero(usable & ((got.known > 0) | is_short))
    if not (usable & (got.known > 0)).any():
        why = "the log holds no answer with the vector it was found by and an id that the table has"
        return section | {"reason": why}, recall, order, short
    queries, rows = log.vectors[places], got.rows[places]
    agreement = agree(snapshot, identities, queries, rows, snapshot.metric, progress=progress)
    recall[places], order[places] = agreement.recall, agreement.order
    section["n"] = int(np.count_nonzero(~np.isnan(recall)))
    figure = bootstrap_mean(recall[~np.isnan(recall)])
    section["observed_recall"] = figure.as_dict()
    section["observed_order"] = bootstrap_mean(order[~np.isnan(order)]).as_dict()
    if not search.cutoff:
        section["cut_between"] = cut_between(identities, agreement, is_short[places], got.known[places])
    if figure.high is not None and figure.high < settings.limits.ann_recall_at_10:
        tried = explain(snapshot, identities, queries, rows, progress)
        section["explanations"] = {name: found.as_dict() for name, found in tried.items()}
        section["sources_left_out"] = sources_left_out(snapshot, identities, rows, agreement)
    return section, recall, order, short
