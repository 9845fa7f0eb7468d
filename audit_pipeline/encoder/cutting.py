"""Heads and tails of a text as an encoder's tokens make them, and the cut that they show. Nothing is compared here."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from audit_pipeline.arms import as_arm, split_arm
from audit_pipeline.encoder.protocol import Encoder

_WORDS = re.compile(r"\S+")

Kept = Literal["head", "tail"]


@dataclass(frozen=True)
class Cut:
    """What is read of a text longer than the cut: its first or last ``tokens`` (prompt and special tokens included).

    ``tokens`` is None where the encoder's tokenizer is not here; ``words`` are then the measure, the most that were
    seen to be kept, prompt apart. ``texts`` is the number of texts that showed the cut.
    """

    kept: Kept
    tokens: int | None
    words: int
    texts: int

    def __str__(self) -> str:
        which = "first" if self.kept == "head" else "last"
        return f"the {which} {self.tokens:,} tokens" if self.tokens else f"about the {which} {self.words:,} words"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Piece:
    """A text, or its head or tail, to be encoded under an arm."""

    text: str
    arm: str


class Scissors:
    """Heads and tails of ``prompt + text`` in the encoder's tokens, or in words where its tokenizer is not here."""

    def __init__(self, encoder: Encoder, arm: str) -> None:
        self._encoder = encoder
        self.arm = arm
        self._prompt, extra = split_arm(arm)
        self._bare_arm = as_arm("", extra)  # a tail has lost the prompt that stood before the text
        self.exact = encoder.token_spans("a") is not None
        self.special = encoder.special_tokens if self.exact else 0

    def spans(self, text: str) -> np.ndarray:
        """(k, 2) characters at which each unit of ``prompt + text`` begins and ends."""
        whole = self._prompt + text
        spans = self._encoder.token_spans(whole)
        if spans is None:
            spans = np.array([found.span() for found in _WORDS.finditer(whole)], dtype=np.int64).reshape(-1, 2)
        return spans

    def piece(self, text: str, spans: np.ndarray, kept: Kept, length: int, characters: int = 0) -> Piece:
        """The first or last ``length`` units (special tokens apart), a head with some characters of the next one."""
        if kept == "tail":
            return Piece((self._prompt + text)[int(spans[len(spans) - length, 0]) :], self._bare_arm)
        end = int(spans[length - 1, 1]) + (0 if not characters else int(spans[length, 0] - spans[length - 1, 1]))
        return Piece((self._prompt + text)[len(self._prompt) : max(len(self._prompt), end + characters)], self.arm)

    def cut_text(self, text: str, cut: Cut) -> Piece | None:
        """What a cut leaves of a text; None where it leaves all of it."""
        spans = self.spans(text)
        prompt_words = 0 if self.exact or cut.kept == "tail" else len(self._prompt.split())
        length = cut.tokens - self.special if self.exact and cut.tokens else cut.words + prompt_words
        return None if length >= len(spans) or length < 1 else self.piece(text, spans, cut.kept, length)

    def cut_of(self, piece: Piece, kept: Kept, length: int) -> Cut:
        """The cut that a piece of ``length`` units shows."""
        return Cut(kept, length + self.special if self.exact else None, len(piece.text.split()), 1)
