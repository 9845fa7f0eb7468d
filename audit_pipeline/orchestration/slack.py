"""One post to a Slack channel by dagster-slack, the optional extra. The token stands in no error and no log line."""

import importlib.util
import re
import threading
import urllib.error
import uuid
from typing import Any

from audit_pipeline.alert_settings import SlackSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline.webhook import NotPostedError, refusal

_REMEDIES = {
    "not_in_channel": "invite the app to the channel",
    "channel_not_found": "correct alerts.slack.channel, or invite the app where the channel is private",
    "is_archived": "name another channel in alerts.slack.channel",
    "missing_scope": "give the app the scope chat:write and install it anew",
    **dict.fromkeys(
        ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"), "put a valid token there"
    ),
}
_MAY_HAVE_ARRIVED = ("fatal_error", "internal_error", "request_timeout", "service_unavailable")
"""Refusals of which Slack says itself that a part of the request may have been carried out."""


def refuse_missing_extra() -> None:
    """Raise AuditInputError where dagster-slack is not installed. Loads nothing."""
    if importlib.util.find_spec("dagster_slack") is None:
        raise AuditInputError(
            "alerts.slack: dagster-slack is not installed: install the extra by pip install 'audit-pipeline[slack]' "
            "wherever Dagster's code runs, or use alerts.webhook_env, which needs none"
        )


def post_to_channel(slack: SlackSettings, token: str, body: dict[str, Any], key: str, seconds: float) -> None:
    """Post a body of ``text`` and ``blocks``, once, within so many seconds in all.

    ``key`` becomes the message's client_msg_id, by which Slack knows a second attempt at one message. Raises
    NotPostedError where Slack did not take it.
    """
    client = slack_client(slack, token, seconds)
    failures: list[NotPostedError] = []

    def send() -> None:
        try:
            client.chat_postMessage(
                channel=slack.channel,
                client_msg_id=str(uuid.uuid5(uuid.NAMESPACE_OID, key)),
                unfurl_links=False,
                unfurl_media=False,
                **body,
            )
        except Exception as error:
            failures.append(_refusal(error))

    # The client's own time limit is for each step of the connection, and a server may answer letter by letter.
    thread = threading.Thread(target=send, daemon=True, name="post to Slack")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise NotPostedError(f"no answer came within {seconds:g} seconds", unanswered=True)
    if failures:
        raise failures[0]


def slack_client(slack: SlackSettings, token: str, seconds: float) -> Any:
    """dagster-slack's client for that server, which makes each request once: what is tried again is decided here."""
    from dagster_slack import SlackResource

    client: Any = SlackResource(token=token).get_client()
    client.base_url = slack.base_url.rstrip("/") + "/"
    client.timeout = seconds
    client.retry_handlers = []
    return client


def _refusal(error: Exception) -> NotPostedError:
    response = getattr(error, "response", None)
    if response is not None:
        return _answer(response.status_code, response.headers, response.get("error"))
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return NotPostedError("no answer came in time", unanswered=True)
    # What no server can have read: nobody listens, no such host, no trust in its certificate.
    if type(reason).__name__ in ("ConnectionRefusedError", "gaierror", "SSLCertVerificationError"):
        return NotPostedError("no connection could be made")
    return NotPostedError(f"the connection broke ({type(reason).__name__})", unanswered=True)


def _answer(status: int, headers: dict[str, str], word: object) -> NotPostedError:
    """What an answer that is not ok means; of its body nothing but one of Slack's words is told."""
    known = str(word) if re.fullmatch(r"[a-z][a-z_]{2,60}", str(word)) else ""
    if status != 200:
        return refusal(status, known, next((v for k, v in headers.items() if k.lower() == "retry-after"), None))
    if not known:
        return NotPostedError("what answered is not Slack: correct alerts.slack.base_url, or look at the proxy")
    remedy = f": {_REMEDIES[known]}" if known in _REMEDIES else ""
    return NotPostedError(f"Slack refused it ({known}){remedy}", unanswered=known in _MAY_HAVE_ARRIVED)
