"""Reading a server's answer to an embeddings request: vectors, or what is wrong with it. Nothing is sent here."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

LONGEST_QUOTE = 200
SHORTEST_ECHO = 16


class UnusableAnswerError(Exception):
    """An answer of status 200 without one finite vector a text; says what it lacks. Asking again may help."""


@dataclass(frozen=True)
class Answer:
    """``vectors`` (n, d) float32 in the order of the texts; ``tokens`` as the server counted them, where it did."""

    vectors: np.ndarray
    tokens: int | None


def read_answer(content: bytes, n: int) -> Answer:
    """The answer to a request of ``n`` texts. Raises UnusableAnswerError."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise UnusableAnswerError("the answer is not JSON") from error
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise UnusableAnswerError("the answer has no list 'data'")
    if len(data) != n:
        raise UnusableAnswerError(f"it gave {len(data)} vectors for {n} texts")
    try:
        vectors = [_vector(item.get("embedding")) for item in _in_order(data)]
    except (TypeError, ValueError) as error:
        raise UnusableAnswerError("a vector holds something else than numbers") from error
    if any(vector.ndim != 1 or not len(vector) for vector in vectors):
        raise UnusableAnswerError("an item of the answer has no vector in 'embedding'")
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise UnusableAnswerError(f"the vectors of one answer have {lengths[0]} and {lengths[-1]} dimensions")
    stacked = np.stack(vectors)
    if not np.isfinite(stacked).all():
        raise UnusableAnswerError("a vector holds NaN or an infinite value")
    return Answer(stacked, tokens_used(document))


def _vector(embedding: Any) -> np.ndarray:
    """A vector given as a list of numbers, or as base64 of little-endian float32. Raises ValueError or TypeError.

    Numbers are the protocol's default, so no encoding is asked for: some servers refuse the field. Others, and
    requests whose further fields ask for it, give base64.
    """
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    return np.array(embedding, dtype=np.float32)


def _in_order(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items by their ``index``; as they stand where none has one."""
    numbers = [item.get("index") for item in data]
    if all(number is None for number in numbers):
        return data
    if sorted(numbers, key=repr) != sorted(range(len(data)), key=repr):
        raise UnusableAnswerError("the 'index' of its items does not number the texts from 0")
    return sorted(data, key=lambda item: item["index"])


def tokens_used(document: Any) -> int | None:
    """Tokens in the answer's usage; None where it does not say."""
    usage = document.get("usage") if isinstance(document, dict) else None
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in ("total_tokens", "prompt_tokens")]
    return next((c for c in counts if isinstance(c, int) and not isinstance(c, bool) and c > 0), None)


def error_of(content: bytes) -> tuple[str, str]:
    """(message, code) of an error answer in any of the usual shapes, each perhaps empty."""
    try:
        document = json.loads(content)
    except ValueError:
        return content.decode("utf-8", "replace"), ""
    error = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else ""), ""
    message = next((error[k] for k in ("message", "detail", "error") if isinstance(error.get(k), str)), "")
    return message, str(error.get("code") or error.get("type") or "")


def quoted(message: str, secrets: list[str], texts: list[str]) -> str:
    """A server's message fit for a log: one short line, without a key; nothing where it repeats a text it was sent."""
    line = " ".join(message.split())
    if any(secret and secret in line for secret in secrets):
        return ""
    heads = (" ".join(text.split())[:SHORTEST_ECHO] for text in texts)
    if any(len(head) >= SHORTEST_ECHO and head in line for head in heads):
        return ""
    return line[:LONGEST_QUOTE]
