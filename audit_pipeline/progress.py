"""Progress of long stages as log lines, for terminal and Dagster log alike. No stage reports its results here."""

from __future__ import annotations

import logging
import time

LOGGER = logging.getLogger("audit_pipeline")
SECONDS_BETWEEN_LINES = 5.0


class LoggedProgress:
    """A Progress callback that logs at most one line every few seconds, and never for what is done at once."""

    def __init__(self, seconds_between_lines: float = SECONDS_BETWEEN_LINES) -> None:
        self._pause = seconds_between_lines
        self._what: str | None = None
        self._started = self._last = 0.0
        self._done_before = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what != self._what or done < self._done_before:
            self._what, self._started, self._last = what, now, now
        self._done_before = done
        if now - self._last < self._pause:
            return
        self._last = now
        rate = done / (now - self._started)
        left = f", about {(total - done) / rate:,.0f} s left" if rate > 0 and done < total else ""
        LOGGER.info("%s: %s of %s (%s/s%s)", what, f"{done:,}", f"{total:,}", f"{rate:,.0f}", left)


log_progress = LoggedProgress()
