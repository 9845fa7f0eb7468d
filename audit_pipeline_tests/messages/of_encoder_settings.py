"""Mistakes in the attributes of the encoder. What it answers wrongly stands in of_encoder.py and of_server.py."""

# ruff: noqa: E501

from __future__ import annotations

from audit_pipeline_tests.messages.attributes import NAME, SOURCES, Mistake, cases

MISTAKES: list[Mistake] = [
    (
        "an encoder without a model",
        NAME + SOURCES + "  encoder: {kind: sentence_transformers}\n",
        "encoder: kind sentence_transformers needs 'model': name a model, or set kind to none",
    ),
    (
        "managed without an encoder",
        NAME + SOURCES + "  encoder: {kind: none}\n",
        "encoder: a managed index needs one: name its kind, or set index.managed to false",
    ),
    (
        "a server without its address",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, model: m}\n",
        "encoder: kind openai_compatible needs 'base_url', an http(s) address without user, query or fragment and with a number as its port: write it as https://api.openai.com/v1",
    ),
    (
        "a server's address that holds a password",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, model: m, base_url: 'https://me:secret@host/v1'}\n",
        "encoder: kind openai_compatible needs 'base_url', an http(s) address without user, query or fragment and with a number as its port: write it as https://api.openai.com/v1",
    ),
    (
        "a server's address with a query",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, model: m, base_url: 'https://host/v1?key=1'}\n",
        "encoder: kind openai_compatible needs 'base_url', an http(s) address without user, query or fragment and with a number as its port: write it as https://api.openai.com/v1",
    ),
    (
        "a server's address whose port is no number",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, model: m, base_url: 'http://host:marked/v1'}\n",
        "encoder: kind openai_compatible needs 'base_url', an http(s) address without user, query or fragment and with a number as its port: write it as https://api.openai.com/v1",
    ),
    (
        "a server without a model",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, base_url: 'https://host/v1'}\n",
        "encoder: kind openai_compatible needs 'model': name a model, or set kind to none",
    ),
    (
        "a server's address for a model that runs here",
        NAME + SOURCES + "  encoder: {model: m, base_url: 'https://host/v1'}\n",
        "encoder: 'base_url' belongs to kind openai_compatible: remove it or change the kind",
    ),
    (
        "a server's setting for a model that runs here",
        NAME + SOURCES + "  encoder: {model: m, retries: 3}\n",
        "encoder: 'retries' belongs to kind openai_compatible: remove it or change the kind",
    ),
    (
        "a request's own field in the further ones",
        NAME
        + SOURCES
        + "  encoder: {kind: openai_compatible, model: m, base_url: 'https://h/v1', query_extra: {model: x}}\n",
        "encoder: 'query_extra' may not hold 'model': remove it, the request has it from elsewhere",
    ),
    (
        "a key in the settings",
        NAME
        + SOURCES
        + "  encoder: {kind: openai_compatible, model: m, base_url: 'https://h/v1', passage_extra: {api_key: sk-1}}\n",
        "encoder: 'passage_extra' may not hold 'api_key': set the key in the environment (encoder.api_key_env)",
    ),
]

CASES = cases(MISTAKES)
