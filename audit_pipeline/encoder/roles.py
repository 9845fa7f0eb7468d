"""Prompts: the arms a fingerprint tells apart, and prompts that a model registers in vain. Nothing is encoded here."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from audit_pipeline.arms import as_arm, shared_extra
from audit_pipeline.encoder.protocol import RequestRefusedError
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.findings import Finding

PASSAGE, QUERY, NONE = "passage", "query", "none"

# Prompts that the cards of common models ask for. Most checkpoints register none of them in their configuration, so
# a writer may have used any. The first two are always arms: they are the yardstick of what a wrong prompt costs.
KNOWN_PROMPTS = (
    "query: ",
    "passage: ",
    "Represent this sentence for searching relevant passages: ",
    "search_query: ",
    "search_document: ",
    "title: none | text: ",
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
)

_QUERY_WORDS = frozenset(("query", "queries"))
_DOCUMENT_WORDS = frozenset(("document", "documents", "passage", "passages", "corpus"))


def arms_of(settings: EncoderSettings, own_prompts: dict[str, str]) -> dict[str, str]:
    """Prompt of each arm by name, the configured passage first; roles with one prompt share the first one's arm.

    Names: ``passage`` and ``query`` as configured, ``none``, ``model:<key>`` for a prompt that the model registers,
    and the quoted prompt itself for a commonly known one.
    """
    shared = shared_extra(settings.passage_extra, settings.query_extra)
    candidates = [(PASSAGE, settings.passage_arm), (QUERY, settings.query_arm), (NONE, as_arm("", shared))]
    candidates += [(f"model:{key}", as_arm(prompt, shared)) for key, prompt in sorted(own_prompts.items())]
    candidates += [(repr(prompt), as_arm(prompt, shared)) for prompt in KNOWN_PROMPTS]
    arms: dict[str, str] = {}
    for name, prompt in candidates:
        if prompt not in arms.values():
            arms[name] = prompt
    return arms


def accepted_arms(arms: dict[str, str], text: str, encode: Callable[[list[str], str], np.ndarray]) -> dict[str, str]:
    """The arms that the encoder takes, tried on one text: some servers refuse a request without a role's fields.

    The configured roles are not tried: where they are refused, nothing can be audited.
    """
    accepted = {}
    for name, arm in arms.items():
        if name not in (PASSAGE, QUERY):
            try:
                encode([text], arm)
            except RequestRefusedError:
                continue
        accepted[name] = arm
    return accepted


def prompt_not_applied(own_prompts: dict[str, str], never_applied: list[str], model: str) -> Finding | None:
    """The warning that a model registers a role prompt which its own API never puts before a text.

    ``never_applied`` are the role keys that neither ``encode`` nor ``encode_query`` nor ``encode_document`` selects.
    """
    if not never_applied:
        return None
    keys = ", ".join(repr(key) for key in never_applied)
    return Finding(
        code="prompt_not_applied",
        severity="warning",
        message=f"Model {model} registers a prompt under {keys}, which sentence-transformers never applies by itself.",
        remedy=(
            f"Pass the prompt explicitly, model.encode(texts, prompt_name={never_applied[0]!r}), wherever the "
            "application encodes, and write the same string in encoder.query_prompt or encoder.passage_prompt."
        ),
        n_compared=len(own_prompts),
        evidence={"keys": never_applied, "prompts": {key: own_prompts[key] for key in never_applied}},
    )


def never_selected(own_prompts: dict[str, str], default_key: str | None) -> list[str]:
    """Role keys of a model's configuration whose side of the search gets no prompt from its own API.

    ``encode_query`` looks up ``query`` only. ``encode_document`` takes the first present of document, passage, corpus,
    and ``document`` is always present, because the constructor seeds it with an empty prompt: a model that registers
    only ``passage`` gets none. Keys for other tasks (clustering, classification) are meant to be asked for by name.
    """
    if default_key in own_prompts:
        return []  # encode() itself puts that prompt before every text
    silent = []
    for key in own_prompts:
        words = set(re.split(r"[^a-z]+", key.lower()))
        if words & _QUERY_WORDS and "query" not in own_prompts:
            silent.append(key)
        if words & _DOCUMENT_WORDS and "document" not in own_prompts:
            silent.append(key)
    return sorted(set(silent))
