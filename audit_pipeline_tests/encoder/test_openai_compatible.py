from __future__ import annotations

import base64
import datetime as dt
import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.arms import as_arm
from audit_pipeline.encoder import vector_store
from audit_pipeline.encoder.calibration import batch_dependence
from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder.openai_compatible import OpenAICompatibleEncoder
from audit_pipeline.encoder.pacing import Pace, backoff, retry_after
from audit_pipeline.encoder.protocol import RequestRefusedError, Spending
from audit_pipeline.encoder.roles import accepted_arms, arms_of
from audit_pipeline.encoder.vector_store import VectorStore
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline_tests.encoder.embedding_server import EmbeddingServer, Reply, serving, sound, vector_of

KEY = "sk-test-0123456789"
TEXTS = [f"text number {i}" for i in range(5)]


class Time:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with serving() as running:
        yield running


def settings_for(server: EmbeddingServer, **more: Any) -> EncoderSettings:
    return EncoderSettings(kind="openai_compatible", model="small", base_url=server.base_url, **more)


def encoder_for(server: EmbeddingServer, time: Time | None = None, **more: Any) -> OpenAICompatibleEncoder:
    time = time or Time()
    return OpenAICompatibleEncoder(settings_for(server, **more), sleep=time.sleep, clock=time.clock, jitter=lambda: 0.0)


def expected(texts: list[str], role: object = None) -> list[list[float]]:
    return [vector_of(text, role) for text in texts]


def failing(status: int, message: str = "no", code: str = "", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, lambda body: {"error": {"message": message, "code": code}}, named)


def test_a_request_holds_model_input_and_nothing_else(server: EmbeddingServer) -> None:
    vectors = encoder_for(server).encode(["a", "b"])
    assert server.bodies == [{"model": "small", "input": ["a", "b"]}]
    assert server.paths == ["/v1/embeddings"]
    assert server.authorizations == [f"Bearer {KEY}"]
    assert vectors.dtype == np.float32
    assert vectors.tolist() == expected(["a", "b"])


def test_prompt_dimensions_and_the_roles_fields_go_into_the_body(server: EmbeddingServer) -> None:
    encoder = encoder_for(server, dimensions=4, batch_size=2)
    vectors = encoder.encode(["a", "b", "c"], prompt=as_arm("query: ", {"input_type": "query", "truncate": False}))
    fields = {"model": "small", "dimensions": 4, "input_type": "query", "truncate": False}
    assert server.bodies == [{**fields, "input": ["query: a", "query: b"]}, {**fields, "input": ["query: c"]}]
    assert vectors.tolist() == expected(["query: a", "query: b", "query: c"], "query")


