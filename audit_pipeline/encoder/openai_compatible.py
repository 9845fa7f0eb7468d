"""The encoder behind a server that speaks OpenAI's embeddings request. Nothing is cached or compared here."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.arms import shared_extra, split_arm
from audit_pipeline.encoder.answers import Answer, UnusableAnswerError, error_of, quoted, read_answer
from audit_pipeline.encoder.pacing import Pace, backoff, retry_after
from audit_pipeline.encoder.protocol import EncoderIdentity, RequestRefusedError, Spending
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline.results import Progress, no_progress

log = logging.getLogger(__name__)

LONGEST_WAIT = 300.0
"""Seconds of Retry-After beyond which a run ends instead of waiting."""
BYTES_PER_TOKEN = 4
PROBE_TEXT = "dimension"
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses that another attempt may cure."""


class ServerIdentity(EncoderIdentity):
    """Identity of a model behind a server: its address, name and dimensions. Its token limit is only told to us."""

    @property
    def cache_key(self) -> str:
        return f"{self.fingerprint}/server"


@dataclass(frozen=True)
class _Failure:
    """An attempt that may be made again: what happened, what to do if it stays so, and how long the server asks for."""

    what: str
    remedy: str
    wait: float | None = None


class OpenAICompatibleEncoder:
    """``POST {base_url}/embeddings``, one request at a time, the key from the environment.

    An arm's further fields go into the request body as they are. Tokens are the server's count where it gives one.
    """

    excludes_prompt = True
    is_remote = True
    counts_are_estimates = True

    def __init__(
        self,
        settings: EncoderSettings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        assert settings.base_url is not None  # the settings refuse this kind without address and model
        assert settings.model is not None
        self.settings = settings
        self.name = settings.model
        self.url = settings.base_url.rstrip("/") + "/embeddings"
        self.own_prompts: dict[str, str] = {}
        self.prompts_never_applied: list[str] = []
        self.spending = Spending()
        self._dimension = settings.dimensions
        self._sleep, self._jitter = sleep, jitter
        self._pace = Pace(settings.requests_per_minute, settings.tokens_per_minute, sleep, clock)

    @property
    def max_tokens(self) -> int | None:
        return self.settings.max_tokens

    @property
    def dimension(self) -> int:
        """Length of a vector; asks for one short text where neither the settings nor an answer has said it."""
        if self._dimension is None:
            self.encode([PROBE_TEXT], prompt=self.settings.passage_arm)
        assert self._dimension is not None  # every answer that was accepted sets it
        return self._dimension

    @cached_property
    def identity(self) -> EncoderIdentity:
        return self._identity(self.dimension)

    @property
    def cache_key(self) -> str:
        return self._identity(0).cache_key

    def _identity(self, dimension: int) -> EncoderIdentity:
        shared = shared_extra(self.settings.passage_extra, self.settings.query_extra)
        asked = [self.url, self.name, self.settings.dimensions, shared]
        fingerprint = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        return ServerIdentity(self.name, None, self.settings.dtype, self.max_tokens, dimension, fingerprint)

    def encode(self, texts: list[str], progress: Progress = no_progress, *, prompt: str = "") -> np.ndarray:
        """Vectors (n, d) float32 of the texts in an arm, in their order.

        Raises AuditInputError, in one sentence, where the server refuses or gives no usable answer to any attempt.
        """
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        shown, extra = split_arm(prompt)
        parts = []
        for start in range(0, len(texts), self.settings.batch_size):
            batch = [shown + text for text in texts[start : start + self.settings.batch_size]]
            parts.append(self._ask(batch, extra))
            progress("encoding", start + len(batch), len(texts))
        return np.concatenate(parts)

    def count_tokens(self, texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """An estimate, (n,) int32: a token for every 4 bytes, and at least one; the server's tokenizer is not here."""
        lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
        return np.maximum(1, -(-lengths // BYTES_PER_TOKEN)).astype(np.int32)

    special_tokens = 0

    def token_spans(self, text: str) -> np.ndarray | None:
        """None: the server's tokenizer is not here."""
        return None

    def check_budget(self, tokens: int) -> None:
        """Raise AuditInputError where ``tokens`` more would exceed ``encoder.token_budget``."""
        budget, spent = self.settings.token_budget, self.spending.tokens
        if budget is not None and spent + tokens > budget:
            raise AuditInputError(
                f"encoder.token_budget: about {tokens:,} tokens would have to be sent to {self.url} after {spent:,} "
                f"of this run, more than the budget of {budget:,}: raise it, or audit less"
            )

    def _ask(self, batch: list[str], extra: dict[str, Any]) -> np.ndarray:
        """Vectors of one request, asked for again as often as the settings allow."""
        body: dict[str, Any] = {"model": self.name, "input": batch}
        if self.settings.dimensions is not None:
            body["dimensions"] = self.settings.dimensions
        estimate = int(self.count_tokens(pa.array(batch, pa.large_string())).sum(dtype=np.int64))
        last = self.settings.retries
        for attempt in range(last + 1):
            self.check_budget(estimate)
            self._pace.wait(estimate)
            outcome = self._attempt(body | extra, batch, estimate)
            if isinstance(outcome, Answer):
                self._check_dimension(outcome.vectors.shape[1])
                return outcome.vectors
            if outcome.wait is not None and outcome.wait > LONGEST_WAIT:
                raise AuditInputError(
                    f"encoder.base_url: {self.url} asks to wait {outcome.wait:,.0f} seconds ({outcome.what}): run "
                    "again then; what was encoded so far is kept"
                )
            if attempt == last:
                raise AuditInputError(
                    f"encoder.base_url: {self.url} failed {last + 1} times, at last because {outcome.what}: "
                    f"{outcome.remedy}; what was encoded so far is kept"
                )
            jitter = self._jitter()
            wait = backoff(attempt, jitter) if outcome.wait is None else outcome.wait + jitter
            log.info("encoder: %s; trying again in %.1f s", outcome.what, wait)
            self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _attempt(self, body: dict[str, Any], batch: list[str], estimate: int) -> Answer | _Failure:
        try:
            response = self._client.post(self.url, json=body)
        except httpx.TimeoutException:
            self._spend(len(batch), None, estimate)  # it may have been read, and charged
            what = f"no answer came within {self.settings.timeout_seconds:g} seconds"
            return _Failure(what, "raise encoder.timeout_seconds or lower encoder.batch_size")
        except httpx.TransportError as error:
            self.spending += Spending(requests=1)
            return _Failure(f"it cannot be reached ({type(error).__name__})", "check the address and the server")
        if response.status_code == httpx.codes.OK:
            try:
                answer = read_answer(response.content, len(batch))
            except UnusableAnswerError as error:
                self._spend(len(batch), None, estimate)
                return _Failure(str(error), "check that the address is an embeddings server and look at its log")
            self._spend(len(batch), answer.tokens, estimate)
            return answer
        self.spending += Spending(requests=1)
        return self._refusal(response, batch)

    def _refusal(self, response: httpx.Response, batch: list[str]) -> _Failure:
        """What another attempt may cure; everything else is raised as AuditInputError."""
        status = response.status_code
        message, code = error_of(response.content)
        said = quoted(message, [self._key], batch)
        words = f": {said}" if said else ""
        variable = self.settings.api_key_env
        if status in (401, 403):
            state = f"the key in {variable} is refused" if self._key else f"{variable} is not set"
            raise AuditInputError(
                f"encoder.api_key_env: {self.url} answered {status} and {state}: set a valid key there"
            )
        if status == 429 and "quota" in code:
            raise AuditInputError(f"encoder.base_url: {self.url} says that the account's quota is used up: add to it")
        if status in PASSING:
            wait = retry_after(response.headers.get("retry-after"), dt.datetime.now(dt.UTC))
            remedy = "lower encoder.requests_per_minute" if status == 429 else "look at the server's log"
            return _Failure(f"it answered {status}{words}", remedy, wait)
        if status == 404:
            raise AuditInputError(
                f"encoder.model: {self.url} knows no such address or no model {self.name!r} (404{words}): correct "
                "encoder.base_url or encoder.model"
            )
        if status in (400, 413, 422):
            longest = max(len(text) for text in batch)
            raise RequestRefusedError(
                f"encoder: {self.url} refuses a request of {len(batch)} texts, the longest of {longest:,} characters "
                f"({status}{words}): where they are too long, split them or lower encoder.batch_size; else correct "
                "encoder.query_extra, passage_extra or dimensions"
            )
        raise AuditInputError(
            f"encoder.base_url: {self.url} answered {status}{words}: check that it is the address before /embeddings"
        )

    def _check_dimension(self, found: int) -> None:
        if self._dimension is None:
            self._dimension = found
        if found != self._dimension:
            wanted = "encoder.dimensions asks for" if self.settings.dimensions else "it gave before"
            raise AuditInputError(
                f"encoder.dimensions: {self.url} gave vectors of {found} dimensions where {wanted} "
                f"{self._dimension}: correct the setting, or look at the server"
            )

    def _spend(self, texts: int, tokens: int | None, estimate: int) -> None:
        estimated = estimate if tokens is None else 0
        self.spending += Spending(1, texts, estimate if tokens is None else tokens, estimated)

    @cached_property
    def _key(self) -> str:
        """The key, kept out of everything but the request's header."""
        key = os.environ.get(self.settings.api_key_env, "").strip()
        if not key.isascii() or not key.isprintable():
            raise AuditInputError(
                f"encoder.api_key_env: the value of {self.settings.api_key_env} is no key (it holds characters that "
                "no header may): set it again"
            )
        return key

    @cached_property
    def _client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return httpx.Client(headers=headers, timeout=self.settings.timeout_seconds)
