"""What LanceDB says it will do for a search: its plan read, and the settings that will have no effect."""

from __future__ import annotations

import re
from typing import Any

from audit_pipeline.index.vector_index import VectorIndex
from audit_pipeline.index_settings import SearchSettings

_NODE = re.compile(r"^\s*(\w+)(?::|$)", re.MULTILINE)
_METRIC = re.compile(r"\bmetric=(\w+)")
_PROBES = re.compile(r"minimum_nprobes=(\d+), maximum_nprobes=(?:Some\((\d+)\)|(None))")


def read_plan(text: str) -> dict[str, Any]:
    """JSON-ready reading of ``explain_plan``: whether the index is used, under which metric, whether the tail is too.

    ``index`` and ``flat`` say which parts run, ``metric`` is the index's where it is used, else the flat scan's;
    ``operators`` are the distinct plan nodes in order.
    """
    index_line = next((line for line in text.splitlines() if line.lstrip().startswith("ANN")), None)
    flat_lines = [line for line in text.splitlines() if line.lstrip().startswith("KNNVectorDistance")]
    metric = _METRIC.search(index_line or "") or _METRIC.search(flat_lines[0] if flat_lines else "")
    probes = _PROBES.search(text)
    scans_vectors = any(
        line.lstrip().startswith(("LanceScan", "LanceRead")) and "source=stream" not in line
        for line in text.splitlines()
    )
    return {
        "index": index_line is not None,
        "flat": bool(flat_lines) and scans_vectors,
        "metric": metric.group(1).lower() if metric else None,
        "nprobes": int(probes.group(2) or probes.group(1)) if probes else None,
        "operators": list(dict.fromkeys(_NODE.findall(text))),
    }


def ignored_settings(search: SearchSettings, index: VectorIndex | None, used: bool) -> list[str]:
    """Names of declared search settings that change nothing for this table's index."""
    ignored = []
    if search.nprobes is not None and not used:
        ignored.append("nprobes")
    if search.ef is not None and not (used and index is not None and index.is_graph):
        ignored.append("ef")
    if search.refine_factor is not None and not (used and index is not None and index.is_quantised):
        ignored.append("refine_factor")
    return ignored