def test_without_a_key_no_authorization_is_sent(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    encoder_for(server).encode(["a"])
    assert server.authorizations == [None]


def test_answers_out_of_order_are_put_in_order_by_their_index(server: EmbeddingServer) -> None:
    server.replies = [Reply(make=lambda body: {"data": sound(body)["data"][::-1]})]
    assert encoder_for(server).encode(TEXTS).tolist() == expected(TEXTS)


def test_answers_without_any_index_are_taken_as_they_stand(server: EmbeddingServer) -> None:
    server.replies = [Reply(make=lambda body: {"data": [{"embedding": vector_of(text)} for text in body["input"]]})]
    assert encoder_for(server).encode(TEXTS).tolist() == expected(TEXTS)
    assert len(server.bodies) == 1  # a second answer would be a sound one


def test_vectors_in_base64_are_read_as_the_numbers_they_are(server: EmbeddingServer) -> None:
    def packed(body: dict[str, Any]) -> Any:
        answer = sound(body)
        for item in answer["data"]:
            item["embedding"] = base64.b64encode(struct.pack("<4f", *item["embedding"])).decode()
        return answer

    server.replies = [Reply(make=packed)]
    assert encoder_for(server).encode(TEXTS).tolist() == expected(TEXTS)
    assert len(server.bodies) == 1  # a second answer would be a sound one


def test_an_empty_text_is_sent_as_it_is(server: EmbeddingServer) -> None:
    assert encoder_for(server).encode(["", "a"]).tolist() == expected(["", "a"])
    assert server.bodies == [{"model": "small", "input": ["", "a"]}]


def without_last(body: dict[str, Any]) -> Any:
    return {"data": sound(body)["data"][:-1]}


def with_value(value: object) -> Any:
    def make(body: dict[str, Any]) -> Any:
        answer = sound(body)
        answer["data"][1]["embedding"][2] = value
        return answer

    return make


def with_index(value: object) -> Any:
    def make(body: dict[str, Any]) -> Any:
        answer = sound(body)
        answer["data"][1]["index"] = value
        return answer

    return make


def ragged(body: dict[str, Any]) -> Any:
    answer = sound(body)
    answer["data"][1]["embedding"].append(1.0)
    return answer


UNUSABLE = [
    (Reply(make=without_last), "it gave 4 vectors for 5 texts"),
    (Reply(make=with_value(float("nan"))), "a vector holds NaN or an infinite value"),
    (Reply(make=with_value(None)), "a vector holds NaN or an infinite value"),
    (Reply(make=with_value("x")), "a vector holds something else than numbers"),
    (Reply(make=lambda body: {"data": [{"embedding": "no base64!"}] * 5}), "a vector holds something else than numb"),
    (Reply(make=with_index(0)), "the 'index' of its items does not number the texts from 0"),
    (Reply(make=with_index(None)), "the 'index' of its items does not number the texts from 0"),
    (Reply(make=ragged), "the vectors of one answer have 4 and 5 dimensions"),
    (Reply(make=lambda body: {"data": [{"index": i} for i in range(5)]}), "no vector in 'embedding'"),
    (Reply(make=lambda body: {"vectors": []}), "the answer has no list 'data'"),
    (Reply(make=lambda body: b"<html>"), "the answer is not JSON"),
    (failing(500, "out of memory"), "it answered 500: out of memory"),
    (failing(503), "it answered 503"),
    (failing(429, "slow down"), "it answered 429: slow down"),
]


@pytest.mark.parametrize(("reply", "said"), UNUSABLE)
def test_what_may_pass_is_asked_again_and_told_in_one_sentence_if_it_stays(
    server: EmbeddingServer, reply: Reply, said: str
) -> None:
    server.replies = [reply]
    time = Time()
    assert encoder_for(server, time).encode(TEXTS).tolist() == expected(TEXTS)
    assert time.slept == [1.0]
    server.rule = lambda body: reply
    with pytest.raises(AuditInputError) as raised:
        encoder_for(server, retries=2).encode(TEXTS)
    message = str(raised.value)
    assert said in message
    assert "failed 3 times" in message
    assert server.base_url in message
    assert "what was encoded so far is kept" in message
    assert "\n" not in message


def test_a_slow_server_is_asked_again_after_the_timeout(server: EmbeddingServer) -> None:
    server.replies = [Reply(seconds=0.6)]
    time = Time()
    encoder = encoder_for(server, time, timeout_seconds=0.15)
    assert encoder.encode(["a"]).tolist() == expected(["a"])
    assert (time.slept, len(server.bodies)) == ([1.0], 2)
    server.replies = [Reply(seconds=0.6)]
    with pytest.raises(AuditInputError, match=r"no answer came within 0\.15 seconds: raise encoder\.timeout_seconds"):
        encoder_for(server, timeout_seconds=0.15, retries=0).encode(["a"])


def test_a_server_that_is_not_there_is_told_with_its_address() -> None:
    time = Time()
    gone = EmbeddingServer(base_url="http://127.0.0.1:9/v1")
    with pytest.raises(AuditInputError, match=r"http://127\.0\.0\.1:9/v1/embeddings failed 4 times.*cannot be reached"):
        encoder_for(gone, time, retries=3).encode(["a"])
    assert time.slept == [1.0, 2.0, 4.0]


FINAL = [
    (failing(401, f"Incorrect key {KEY}"), "the key in OPENAI_API_KEY is refused: set a valid key"),
    (failing(403), "answered 403 and the key in OPENAI_API_KEY is refused"),
    (
        failing(404, "model 'small' not found"),
        "encoder.model: {url} knows no such address or no model 'small' (404: mo",
    ),
    (failing(400, "maximum context length is 512 tokens"), "(400: maximum context length is 512 tokens): where they"),
    (failing(413), "refuses a request of 5 texts, the longest of 13 characters (413: no)"),
    (failing(429, "pay", "insufficient_quota"), "the account's quota is used up"),
    (failing(302, "moved"), "answered 302: moved: check that it is the address before /embeddings"),
]


@pytest.mark.parametrize(("reply", "said"), FINAL)
def test_what_will_not_pass_ends_the_run_at_once_with_one_sentence(
    server: EmbeddingServer, reply: Reply, said: str
) -> None:
    server.replies = [reply]
    time = Time()
    with pytest.raises(AuditInputError) as raised:
        encoder_for(server, time).encode(TEXTS)
    message = str(raised.value)
    assert said.format(url=f"{server.base_url}/embeddings") in message
    assert KEY not in message
    assert (len(server.bodies), time.slept) == (1, [])


def test_neither_the_key_nor_a_text_reaches_a_message_or_a_log(
    server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    secret_text = "the merger closes on friday at noon"
    caplog.set_level(logging.DEBUG)
    server.replies = [failing(500, f"cannot encode '{secret_text}'"), failing(500, f"bad key {KEY}"), failing(400, KEY)]
    with pytest.raises(RequestRefusedError) as raised:
        encoder_for(server).encode([secret_text])
    everything = caplog.text + str(raised.value)
    assert KEY not in everything
    assert "merger" not in everything
    assert "it answered 500; trying again" in everything


def test_retry_after_decides_the_wait(server: EmbeddingServer) -> None:
    server.replies = [failing(429, retry_after="7"), failing(503, retry_after="0.5"), failing(500)]
    time = Time()
    encoder_for(server, time).encode(["a"])
    assert time.slept == [7.0, 0.5, 4.0]


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    now = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert retry_after("Fri, 02 Jan 2026 03:04:35 GMT", now) == 30.0
    assert retry_after("Fri, 02 Jan 2026 03:04:00 GMT", now) == 0.0
    assert (retry_after("2", now), retry_after("soon", now), retry_after(None, now)) == (2.0, None, None)


def test_backoff_doubles_to_a_minute_and_jitter_halves_it_at_most() -> None:
    assert [backoff(attempt, 0.0) for attempt in (0, 1, 2, 9)] == [1.0, 2.0, 4.0, 60.0]
    assert backoff(2, 1.0) == 2.0


def test_requests_and_tokens_of_any_minute_stay_under_their_limits() -> None:
    time = Time()
    pace = Pace(2, None, time.sleep, time.clock)
    for _ in range(5):
        pace.wait(1)
    assert time.slept == [60.0, 60.0]
    time = Time()
    pace = Pace(None, 100, time.sleep, time.clock)
    for tokens in (60, 40, 1, 500):
        pace.wait(tokens)
    assert time.slept == [60.0, 60.0]


def test_spending_is_the_servers_count_or_an_estimate_that_says_so(server: EmbeddingServer) -> None:
    encoder = encoder_for(server, batch_size=2)
    server.replies = [failing(500), Reply(), Reply(make=lambda body: sound(body, usage=False))]
    encoder.encode(["12345678", "1234", "123456789"])
    assert encoder.spending == Spending(requests=3, texts=3, tokens=6 + 3, tokens_estimated=3)
    assert encoder.count_tokens(pa.array(["12345678", "123456789", "", None])).tolist() == [2, 3, 1, 1]


def test_a_budget_that_would_be_exceeded_stops_before_anything_is_sent(server: EmbeddingServer, tmp_path: Path) -> None:
    encoder = encoder_for(server, token_budget=19)
    with pytest.raises(AuditInputError, match=r"token_budget: about 20 tokens .* more than the budget of 19: raise it"):
        VectorStore(tmp_path).get_or_encode(encoder, "", TEXTS)
    assert server.bodies == []
    assert list(tmp_path.iterdir()) == []
    allowed = VectorStore(tmp_path).get_or_encode(encoder_for(server, token_budget=40), "", TEXTS)
    assert allowed.encoded == 5


def test_what_is_pending_is_said_without_a_request(server: EmbeddingServer, tmp_path: Path) -> None:
    store = VectorStore(tmp_path)
    pending = store.pending(encoder_for(server), "", TEXTS)
    assert (pending.missing, pending.tokens, server.bodies) == (5, 20, [])
    store.get_or_encode(encoder_for(server), "", TEXTS[:3])
    sent = len(server.bodies)
    assert store.pending(encoder_for(server), "", TEXTS).missing == 2
    assert len(server.bodies) == sent


def test_a_query_is_never_served_from_a_passages_vector(server: EmbeddingServer, tmp_path: Path) -> None:
    encoder, store = encoder_for(server), VectorStore(tmp_path)
    query, passage = as_arm("", {"input_type": "query"}), as_arm("", {"input_type": "document"})
    stored = store.get_or_encode(encoder, passage, TEXTS)
    asked = store.get_or_encode(encoder, query, TEXTS)
    plain = store.get_or_encode(encoder, "", TEXTS)
    assert stored.vectors.tolist() == expected(TEXTS, "document")
    assert asked.vectors.tolist() == expected(TEXTS, "query")
    assert plain.vectors.tolist() == expected(TEXTS)
    assert (stored.encoded, asked.encoded, plain.encoded) == (5, 5, 5)
    assert store.get_or_encode(encoder, query, TEXTS).from_cache == 5


def test_a_run_that_fails_keeps_what_was_encoded(
    server: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_store, "BLOCK_TEXTS", 2)
    store = VectorStore(tmp_path)
    server.replies = [Reply(), Reply(), Reply(), failing(401)]  # the dimension, two blocks of two, then no more
    with pytest.raises(AuditInputError, match="401"):
        store.get_or_encode(encoder_for(server), "", TEXTS)
    again = VectorStore(tmp_path).get_or_encode(encoder_for(server), "", TEXTS)
    assert (again.from_cache, again.encoded) == (4, 1)
    assert again.vectors.tolist() == expected(TEXTS)


def test_vectors_belong_to_address_model_dimensions_and_shared_fields(server: EmbeddingServer) -> None:
    key = encoder_for(server).cache_key
    both = {"query_extra": {"output_dimension": 4}, "passage_extra": {"output_dimension": 4}}
    role = {"query_extra": {"input_type": "query"}, "passage_extra": {"input_type": "document"}}
    assert encoder_for(server, batch_size=1, retries=0, max_tokens=100, **role).cache_key == key
    assert encoder_for(server, dimensions=4).cache_key != key
    assert encoder_for(server, **both).cache_key != key
    assert encoder_for(server).identity.cache_key == key


def test_a_server_whose_vectors_depend_on_the_batch_is_seen(server: EmbeddingServer, tmp_path: Path) -> None:
    assert batch_dependence(encoder_for(server), VectorStore(tmp_path / "sound"), TEXTS, "") == 0.0

    def padded(body: dict[str, Any]) -> dict[str, Any]:
        answer = sound(body)
        for item in answer["data"]:
            item["embedding"][0] += 50.0 * (len(body["input"]) - 1)
        return answer

    server.rule = lambda body: Reply(make=padded)
    assert batch_dependence(encoder_for(server), VectorStore(tmp_path / "padded"), TEXTS, "") > 0.01


def test_arms_without_a_roles_fields_are_left_out_where_the_server_refuses_them(server: EmbeddingServer) -> None:
    settings = settings_for(
        server, query_extra={"input_type": "query", "dim": 4}, passage_extra={"input_type": "passage", "dim": 4}
    )
    arms = arms_of(settings, {})
    assert arms["none"] == as_arm("", {"dim": 4})
    encoder = OpenAICompatibleEncoder(settings)
    server.rule = lambda body: Reply() if "input_type" in body else failing(422, "input_type is required")
    accepted = accepted_arms(arms, "a", lambda texts, arm: encoder.encode(texts, prompt=arm))
    assert accepted == {"passage": settings.passage_arm, "query": settings.query_arm}


def test_the_settings_load_this_encoder_with_its_fields(server: EmbeddingServer) -> None:
    encoder = load_encoder(settings_for(server, passage_extra={"input_type": "document"}))
    assert encoder is not None
    assert encoder.dimension == 4
    assert server.bodies == [{"model": "small", "input": ["dimension"], "input_type": "document"}]
