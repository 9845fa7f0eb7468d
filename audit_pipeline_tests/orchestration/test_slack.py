"""Alerts by a bot in a Slack channel: by a client of the same form, and by dagster-slack against a local server."""

from __future__ import annotations

import json
import time
import traceback
import urllib.error
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration import slack
from audit_pipeline.orchestration.alerts import alert_sensors
from audit_pipeline.report.audit_json import public_settings
from audit_pipeline.webhook import NotPostedError
from audit_pipeline_tests.encoder.embedding_server import EmbeddingServer, Reply, serving
from audit_pipeline_tests.orchestration.test_alerts import publish, tick
from audit_pipeline_tests.report.test_alerts import LATE
from audit_pipeline_tests.stages.test_discovery import two_sources, write

TOKEN = "xoxb-T0-SECRET"
VARIABLE = "SMALL_BOT_TOKEN"


class RefusedError(Exception):
    """As slack_sdk's SlackApiError: its text holds the whole answer."""

    def __init__(self, status: int, headers: dict[str, str], **data: Any) -> None:
        super().__init__(f"{TOKEN} {data}")
        self.response = SimpleNamespace(status_code=status, headers=headers, get=data.get)


class Client:
    """As slack_sdk's WebClient: takes messages, or does as ``faults`` say in turn."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.faults: list[Exception | float] = []

    def chat_postMessage(self, *, channel: str, **message: Any) -> None:  # noqa: N802
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        time.sleep(fault or 0.0)
        self.posts.append({"channel": channel, **message})


def settings_at(folder: Path, **slack: Any) -> IndexAuditSettings:
    for source in "ab":
        write(folder, source, {"2026-01-02": f"of {source}"})
    channel = {"channel": "#search", "token_env": VARIABLE, **slack}
    return two_sources(folder, alerts={"slack": channel, "timeout_seconds": 2}).settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexAuditSettings:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))
    monkeypatch.setenv(VARIABLE, f"{TOKEN}\n")
    return settings_at(tmp_path)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()

    def of(channel: object, token: str, seconds: float) -> Client:
        assert token == TOKEN
        return made

    monkeypatch.setattr(slack, "slack_client", of)
    monkeypatch.setattr(slack, "refuse_missing_extra", lambda: None)
    monkeypatch.setattr("audit_pipeline.orchestration.alerts.refuse_missing_extra", lambda: None)
    return made


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def post(settings: IndexAuditSettings, seconds: float = 2) -> None:
    assert settings.alerts is not None
    assert settings.alerts.slack is not None
    slack.post_to_channel(settings.alerts.slack, TOKEN, {"text": "news", "blocks": []}, "k1", seconds)


def refusal(settings: IndexAuditSettings, seconds: float = 2) -> NotPostedError:
    with pytest.raises(NotPostedError) as caught:
        post(settings, seconds)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
    return caught.value


def test_a_channel_is_told_what_a_webhook_is_told_and_once(
    settings: IndexAuditSettings, client: Client, instance: dg.DagsterInstance
) -> None:
    publish()
    assert [tick(settings, instance) for _ in range(2)] == ["told 0 things", "nothing is new"]
    publish(LATE)
    assert [tick(settings, instance) for _ in range(2)] == ["told 1 thing", "nothing is new"]
    assert [(one["channel"], one["text"]) for one in client.posts] == [
        ("#search", "small: alerts are on; what stands now: no error, no warning"),
        ("#search", "small: 1 new error"),
    ]
    assert "source late" in json.dumps(client.posts[1]["blocks"])


def test_a_post_that_may_have_arrived_is_made_again_under_the_same_id_and_says_so(
    settings: IndexAuditSettings, client: Client, instance: dg.DagsterInstance
) -> None:
    publish()
    tick(settings, instance)
    publish(LATE)
    seen = client.chat_postMessage

    def lost(**message: Any) -> None:
        seen(**message)
        raise TimeoutError

    client.chat_postMessage = lost  # type: ignore[method-assign]
    with pytest.raises(NotPostedError, match="not posted to Slack's channel #search: no answer came in time; the next"):
        tick(settings, instance)
    client.chat_postMessage = seen  # type: ignore[method-assign]
    assert tick(settings, instance) == "told 1 thing"
    first, second = client.posts[1:]
    assert first["client_msg_id"] == second["client_msg_id"] != client.posts[0]["client_msg_id"]
    assert str(uuid.UUID(first["client_msg_id"])) == first["client_msg_id"]
    assert "may stand above already" in json.dumps(second["blocks"])


@pytest.mark.parametrize(
    ("fault", "told", "unanswered", "rest"),
    [
        (RefusedError(200, {}, error="not_in_channel"), "Slack refused it (not_in_channel): invite the app", False, 0),
        (
            RefusedError(200, {}, error="invalid_auth"),
            "Slack refused it (invalid_auth): put a valid token there",
            False,
            0,
        ),
        (RefusedError(200, {}, error="invalid_blocks"), "Slack refused it (invalid_blocks)", False, 0),
        (RefusedError(200, {}, error="fatal_error"), "Slack refused it (fatal_error)", True, 0),
        (RefusedError(200, {}, error="Received <html>"), "what answered is not Slack: correct", False, 0),
        (
            RefusedError(429, {"retry-after": "30"}, error="ratelimited"),
            "it answered 429 (ratelimited) and asks",
            False,
            30,
        ),
        (RefusedError(503, {}, error=f"{TOKEN}"), "it answered 503", False, 0),
        (urllib.error.URLError(ConnectionRefusedError()), "no connection could be made", False, 0),
        (urllib.error.URLError(TimeoutError()), "no answer came in time", True, 0),
        (ConnectionResetError(TOKEN), "the connection broke (ConnectionResetError)", True, 0),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_what_was_not_taken_says_why_and_whether_it_may_have_arrived(
    settings: IndexAuditSettings, client: Client, fault: Exception, told: str, unanswered: bool, rest: float
) -> None:
    client.faults = [fault]
    error = refusal(settings)
    assert str(error).startswith(told)
    assert (error.unanswered, error.rest) == (unanswered, rest)


def test_a_client_that_does_not_come_back_is_given_up_in_time(settings: IndexAuditSettings, client: Client) -> None:
    client.faults = [1.0]
    begun = time.monotonic()
    error = refusal(settings, 0.1)
    assert time.monotonic() - begun < 0.9
    assert (str(error), error.unanswered) == ("no answer came within 0.1 seconds", True)


def test_the_token_stands_nowhere(
    settings: IndexAuditSettings, client: Client, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    publish(LATE)
    tick(settings, instance)
    (sensor,) = alert_sensors(settings)
    kept = [str(sensor.description), json.dumps(public_settings(settings))]
    kept += [path.read_text(errors="replace") for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert len(kept) > 3
    assert not any(TOKEN in text for text in kept)


# With dagster-slack


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """chat.postMessage as Slack answers it."""
    pytest.importorskip("dagster_slack", reason="the extra 'slack' is not installed")
    with serving() as running:
        running.rule = lambda body: Reply(
            make=lambda sent: {"ok": True, "channel": "C01", "ts": "1.2", "message": sent}
        )
        yield running


def test_dagster_slack_posts_to_a_server_that_speaks_slack(
    server: EmbeddingServer,
    settings: IndexAuditSettings,
    instance: dg.DagsterInstance,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = settings_at(tmp_path, base_url=server.base_url.replace("/v1", "/api"))
    publish(LATE)
    with caplog.at_level(0):
        assert [tick(here, instance), tick(here, instance)] == ["told 1 thing", "nothing is new"]
    assert (server.paths, server.authorizations) == (["/api/chat.postMessage"], [f"Bearer {TOKEN}"])
    (body,) = server.bodies
    assert (body["channel"], body["text"]) == ("#search", "small: alerts are on; what stands now: 1 error")
    assert [block["type"] for block in body["blocks"]] == ["header", "section", "context"]
    assert (body["unfurl_links"], body["unfurl_media"]) == (False, False)
    assert TOKEN not in caplog.text

    server.replies = [
        Reply(429, make=lambda _: {"ok": False, "error": "ratelimited"}, headers={"Retry-After": "30"}),
        Reply(make=lambda _: {"ok": False, "error": "channel_not_found"}),
        Reply(make=lambda _: b"<html>a portal</html>"),
        Reply(500, make=lambda _: b"oops"),
        Reply(make=lambda _: {"ok": True}, seconds=1.0),
    ]
    errors = [refusal(here), refusal(here), refusal(here), refusal(here), refusal(here, 0.3)]
    assert [(str(error).split(":")[0], error.unanswered, error.rest) for error in errors] == [
        ("it answered 429 (ratelimited) and asks for a rest of 30 seconds", False, 30.0),
        ("Slack refused it (channel_not_found)", False, 0.0),
        ("what answered is not Slack", False, 0.0),
        ("it answered 500", False, 0.0),
        ("no answer came within 0.3 seconds", True, 0.0),
    ]
    assert len(server.bodies) == 6  # none was tried again by the client itself
    assert len({body["client_msg_id"] for body in server.bodies[1:]}) == 1


def test_dagster_slack_finds_nobody_there(
    server: EmbeddingServer, settings: IndexAuditSettings, tmp_path: Path
) -> None:
    error = refusal(settings_at(tmp_path, base_url="http://127.0.0.1:1/api/"))
    assert (str(error), error.unanswered) == ("no connection could be made", False)
