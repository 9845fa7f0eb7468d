"""How long to wait before a request to a server: rate limits, backoff, Retry-After. Nothing is sent here."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable
from email.utils import parsedate_to_datetime

WINDOW_SECONDS = 60.0
LONGEST_BACKOFF = 60.0


class Pace:
    """Keeps requests and tokens of any 60 seconds under their limits; a limit of None does not bind."""

    def __init__(
        self, requests: int | None, tokens: int | None, sleep: Callable[[float], None], clock: Callable[[], float]
    ) -> None:
        self.requests, self.tokens = requests, tokens
        self._sleep, self._clock = sleep, clock
        self._sent: deque[tuple[float, int]] = deque()

    def wait(self, tokens: int) -> None:
        """Sleep until a request of ``tokens`` is allowed, and count it. One larger than the limit goes by itself."""
        if self.requests is None and self.tokens is None:
            return
        while True:
            now = self._clock()
            while self._sent and self._sent[0][0] <= now - WINDOW_SECONDS:
                self._sent.popleft()
            many = self.requests is not None and len(self._sent) >= self.requests
            large = self.tokens is not None and sum(count for _, count in self._sent) + tokens > self.tokens
            if not self._sent or not (many or large):
                self._sent.append((now, tokens))
                return
            self._sleep(self._sent[0][0] + WINDOW_SECONDS - now)


def backoff(attempt: int, jitter: float) -> float:
    """Seconds before the attempt after ``attempt`` (from 0): 1, 2, 4, ... to 60, shortened by up to half at random."""
    return min(LONGEST_BACKOFF, 2.0**attempt) * (1 - 0.5 * jitter)


def retry_after(header: str | None, now: dt.datetime) -> float | None:
    """Seconds that a Retry-After header asks for: a number or an HTTP date; None where it says neither."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (until - now).total_seconds()) if until.tzinfo else None
