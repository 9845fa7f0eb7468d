"""What LlamaIndex put before a node's text to embed it, read from its JSON. The column is found elsewhere."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

_PLACEHOLDER = re.compile(r"\{(key|value|metadata_str|content)\}")


def before_text(nodes: pa.Array) -> pa.Array:
    """The string before the text in what was embedded, (n,) string; empty where only the text was embedded.

    ``nodes`` are the JSON strings of whole nodes (``_node_content``). Null where a row holds no node, or one whose
    template puts something after the text. The embedded text is stripped by the writer, so its start is too.
    """
    return pa.array([_before(node) for node in nodes.cast(pa.string()).to_pylist()], pa.string())


def _before(text: str | None) -> str | None:
    try:
        node = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(node, dict) or not isinstance(node.get("metadata", {}), dict):
        return None
    excluded = set(node.get("excluded_embed_metadata_keys") or [])
    line = str(node.get("metadata_template") or "{key}: {value}")
    # The writer's own field name was misspelt for years.
    separator = str(node.get("metadata_separator") or node.get("metadata_seperator") or "\n")
    lines = [
        _filled(line, {"key": key, "value": value}) for key, value in node["metadata"].items() if key not in excluded
    ]
    if not lines:
        return ""
    template = str(node.get("text_template") or "{metadata_str}\n\n{content}")
    start, marker, end = template.partition("{content}")
    if not marker or end.strip():
        return None
    return _filled(start, {"metadata_str": separator.join(lines)}).lstrip()


def _filled(template: str, values: dict[str, Any]) -> str:
    """The template with its placeholders replaced once; not str.format, which would follow attributes of a template."""
    return _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), template)
