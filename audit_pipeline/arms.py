"""An arm as one string: a prompt, with the further request fields of its role. Nothing is encoded here."""

from __future__ import annotations

import json
from typing import Any

_OPENS, _CLOSES = "\x1e", "\x1f"


def as_arm(prompt: str, extra: dict[str, Any]) -> str:
    """The arm of a prompt and a role's further request fields: the prompt itself where there are none.

    A string, so that an arm can be a table's value and is part of each vector's content key: a text encoded with
    other fields, or without them, never shares a vector.
    """
    if not extra and not prompt.startswith(_OPENS):
        return prompt
    return f"{_OPENS}{json.dumps(extra, sort_keys=True, separators=(',', ':'))}{_CLOSES}{prompt}"


def split_arm(arm: str) -> tuple[str, dict[str, Any]]:
    """The prompt and the further request fields of an arm."""
    if not arm.startswith(_OPENS):
        return arm, {}
    fields, _, prompt = arm[1:].partition(_CLOSES)
    return prompt, json.loads(fields)


def shared_extra(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The further request fields that both roles send alike: they belong to the model, not to a role."""
    return {name: value for name, value in one.items() if name in other and other[name] == value}


def describe_arm(arm: str) -> str:
    """An arm in words, for messages: with 'query: ' in front, with input_type 'query' in the request."""
    prompt, extra = split_arm(arm)
    parts = [f"{prompt!r} in front"] if prompt else []
    parts += [f"{name} {value!r} in the request" for name, value in sorted(extra.items())]
    return "with " + " and ".join(parts) if parts else "without a prompt"
