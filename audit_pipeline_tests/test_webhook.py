"""A post to a server on the loopback: taken, refused, slow, sent elsewhere; and the address that nobody may read."""

from __future__ import annotations

import datetime as dt
import logging
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import format_datetime
from typing import Any

import pytest

from audit_pipeline.webhook import NotPostedError, post
from audit_pipeline_tests.encoder.embedding_server import EmbeddingServer, Reply, serving

SECRET = "T0SECRET0PATH"
BODY = {"text": "news", "blocks": []}


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serving() as running:
        running.rule = lambda body: Reply(make=lambda _: b"ok")
        yield running


def address(server: EmbeddingServer) -> str:
    return f"{server.base_url}/{SECRET}"


def refused(where: str, seconds: float = 5) -> NotPostedError:
    with pytest.raises(NotPostedError) as caught:
        post(where, BODY, "k1", seconds)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return caught.value


@contextmanager
def dribbling() -> Iterator[str]:
    """A server that sends one letter of its answer every tenth of a second, for ever."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
                while not ended.wait(0.1):
                    try:
                        connection.sendall(b"a")
                    except OSError:
                        return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/{SECRET}"
        ended.set()
        thread.join()


def test_a_post_is_json_with_its_key(server: EmbeddingServer) -> None:
    post(address(server), BODY, "k1", 5)
    assert (server.bodies, server.keys, server.paths) == ([BODY], ["k1"], [f"/v1/{SECRET}"])


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_an_answer_that_is_no_success_is_an_error(server: EmbeddingServer, status: int) -> None:
    server.replies = [Reply(status, make=lambda _: b"invalid_payload")]
    error = refused(address(server))
    assert (str(error), error.unanswered, error.rest) == (f"it answered {status} (invalid_payload)", False, 0.0)
    assert len(server.bodies) == 1  # no second attempt by itself


@pytest.mark.parametrize("body", [b"", b"Bad gateway", b"<html>", b"no_service and more", b"a" * 10_000, b"\xff\xfe"])
def test_of_an_answer_nothing_is_told_but_a_word_of_slack(server: EmbeddingServer, body: bytes) -> None:
    server.replies = [Reply(400, make=lambda _: body)]
    assert str(refused(address(server))) == "it answered 400"


def test_a_gateway_that_gave_up_may_have_handed_the_post_on(server: EmbeddingServer) -> None:
    server.replies = [Reply(504, make=lambda _: b"")]
    assert refused(address(server)).unanswered


def in_two_minutes() -> str:
    return format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(minutes=2), usegmt=True)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("30", 30), ("0", 0), ("-5", 0), ("soon", 0), ("nan", 0), ("inf", 0), ("999999", 3600), (in_two_minutes, 120)],
)
def test_how_long_a_server_asks_to_be_left_alone(server: EmbeddingServer, header: Any, seconds: float) -> None:
    value = header if isinstance(header, str) else header()
    server.replies = [Reply(429, make=lambda _: b"", headers={"Retry-After": value})]
    assert refused(address(server)).rest == pytest.approx(seconds, abs=3)


def test_a_redirect_is_not_followed(server: EmbeddingServer) -> None:
    with serving() as other:
        server.replies = [Reply(307, make=lambda _: b"", headers={"Location": f"{other.base_url}/{SECRET}"})]
        error = refused(address(server))
        assert (str(error), error.unanswered) == ("it answered 307, a redirect, which is not followed", False)
        assert other.bodies == []


def test_a_slow_answer_ends_in_time_and_may_have_arrived(server: EmbeddingServer) -> None:
    server.replies = [Reply(make=lambda _: b"ok", seconds=1.0)]
    error = refused(address(server), 0.2)
    assert (str(error), error.unanswered) == ("no answer came within 0.2 seconds", True)


def test_an_answer_that_comes_letter_by_letter_ends_in_time_too() -> None:
    with dribbling() as where:
        begun = time.monotonic()
        assert refused(where, 0.5).unanswered
        assert time.monotonic() - begun < 2


def test_where_nobody_listens_nothing_was_sent() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        error = refused(f"http://127.0.0.1:{free.getsockname()[1]}/{SECRET}")
    assert (str(error), error.unanswered) == ("no connection could be made", False)


def test_a_connection_that_breaks_may_have_carried_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True)
        thread.start()
        error = refused(f"http://127.0.0.1:{listener.getsockname()[1]}/{SECRET}")
        thread.join()
    assert error.unanswered


@pytest.mark.parametrize("text", [SECRET, f"ftp://host/{SECRET}", f"http:///{SECRET}", f"http://h:p/{SECRET}"])
def test_what_is_no_address_is_not_repeated(text: str) -> None:
    assert str(refused(text)) == "the variable holds no http(s) address"


def test_no_log_line_of_any_library_holds_the_address(
    server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (None, "httpx", "httpcore", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name)
    post(address(server), BODY, "k1", 5)
    assert caplog.text
    assert SECRET not in caplog.text


def test_the_proxy_of_the_environment_is_used(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.base_url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "")
    post(f"http://hooks.invalid/{SECRET}", BODY, "k1", 5)
    assert server.paths == [f"http://hooks.invalid/{SECRET}"]
