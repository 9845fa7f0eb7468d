"""Attributes of settings files that mistakes are made in, and the cause that such a file is. No case stands here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from audit_pipeline_tests.messages.case import Case, World, settings_file

NAME = "  name: handbook\n"
SOURCES = "  sources: [{name: api, uri: api.jsonl, format: jsonl}]\n"
ENCODER = "  encoder: {model: some-model}\n"
GOOD = NAME + SOURCES + ENCODER
STANDS = NAME + "  encoder: {kind: none}\n"

Mistake = tuple[str, str, str]
"""What is wrong, the attributes, what the sentence says after the file's name."""


def attributes(text: str) -> Callable[[World], object]:
    """The cause that is a settings file with these attributes."""
    return settings_file(f"type: audit_pipeline.IndexAudit\nattributes:\n{text}")


def cases(mistakes: Iterable[Mistake]) -> list[Case]:
    return [Case(wrong, attributes(text), f"FOLDER/defs.yaml: {told}") for wrong, text, told in mistakes]
