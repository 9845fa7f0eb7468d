"""Answers of an embeddings server that end a run. Which answers are asked for again is tested with the encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from audit_pipeline.encoder.openai_compatible import OpenAICompatibleEncoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.encoder.embedding_server import Reply, serving
from audit_pipeline_tests.messages.case import Case, World

KEY = "sk-test-0123456789"
URL = "http://127.0.0.1:…/v1/embeddings"


def server(*replies: Reply, key: str = KEY, **settings: Any) -> Callable[[World], object]:
    """The cause that is a server which answers five texts so, and then soundly."""

    def cause(world: World) -> None:
        without_proxies(world)
        world.patch.setenv("SOME_KEY", key)
        with serving() as running:
            running.replies = list(replies)
            encode(running.base_url, **settings)

    return cause


def encode(base_url: str, **settings: Any) -> None:
    encoder = OpenAICompatibleEncoder(
        EncoderSettings(
            kind="openai_compatible", model="small", base_url=base_url, api_key_env="SOME_KEY", retries=1, **settings
        ),
        sleep=lambda seconds: None,
    )
    for _ in range(2):
        encoder.encode([f"text number {i}" for i in range(5)])


def without_proxies(world: World) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        world.patch.delenv(name, raising=False)


def failing(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, lambda body: {"error": {"message": message, "code": code}}, named)


def no_server(world: World) -> None:
    without_proxies(world)
    encode("http://127.0.0.1:9/v1")


def of_two_dimensions(body: dict[str, Any]) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": [1.0, 2.0]} for i in range(len(body["input"]))]}


CASES = [
    Case(
        "a refused key, which is not repeated",
        server(failing(401, f"Incorrect key {KEY}")),
        f"encoder.api_key_env: {URL} answered 401 and the key in SOME_KEY is refused: set a valid key there",
    ),
    Case(
        "no key",
        server(failing(403), key=""),
        f"encoder.api_key_env: {URL} answered 403 and SOME_KEY is not set: set a valid key there",
    ),
    Case(
        "a key that no header may hold",
        server(key="sk-\u2026"),
        "encoder.api_key_env: the value of SOME_KEY is no key (it holds characters that no header may): set it again",
    ),
    Case(
        "an unknown model",
        server(failing(404, "model 'small' not found")),
        f"encoder.model: {URL} knows no such address or no model 'small' (404: model 'small' not found): "
        "correct encoder.base_url or encoder.model",
    ),
    Case(
        "texts that are too long for the server",
        server(failing(400, "maximum context length is 512 tokens")),
        f"encoder: {URL} refuses a request of 5 texts, the longest of 13 characters (400: maximum context length is "
        "512 tokens): where they are too long, split them or lower encoder.batch_size; else correct "
        "encoder.query_extra, passage_extra or dimensions",
    ),
    Case(
        "an account without money",
        server(failing(429, "pay", "insufficient_quota")),
        f"encoder.base_url: {URL} says that the account's quota is used up: add to it",
    ),
    Case(
        "an address that sends elsewhere",
        server(failing(302, "moved")),
        f"encoder.base_url: {URL} answered 302: moved: check that it is the address before /embeddings",
    ),
    Case(
        "a server that asks for a long wait",
        server(failing(429, "slow down", retry_after="3600")),
        f"encoder.base_url: {URL} asks to wait 3,600 seconds (it answered 429: slow down): run again then; what was "
        "encoded so far is kept",
    ),
    Case(
        "a server that stays out of memory",
        server(failing(500, "out of memory"), failing(500, "out of memory")),
        f"encoder.base_url: {URL} failed 2 times, at last because it answered 500: out of memory: look at the server's "
        "log; what was encoded so far is kept",
    ),
    Case(
        "a server that is too slow",
        server(Reply(seconds=0.3), Reply(seconds=0.3), timeout_seconds=0.1),
        f"encoder.base_url: {URL} failed 2 times, at last because no answer came within 0.1 seconds: raise "
        "encoder.timeout_seconds or lower encoder.batch_size; what was encoded so far is kept",
    ),
    Case(
        "no server at all",
        no_server,
        "encoder.base_url: http://127.0.0.1:9/v1/embeddings failed 2 times, at last because it cannot be reached "
        "(ConnectError): check the address and the server; what was encoded so far is kept",
    ),
    Case(
        "something else than an embeddings server",
        server(*[Reply(make=lambda body: b"<html>")] * 2),
        f"encoder.base_url: {URL} failed 2 times, at last because the answer is not JSON: check that the address is an "
        "embeddings server and look at its log; what was encoded so far is kept",
    ),
    Case(
        "other dimensions than asked for",
        server(dimensions=8),
        f"encoder.dimensions: {URL} gave vectors of 4 dimensions where encoder.dimensions asks for 8: correct the "
        "setting, or look at the server",
    ),
    Case(
        "other dimensions than before",
        server(Reply(), Reply(make=of_two_dimensions)),
        f"encoder.dimensions: {URL} gave vectors of 2 dimensions where it gave before 4: "
        "correct the setting, or look at the server",
    ),
    Case(
        "more tokens than the budget",
        server(token_budget=19),
        f"encoder.token_budget: about 20 tokens would have to be sent to {URL} after 0 of this run, more than the "
        "budget of 19: raise it, or audit less",
    ),
]
