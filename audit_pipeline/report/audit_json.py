"""Assembles and validates audit.json from the parts the stages hand over. It computes no figure and writes no file."""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.findings import Finding, severities_of, sort_key
from audit_pipeline.proportions import NOT_MEASURED
from audit_pipeline.report.alerts import muted_findings
from audit_pipeline.uris import HIDDEN, without_credentials

SCHEMA_VERSION = 1
PARTS = (
    "encoder",
    "index",
    "corpus",
    "self_retrieval",
    "held_out",
    "labelled",
    "observed",
    "ann_recall",
    "ann_sweep",
    "formatting_arms",
    "both_sides",
    "causes",
    "misses",
    "roles",
    "duplicates",
    "verdict",
    "self_checks",
    "encoded",
)
"""The sections of audit.json that stages provide; the rest is provenance that ``build_audit`` takes by name."""

MAX_MISSES = 200
_STRATA = ("by_source", "by_ingestion_date", "by_batch", "by_length_band", "by_position", "by_document")


class AuditShapeError(ValueError):
    """A stage handed over something that is not in the shape of audit.json: a defect of this project."""


def build_audit(
    parts: Mapping[str, Any],
    findings: Sequence[Finding],
    *,
    name: str,
    created_at: dt.datetime,
    timings: Mapping[str, float],
    versions: Mapping[str, str],
    settings: IndexAuditSettings,
) -> dict[str, Any]:
    """The audit as plain JSON values in the shape of audit.schema.json, validated.

    ``parts`` has every key of ``PARTS`` (labelled and observed may be None; ``not_measured`` makes a section for what
    did not run). ``created_at`` must carry a time zone; ``timings`` are seconds by stage. Findings are sorted, errors
    first. Raises AuditShapeError naming the place where a part is missing or has the wrong shape.
    """
    missing = [part for part in PARTS if part not in parts]
    unknown = [part for part in parts if part not in PARTS]
    if missing or unknown:
        raise AuditShapeError(f"parts of the audit missing: {missing}, unknown: {unknown}")
    if created_at.tzinfo is None:
        raise AuditShapeError("created_at needs a time zone")
    mutes = settings.alerts.mute if settings.alerts is not None else []
    audit = {
        "schema_version": SCHEMA_VERSION,
        "created_at": created_at.isoformat(timespec="seconds"),
        "name": name,
        "versions": dict(versions),
        "settings": public_settings(settings),
        **{part: parts[part] for part in PARTS},
        "findings": [finding.as_dict() for finding in sorted(findings, key=sort_key)],
        "muted": muted_findings(
            [finding.as_dict() for finding in findings], mutes, created_at.astimezone(dt.UTC).date()
        ),
        "timings": dict(timings),
    }
    audit["misses"] = _some_of_each(audit["misses"])
    plain = to_plain(audit)
    plain["index"]["uri"] = without_credentials(str(plain["index"].get("uri")))
    validate_audit(plain)
    return plain


def not_measured(part: str, haystack: int = 0) -> dict[str, Any]:
    """A retrieval section that says nothing was measured: n 0 and every figure null. Raises KeyError otherwise."""
    figures = {
        "self_retrieval": ("self@1", "self@10", "self@1_lenient", "self@1_unique"),
        "held_out": ("heldout@1", "heldout@10"),
        "ann_recall": ("ann_recall@10",),
    }[part]
    section: dict[str, Any] = {"n": 0, **{figure: NOT_MEASURED.as_dict() for figure in figures}}
    if part != "ann_recall":
        section |= {"haystack": haystack, **{dimension: [] for dimension in _STRATA}}
    if part == "held_out":
        section["eligible"] = 0
    return section


def public_settings(settings: IndexAuditSettings) -> dict[str, Any]:
    """The settings as JSON values, with storage options and credentials in URIs hidden."""
    public = settings.model_dump(mode="json")
    for part in (public["index"], *public["sources"]):
        part["storage_options"] = dict.fromkeys(part["storage_options"], HIDDEN)
    return _map_strings(public, without_credentials)


def validate_audit(audit: Mapping[str, Any]) -> None:
    """Checks the audit against the JSON Schema and what a schema cannot say. Raises AuditShapeError."""
    problem = next(
        iter(sorted(_validator().iter_errors(audit), key=lambda error: len(list(error.absolute_path)))), None
    )
    if problem is not None:
        raise AuditShapeError(f"audit.json at {_where(problem.absolute_path)}: {_deepest(problem)}")
    for position, finding in enumerate(audit["findings"]):
        if finding["severity"] not in severities_of(finding["code"]):
            raise AuditShapeError(
                f"audit.json at findings/{position}: {finding['code']} cannot be {finding['severity']}"
            )
    _check_intervals(audit, [])


def dump_audit(audit: Mapping[str, Any]) -> str:
    """The audit as the text of audit.json: UTF-8, indented, and never NaN."""
    return json.dumps(audit, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def audit_schema() -> dict[str, Any]:
    """The JSON Schema of audit.json as it ships with the package."""
    text = resources.files("audit_pipeline.report").joinpath("audit.schema.json").read_text(encoding="utf-8")
    return json.loads(text)


def to_plain(value: Any, path: tuple[str, ...] = ()) -> Any:
    """The value with NumPy scalars, dates, paths, tuples and sets turned into JSON values.

    Raises AuditShapeError for NaN, infinities and types JSON has no word for, naming the place.
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, np.generic):
        return to_plain(value.item(), path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise AuditShapeError(f"audit.json at {_where(path)}: {value} is no figure; use null")
        return value
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return to_plain(sorted(value), path)
    if isinstance(value, list | tuple | np.ndarray):
        return [to_plain(item, (*path, str(position))) for position, item in enumerate(value)]
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise AuditShapeError(f"audit.json at {_where(path)}: {type(value).__name__} cannot be written as JSON")


@functools.cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(audit_schema())


def _some_of_each(misses: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """At most MAX_MISSES, shared out evenly over runs and causes: a frequent cause must not crowd out the rare ones."""
    seen: dict[tuple[str, str], int] = {}
    turns = []
    for place, miss in enumerate(misses):
        key = (miss["run"], miss["cause"])
        seen[key] = seen.get(key, 0) + 1
        turns.append((seen[key], place))
    kept = {place for _, place in sorted(turns)[:MAX_MISSES]}
    return [miss for place, miss in enumerate(misses) if place in kept]


def _where(path: Any) -> str:
    return "/".join(str(step) for step in path) or "the top"


def _deepest(problem: Any) -> str:
    """The most telling message of a failed oneOf, shortened: a schema error prints the whole instance otherwise."""
    while problem.context:
        problem = max(problem.context, key=lambda inner: len(list(inner.absolute_path)))
    message = problem.message
    return message if len(message) <= 300 else f"{message[:150]} ... {message[-140:]}"


def _check_intervals(value: Any, path: list[str]) -> None:
    if isinstance(value, Mapping):
        if set(value) == {"value", "low", "high", "n"} and value["n"]:
            if not value["low"] - 1e-9 <= value["value"] <= value["high"] + 1e-9:
                raise AuditShapeError(f"audit.json at {_where(path)}: {value} lies outside its interval")
            return
        for key, item in value.items():
            _check_intervals(item, [*path, str(key)])
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _check_intervals(item, [*path, str(position)])


def _map_strings(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_strings(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_strings(item, change) for item in value]
    return value
