"""Commits to the managed table beside those of other writers. What is committed is not told here."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import TypeVar

from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.connection import first_line

KEEP_VERSIONS = dt.timedelta(days=36_500)
"""Removing old versions is for the table's owner to decide."""
_ATTEMPTS = 5

T = TypeVar("T")


def with_retries(work: Callable[[], T]) -> T:
    """Run ``work`` again where another writer committed in between; it reads the table anew each time."""
    for attempt in range(_ATTEMPTS):
        try:
            return work()
        except (OSError, RuntimeError, ValueError) as error:
            text = str(error).lower()
            conflict = "conflict" in text or "already exists" in text
            if not conflict:
                raise
            if attempt == _ATTEMPTS - 1:
                raise AuditInputError(
                    f"index.table: another writer keeps changing the table ({first_line(error)}): stop it and run again"
                ) from error
            time.sleep(0.1 * 2**attempt)
    raise RuntimeError("not reached: the loop returns or raises")
