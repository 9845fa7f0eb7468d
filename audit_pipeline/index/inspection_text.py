"""An inspected table as a settings file that runs unedited. What stands in it is found in inspection."""

from __future__ import annotations

import json
import re
from typing import Any

from audit_pipeline.index.database import ALL_TABLES
from audit_pipeline.index.inspection import Inspection, RoleGuess
from audit_pipeline.settings_file import COMPONENT_TYPE


def _embedded(role: RoleGuess | None) -> str:
    """What is known of the embedded text where no template was found."""
    if role is None:
        return "the text itself, unless the audit's fingerprint finds another template"
    if role.known:
        return f"the text itself, {role.reason}"
    return "not the text alone, or another model; write here what was embedded, such as '{meta.title}\\n{text}'"


def render(inspection: Inspection, model: str | None, role: RoleGuess | None) -> str:
    """The settings as YAML that runs unedited, the facts before it and a comment on each guess."""
    known = role is not None and role.known
    embed_text = role.embed_text if role is not None and known else inspection.layout.embed_text
    lines = [f"# {fact}" for fact in inspection.facts]
    lines += [f"type: {COMPONENT_TYPE}", "attributes:", f"  name: {_name_of(inspection.table)}"]
    lines += _encoder_lines(inspection, model, role)
    index = inspection.index_settings
    lines += ["  index:", f"    uri: {_scalar(index['uri'])}", f"    table: {_scalar(index['table'])}"]
    lines += ["    managed: false  # read only, at one version"]
    lines += [f"    layout: {index['layout']}  # {inspection.layout_reason}"]
    lines += ["    columns:"] if index["columns"] else []
    for field, path in index["columns"].items():
        lines.append(f"      {field}: {_scalar(path)}  # {inspection.guesses.reasons[field]}")
    for field, reason in inspection.guesses.reasons.items():
        if field not in index["columns"]:
            lines.append(f"      # {field}: {reason}")
    if embed_text is not None:
        why = role.reason if role is not None and known else f"what {inspection.layout.name} embeds"
        lines.append(f"    embed_text: {_scalar(embed_text)}  # {why}")
    else:
        lines.append(f"    # embed_text: {_embedded(role)}")
    lines.append(f"    metric: {index['metric']}  # {inspection.metric_reason}")
    if inspection.table != ALL_TABLES:
        lines.append(
            "    search: {limit: 10}  # a guess: what the application asks for, with filter, nprobes and cut-off"
        )
    return "\n".join(lines) + "\n"


def _encoder_lines(inspection: Inspection, model: str | None, role: RoleGuess | None) -> list[str]:
    lines = [
        f"  # The registry in the schema names {json.dumps(entry.get('name'))} with {json.dumps(entry.get('model'))}"
        for entry in inspection.registered
    ]
    if model is None:
        return [*lines, "  encoder: {kind: none}  # no --model was named: all that needs no encoding is measured"]
    prompts = role or RoleGuess("not looked at")
    return [
        *lines,
        "  encoder:",
        f"    model: {_scalar(model)}  # as named",
        f"    passage_prompt: {_scalar(prompts.passage_prompt)}  # {prompts.reason}",
        f"    query_prompt: {_scalar(prompts.query_prompt)}  # a guess: what goes with that passage prompt",
    ]


def _name_of(table: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", table.lower()).strip("-")[:63].strip("-")
    return name or "index"


def _scalar(value: Any) -> str:
    """A value as YAML on one line; JSON is YAML, and bare words are left bare."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w./-]*", value) and value.lower() not in _YAML_WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


_YAML_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
