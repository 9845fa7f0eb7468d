"""What every kind of encoder offers to the rest of the project. How a kind does it stands in its own module."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from audit_pipeline.errors import AuditInputError
from audit_pipeline.results import Progress, no_progress


class RequestRefusedError(AuditInputError):
    """A server refuses the texts or the fields of a request; the same texts in another arm may be fine."""


@dataclass(frozen=True)
class EncoderIdentity:
    """What decides an encoder's vectors, and ``libraries`` that only move their last digits."""

    model: str
    revision: str | None
    dtype: str
    max_tokens: int | None  # None: the model reads texts of any length, or its limit is not known
    dimension: int
    fingerprint: str  # sha256 of the model's files, or of what a server is asked for
    libraries: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def cache_key(self) -> str:
        """Key of the vectors: model content, precision and token limit. Names and library versions stay out of it."""
        return f"{self.fingerprint}/{self.dtype}/{self.max_tokens}"


@dataclass(frozen=True)
class Spending:
    """What was sent to a server. ``tokens`` as it counted them, estimated for answers that do not say."""

    requests: int = 0
    texts: int = 0
    tokens: int = 0
    tokens_estimated: int = 0  # the part of ``tokens`` that is an estimate

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.requests + other.requests,
            self.texts + other.texts,
            self.tokens + other.tokens,
            self.tokens_estimated + other.tokens_estimated,
        )

    def __sub__(self, other: Spending) -> Spending:
        return Spending(
            self.requests - other.requests,
            self.texts - other.texts,
            self.tokens - other.tokens,
            self.tokens_estimated - other.tokens_estimated,
        )


class Encoder(Protocol):
    """An encoder of any kind. ``prompt`` is an arm (see audit_pipeline.arms): a string, put apart from the text."""

    @property
    def name(self) -> str:
        """The model's name, for messages."""

    @property
    def identity(self) -> EncoderIdentity:
        """What decides the vectors. May encode one short text where the dimension is not known otherwise."""

    @property
    def cache_key(self) -> str:
        """``identity.cache_key``; never encodes or sends anything."""

    @property
    def max_tokens(self) -> int | None:
        """Tokens the model reads; None where it has no limit or none is known."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def own_prompts(self) -> dict[str, str]:
        """The prompts that the model registers, by key."""

    @property
    def prompts_never_applied(self) -> list[str]:
        """Role keys among them that its own API never selects."""

    @property
    def excludes_prompt(self) -> bool:
        """True where prompt + text alone does not decide the vector, so that their boundary belongs to the key."""

    @property
    def is_remote(self) -> bool:
        """True where encoding sends the texts to a server, which may cost money."""

    @property
    def counts_are_estimates(self) -> bool:
        """True where ``count_tokens`` does not use the model's own tokenizer."""

    @property
    def spending(self) -> Spending:
        """What this object has sent so far; zeros for a model that runs here."""

    def encode(self, texts: list[str], progress: Progress = no_progress, *, prompt: str = "") -> np.ndarray:
        """Vectors (n, d) float32 of the texts in an arm."""

    def count_tokens(self, texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Tokens of each text without the model's limit, (n,) int32."""

    def token_spans(self, text: str) -> np.ndarray | None:
        """Characters at which each token begins and ends, (k, 2) int64, without special tokens and without a limit.

        None where the model's tokenizer is not here, or does not say.
        """

    @property
    def special_tokens(self) -> int:
        """Tokens that the model adds to each text; 0 where its tokenizer is not here."""

    def check_budget(self, tokens: int) -> None:
        """Raise AuditInputError where ``tokens`` more would exceed what a run may send."""
