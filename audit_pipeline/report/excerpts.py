"""Which chunk texts the page may show, and how much of them. Corpus text leaves the state folder only through here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa

from audit_pipeline.report.clusters_view import largest_clusters

EXCERPT_CHARACTERS = 240
MISSES_SHOWN_PER_CAUSE = 2


def shown_misses(audit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The example misses of the page: the first few of each cause and run, in the order of audit.json."""
    seen: dict[tuple[str, str], int] = {}
    shown = []
    for miss in audit["misses"]:
        key = (miss["cause"], miss["run"])
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= MISSES_SHOWN_PER_CAUSE:
            shown.append(dict(miss))
    return shown


def wanted_chunk_ids(audit: Mapping[str, Any], clusters: pa.Table | None = None) -> list[str]:
    """Ids of the chunks whose text the page can use: example misses, the rows ahead of them, members of large clusters.

    ``clusters`` is the table duplicate_clusters.
    """
    wanted: dict[str, None] = {}
    for miss in shown_misses(audit):
        wanted[miss["chunk_id"]] = None
        rival = rival_of(miss)
        if rival is not None:
            wanted[rival] = None
    for cluster in largest_clusters(clusters) if clusters is not None else []:
        wanted.update(dict.fromkeys(member["chunk_id"] for member in cluster["members"]))
    return list(wanted)


def rival_of(miss: Mapping[str, Any]) -> str | None:
    """The chunk that stood ahead of a missed answer, where the evidence names one."""
    evidence = miss["evidence"]
    for key in ("winner", "twins", "also_in", "equal_rows", "rows_ahead"):
        value = evidence.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str) and value != miss["chunk_id"]:
            return value
    return None


def cut_excerpts(excerpts: pa.Table | None, text: Literal["full", "excerpt", "none"]) -> dict[str, str]:
    """Text to show by chunk id: whole, its beginning on one line, or nothing at all."""
    if excerpts is None or text == "none":
        return {}
    pairs = zip(excerpts["chunk_id"].to_pylist(), excerpts["text"].to_pylist(), strict=True)
    shown = {chunk_id: body for chunk_id, body in pairs if body is not None}
    if text == "full":
        return shown
    return {chunk_id: _excerpt(body) for chunk_id, body in shown.items()}


def _excerpt(body: str) -> str:
    line = " ".join(body[: 4 * EXCERPT_CHARACTERS].split())
    return line if len(line) <= EXCERPT_CHARACTERS else line[:EXCERPT_CHARACTERS].rsplit(" ", 1)[0] + " …"
