"""What got better or worse between two audits, question by question. Which questions pair is pairing.py's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from audit_pipeline.errors import AuditInputError
from audit_pipeline.proportions import holm, mcnemar, paired_difference
from audit_pipeline.report.pairing import MEASURES, RUNS, STRATA, Pairs, pair_probes
from audit_pipeline.retrieval.anomalies import benjamini_hochberg
from audit_pipeline.state import read_table

MIN_PAIRS = 20
"""Questions a stratum needs to be compared by itself."""


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
    """Two audits side by side: how their questions pair, what changed on them, findings that are new or gone."""

    a: str
    b: str
    paired: dict[str, dict[str, Any]]
    changes: list[Change]
    strata: list[Change]
    new_findings: list[dict[str, Any]]
    gone_findings: list[dict[str, Any]]
    cautions: list[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class SavedReport:
    """The audit.json and the probe tables of a report folder, wherever it was copied to."""

    folder: Path
    audit: dict[str, Any]

    def table(self, run: str) -> pd.DataFrame:
        path = self.folder / "tables" / f"{RUNS[run]}.parquet"
        if not path.exists():
            raise AuditInputError(f"{path}: this table of the report is missing: use the whole folder of a report")
        try:
            table = read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise AuditInputError(
                f"{path}: this table cannot be read: run the audit again, or use a whole copy"
            ) from error
        lacking = [name for name in _needed(run) if name not in table.column_names]
        if lacking:
            raise AuditInputError(f"{path}: no column {lacking[0]!r}: run the audit again with this version")
        return table.to_pandas()


_SECTIONS = {"encoder": dict, "index": dict, "findings": list}
"""What of an audit.json is compared beside the tables."""


def _needed(run: str) -> set[str]:
    named = "query_id" if run == "labelled" else "probe_id"
    only = {"held_out": {"eligible", "overlap", "held"}}.get(run, set())
    return {named, *only, "source", "ingestion_date", "length_band", "cause", *MEASURES[run].values()}


def open_report(path: Path) -> SavedReport:
    """A report by its folder, or by the audit.json or audit.html in it. Raises AuditInputError."""
    folder = path.expanduser()
    folder = folder.parent if folder.suffix in (".json", ".html") else folder
    document = folder / "audit.json"
    try:
        audit = json.loads(document.read_text(encoding="utf-8"))
    except OSError as error:
        raise AuditInputError(
            f"{path}: there is no audit.json: name the folder of a report, such as .audit/reports/NAME"
        ) from error
    except ValueError as error:
        raise AuditInputError(f"{document}: not valid JSON ({error}): run the audit again") from error
    if not isinstance(audit, dict) or not all(isinstance(audit.get(key), kind) for key, kind in _SECTIONS.items()):
        raise AuditInputError(f"{document}: this is no audit of audit_pipeline: name the folder of a report")
    return SavedReport(folder, audit)


def compare(a: SavedReport, b: SavedReport) -> Comparison:
    """The second audit against the first. Raises AuditInputError where a table is missing."""
    pairs = {run: pair_probes(run, a.table(run), b.table(run)) for run in RUNS}
    changes = [
        change
        for pair in pairs.values()
        for measure in MEASURES[pair.run]
        if (change := _change(pair, measure, {}, pair.frame)) is not None
    ]
    return Comparison(
        a=str(a.folder),
        b=str(b.folder),
        paired={
            run: {
                "by": pair.by,
                "n": len(pair.frame),
                "only_a": pair.only_a,
                "only_b": pair.only_b,
                "changed": pair.changed,
            }
            for run, pair in pairs.items()
        },
        changes=_judged(changes),
        strata=[change for pair in pairs.values() for change in _of_strata(pair)],
        new_findings=_without(b.audit["findings"], a.audit["findings"]),
        gone_findings=_without(a.audit["findings"], b.audit["findings"]),
        cautions=_cautions(a.audit, b.audit, pairs),
    )


def _change(pair: Pairs, measure: str, scope: dict[str, str], frame: pd.DataFrame) -> Change | None:
    both = frame[frame[f"{measure} a"].notna() & frame[f"{measure} b"].notna()]
    if not len(both):
        return None
    before, after = both[f"{measure} a"].to_numpy(bool), both[f"{measure} b"].to_numpy(bool)
    lost, won = before & ~after, ~before & after
    counts = int((before & after).sum()), int(lost.sum()), int(won.sum()), int((~before & ~after).sum())
    difference, low, high = paired_difference(*counts)
    p = mcnemar(counts[1], counts[2])
    causes = both.loc[lost, "cause_b"].fillna("not judged").value_counts()
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
        causes={str(cause): int(n) for cause, n in sorted(causes.items(), key=lambda item: (-item[1], item[0]))},
        examples=both.loc[lost, "id_b"].head(5).tolist(),
    )


def _judged(changes: list[Change]) -> list[Change]:
    """The changes with what is beyond chance among all of them: five measures are five chances of a false alarm."""
    adjusted = holm(np.array([change.p for change in changes]))
    return [replace(change, beyond_chance=bool(p <= 0.05)) for change, p in zip(changes, adjusted, strict=True)]


def _of_strata(pair: Pairs) -> list[Change]:
    """Strata with enough pairs, tested together over all measures of the run; those beyond chance only."""
    tested = []
    for measure in MEASURES[pair.run]:
        for name in STRATA:
            for value, frame in pair.frame.groupby(name, dropna=True):
                change = _change(pair, measure, {name: str(value)}, frame)
                if change is not None and change.n >= MIN_PAIRS:
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


def _cautions(a: Mapping[str, Any], b: Mapping[str, Any], pairs: dict[str, Pairs]) -> list[str]:
    """What makes the comparison less than it seems, in sentences."""
    said = []
    for label, where in (("encoder", "encoder"), ("metric", "index")):
        keys = ("model", "query_prompt", "passage_prompt", "max_tokens") if label == "encoder" else ("metric",)
        for key in keys:
            one, other = a[where].get(key), b[where].get(key)
            if one != other:
                said.append(f"The {label}'s {key} differs: {one!r} in the first, {other!r} in the second.")
    for run in ("self", "held_out"):
        pair = pairs[run]
        if pair.by == "nothing" and (pair.only_a or pair.only_b):
            said.append(
                f"No {run} probe is the same in both: ids and texts differ, as they do after another chunking. "
                "Only labelled queries, which name documents, compare such indexes."
            )
        elif pair.by == "text":
            said.append(f"The {run} probes have new ids and were paired by their text.")
    return said
