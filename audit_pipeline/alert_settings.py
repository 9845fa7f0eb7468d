"""The settings of alerts: fields, defaults, and what is muted until when. Nothing is judged or sent here."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from audit_pipeline.findings import (
    ERROR_CODES,
    INFO_CODES,
    SEVERITIES_OF_AMBIGUOUS_CODES,
    WARNING_CODES,
    severities_of,
)
from audit_pipeline.settings_base import Settings
from audit_pipeline.spelling import did_you_mean
from audit_pipeline.uris import holds_credentials

TOLD_CHECKS = (
    "no_rows_rejected",
    "batch_keeps_rows",
    "vectors_can_be_written",
    "table_holds_batch",
    "covers_all_batches",
    "no_failed_batches",
)
"""Checks that are told beside the findings: of what they say, no finding need speak."""

_MUTABLE = sorted({*ERROR_CODES, *WARNING_CODES, *INFO_CODES, *SEVERITIES_OF_AMBIGUOUS_CODES, *TOLD_CHECKS})
_SCOPES = ("source", "ingestion_date", "length_band")


class MuteSettings(Settings):
    """What is not told for a while."""

    code: str = Field(description="Finding code, or the name of a check on batches.")
    scope: dict[str, str] = Field(
        default_factory=dict,
        description=(
            "Only where it stands so: {source: 'legacy-*', ingestion_date: '2026-01-*'}, wildcards as in file names, "
            "case does not matter; checks call a source by its partition key. Default: everywhere, in new batches too."
        ),
    )
    severity: Literal["warning", "error"] | None = Field(
        default=None, description="Only findings that are so severe: a muted warning that turns to an error is told."
    )
    until: dt.date = Field(description="Last day on which it is not told (UTC). What still stands then is told.")
    reason: str = Field(min_length=1, description="Why; the report shows it.")

    @field_validator("code")
    @classmethod
    def _known_code(cls, code: str) -> str:
        if code not in _MUTABLE:
            raise ValueError(
                f"{code!r} is neither a finding code nor a check on batches{did_you_mean(code, _MUTABLE)}: correct it"
            )
        return code

    @field_validator("scope")
    @classmethod
    def _known_scope(cls, scope: dict[str, str]) -> dict[str, str]:
        for key in scope:
            if key not in _SCOPES:
                raise ValueError(f"{key!r} is no part of a finding's scope; use one of {', '.join(_SCOPES)}")
        return scope

    @model_validator(mode="after")
    def _can_be_so_severe(self) -> MuteSettings:
        if self.severity is not None and self.severity not in _severities(self.code):
            known = " or ".join(_severities(self.code)) or "neither warning nor error"
            raise ValueError(f"severity: {self.code} is {known}, so this would mute nothing: correct or remove it")
        return self

    def covers(self, code: str, scope: Mapping[str, Any], day: dt.date, severity: str | None) -> bool:
        """Whether it mutes this code at this scope and severity on this day. A wider scope is not muted."""
        return (
            code == self.code
            and self.severity in (None, severity)
            and day <= self.until
            and all(
                key in scope
                and fnmatchcase(("(none)" if scope[key] is None else str(scope[key])).lower(), pattern.lower())
                for key, pattern in self.scope.items()
            )
        )


def _severities(code: str) -> list[str]:
    """What findings of the code can be, but for info; nothing for a check, which has no severity."""
    return [] if code in TOLD_CHECKS else sorted(severities_of(code) - {"info"})


class SlackSettings(Settings):
    """A channel of Slack that a bot posts to, by dagster-slack (the extra `slack`)."""

    channel: str = Field(min_length=1, description="Channel by name or id, such as '#search' or C0123456789.")
    token_env: str = Field(
        description="Environment variable that holds the bot's token (scope chat:write), a secret: never the token."
    )
    base_url: str = Field(default="https://slack.com/api/", description="Slack's Web API; GovSlack has another.")

    @field_validator("token_env")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return _name_of_variable(name, "token", "SLACK_BOT_TOKEN")

    @field_validator("base_url")
    @classmethod
    def _keeps_the_token_to_itself(cls, url: str) -> str:
        address = urlsplit(url)
        here = address.scheme == "http" and address.hostname in ("127.0.0.1", "::1", "localhost")
        if not address.hostname or not (address.scheme == "https" or here):
            raise ValueError(
                "the token is sent there, so it should be an https:// address, or http:// on this machine: correct it"
            )
        return url


class AlertSettings(Settings):
    """Where news of the index are posted."""

    webhook_env: str | None = Field(
        default=None,
        description="Environment variable that holds the webhook's address, which is a secret: never the address.",
    )
    slack: SlackSettings | None = Field(default=None, description="A channel that a bot posts to, not a webhook.")
    report_url: str | None = Field(
        default=None,
        description="Where the readers of the news open this index's report, such as "
        "https://search.example/reports/handbook/audit.html. Default: its path on the machine that audits.",
    )
    mute: list[MuteSettings] = Field(default_factory=list, description="What is not told, until when and why.")
    every_seconds: int = Field(default=60, ge=1, description="Least time from one look to the next.")
    timeout_seconds: float = Field(
        default=10, gt=0, le=45, description="Longest wait for an answer to a post; a look is ended after 60 seconds."
    )

    @field_validator("report_url")
    @classmethod
    def _can_be_opened(cls, url: str | None) -> str | None:
        if url is None:
            return None
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname or set(url) & set("<>| \t\n"):
            raise ValueError(
                "this is no address that a browser opens, such as https://search.example/reports/handbook/audit.html: "
                "correct it"
            )
        if holds_credentials(url):
            raise ValueError("it holds credentials, which each message would repeat: write the address without them")
        return url

    @field_validator("webhook_env")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        return None if name is None else _name_of_variable(name, "address", "SLACK_WEBHOOK_URL")

    @model_validator(mode="after")
    def _has_one_place(self) -> AlertSettings:
        if (self.webhook_env is None) == (self.slack is None):
            many = "none is set" if self.slack is None else "both are set, and each thing is told once"
            raise ValueError(f"webhook_env or slack says where news are posted, but {many}: name one of the two")
        return self

    @property
    def secret_env(self) -> str:
        """The environment variable that holds the address or the token."""
        return self.slack.token_env if self.slack is not None else str(self.webhook_env)

    @property
    def field_of_secret(self) -> str:
        """The field of the settings that names that variable."""
        return "alerts.slack.token_env" if self.slack is not None else "alerts.webhook_env"

    @property
    def place(self) -> str:
        """Where it is posted, in words that hold no secret."""
        if self.slack is not None:
            return f"Slack's channel {self.slack.channel}"
        return f"the webhook in {self.webhook_env}"


def _name_of_variable(name: str, secret: str, such_as: str) -> str:
    # The value is not repeated: whoever made this mistake has written the secret itself.
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(
            f"this is no name of an environment variable: set the {secret} in the environment and write the "
            f"variable's name here, such as {such_as}"
        )
    return name
