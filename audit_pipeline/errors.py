"""The exceptions that decide an exit code. Anything else that is raised is a defect of this project."""

from __future__ import annotations

import re

from audit_pipeline.uris import without_credentials

_QUOTED_ROW = re.compile(r"(Expected \d+ columns, got \d+): .*")
_LONGEST_REASON = 200


class AuditInputError(Exception):
    """Settings or input cannot be used (exit 2).

    The message is one sentence that says what is wrong, where, and what to do about it; credentials of URIs are hidden
    in it, whoever repeated them.
    """

    def __str__(self) -> str:
        return without_credentials(super().__str__())


class BatchInputError(AuditInputError):
    """One batch cannot be brought in as it is now: the others go on without it, and the command ends with exit 2."""


class SelfCheckError(Exception):
    """The audit found its own measuring instrument broken (exit 3): no figure of this run may be published."""


class StoppedError(BaseException):
    """Somebody stopped the command by a signal (exit 3). No Exception: whoever handles failures lets it pass."""


def reason_of(error: BaseException) -> str:
    """A library's error for use inside a sentence: its first line, short, without credentials and without the row that
    Arrow's CSV reader quotes: corpus text belongs in no message.
    """
    lines = str(error).strip().splitlines()
    return without_credentials(_QUOTED_ROW.sub(r"\1", lines[0]))[:_LONGEST_REASON] if lines else type(error).__name__
