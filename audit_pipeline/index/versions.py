"""Row counts of a table's older versions, and where they fell. Nothing is written, and the audited version stays."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit_pipeline.findings import Finding
from audit_pipeline.index.connection import connect, open_table

MOST_COUNTED = 48
"""Versions without a count of their own that are opened to be counted, evenly spaced."""

_SHOWN = 10
_ROWS = "total_rows"


@dataclass(frozen=True)
class History:
    """Row counts of one table: ``versions`` and ``rows`` ascending by version, ``written`` their times in UTC.

    ``not_kept`` versions were removed by a clean-up, ``not_counted`` are kept but were not opened.
    """

    table: str
    versions: tuple[int, ...]
    rows: tuple[int, ...]
    written: tuple[str, ...]
    not_kept: int
    not_counted: int


@dataclass(frozen=True)
class Fall:
    """Fewer rows at a version than at the counted version before it; ``back`` says that the count was reached again."""

    table: str
    before_version: int
    version: int
    rows_before: int
    rows: int
    written: str
    back: bool


def row_history(uri: str, pinned: Mapping[str, int], storage_options: dict[str, str] | None = None) -> list[History]:
    """The row counts up to the pinned version of each table, read through handles of their own.

    LanceDB lists each kept version with its rows, read from the manifests. Where a listing says none, at most
    ``MOST_COUNTED`` versions are opened and counted.
    """
    connection = connect(uri, storage_options)
    return [_history(open_table(connection, name), name, version) for name, version in sorted(pinned.items())]


def falls_of(history: History) -> list[Fall]:
    """Every step at which the count fell, in order of version."""
    rows = np.array(history.rows, dtype=np.int64)
    if len(rows) < 2:
        return []
    highest_after = np.maximum.accumulate(rows[::-1])[::-1]
    return [
        Fall(
            history.table,
            history.versions[step],
            history.versions[step + 1],
            int(rows[step]),
            int(rows[step + 1]),
            history.written[step + 1],
            back=bool(highest_after[step + 1] >= rows[step]),
        )
        for step in np.flatnonzero(np.diff(rows) < 0)
    ]


def rows_fell(histories: list[History]) -> list[Finding]:
    """rows_fell (info): where the number of rows fell from one version to a later one. None where it never did."""
    falls = [fall for history in histories for fall in falls_of(history)]
    steps = sum(max(len(history.versions) - 1, 0) for history in histories)
    if not falls:
        return []
    lasting = [fall for fall in falls if not fall.back]
    shown = sorted(lasting or falls, key=lambda fall: fall.rows - fall.rows_before)
    largest = shown[0]
    of_table = f" of table {largest.table!r}" if len(histories) > 1 else ""
    message = (
        f"The number of rows fell at {len(falls):,} of {steps:,} steps between versions, most from "
        f"{largest.rows_before:,} to {largest.rows:,} (version {largest.before_version} to {largest.version}"
        f"{of_table}, {largest.written}). "
    )
    if lasting:
        message += f"After {len(lasting):,} of these it never came back to what it was"
    else:
        message += "Each time it came back to what it was, as when rows are deleted and written again"
    not_kept = sum(history.not_kept for history in histories)
    not_counted = sum(history.not_counted for history in histories)
    unseen = [f"{not_kept:,} older versions are no longer kept"] if not_kept else []
    unseen += [f"{not_counted:,} versions were not counted"] if not_counted else []
    return [
        Finding(
            "rows_fell",
            "info",
            f"{message}{'; ' + ' and '.join(unseen) if unseen else ''}.",
            "Nothing to do where rows were deleted on purpose; else check out both versions and compare them.",
            n_compared=steps,
            share=len(falls) / steps,
            evidence={
                "falls": [_told(fall) for fall in shown[:_SHOWN]],
                "lasting": len(lasting),
                "versions_not_kept": not_kept,
                "versions_not_counted": not_counted,
            },
        )
    ]


def _told(fall: Fall) -> dict[str, Any]:
    return {
        "table": fall.table,
        "from_version": fall.before_version,
        "to_version": fall.version,
        "rows_before": fall.rows_before,
        "rows_after": fall.rows,
        "written": fall.written,
        "came_back": fall.back,
    }


def _history(table: Any, name: str, pinned: int) -> History:
    listed = sorted((v for v in table.list_versions() if v["version"] <= pinned), key=lambda v: v["version"])
    counts: dict[int, int] = {}
    unsaid = []
    for version in listed:
        rows = (version.get("metadata") or {}).get(_ROWS)
        if rows is None:
            unsaid.append(version["version"])
        else:
            counts[version["version"]] = int(rows)
    places = np.unique(np.linspace(0, len(unsaid) - 1, min(len(unsaid), MOST_COUNTED)).astype(np.int64))
    for version in [unsaid[place] for place in places.tolist()]:
        rows_of_version = _count(table, version)
        if rows_of_version is not None:
            counts[version] = rows_of_version
    kept = [version for version in listed if version["version"] in counts]
    return History(
        table=name,
        versions=tuple(version["version"] for version in kept),
        rows=tuple(counts[version["version"]] for version in kept),
        written=tuple(_utc(version["timestamp"]) for version in kept),
        not_kept=pinned - len(listed),
        not_counted=len(listed) - len(kept),
    )


def _count(table: Any, version: int) -> int | None:
    """Rows of an older version; None where its files are gone."""
    try:
        table.checkout(version)
        return int(table.count_rows())
    except (OSError, RuntimeError, ValueError):
        return None


def _utc(written: dt.datetime) -> str:
    """LanceDB gives local time without a zone."""
    return written.astimezone(dt.UTC).isoformat(timespec="seconds")
