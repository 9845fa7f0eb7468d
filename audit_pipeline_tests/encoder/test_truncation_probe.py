"""Sweeps of heads and tails against runtimes that are made to cut: the cut is known by construction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.calibration import cosine_loss
from audit_pipeline.encoder.cutting import Cut, Kept, Scissors
from audit_pipeline.encoder.models import Encoder
from audit_pipeline.encoder.openai_compatible import OpenAICompatibleEncoder
from audit_pipeline.encoder.truncation_probe import (
    LEAST_WORDS,
    MOST_ENCODINGS,
    cut_of_vectors,
    loss_under_cut,
    reach_of_encoder,
)
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.encoder.embedding_server import EmbeddingServer, Reply, serving, sound
from audit_pipeline_tests.encoder.planted import docstrings

PROMPT = "passage: "


class CuttingEncoder:
    """A fast encoder behind a runtime that keeps the first or last ``limit`` tokens of prompt + text."""

    def __init__(self, inner: Encoder, kept: Kept | None, limit: int, *, tokenizer: bool = True) -> None:
        self.inner, self.kept, self.limit, self.tokenizer = inner, kept, limit, tokenizer
        self.special_tokens = 0
        self.asked = 0

    def token_spans(self, text: str) -> np.ndarray | None:
        return self.inner.token_spans(text) if self.tokenizer else None

    def cut(self, text: str) -> str:
        spans = self.inner.token_spans(text)
        assert spans is not None
        if self.kept is None or len(spans) <= self.limit:
            return text
        return text[: spans[self.limit - 1, 1]] if self.kept == "head" else text[spans[-self.limit, 0] :]

    def __call__(self, texts: list[str], prompt: str) -> np.ndarray:
        self.asked += len(texts)
        return self.inner.encode([self.cut(prompt + text) for text in texts])


@pytest.fixture(scope="module")
def long_texts() -> list[str]:
    """Eight texts of 150 to 400 words, and two short ones."""
    parts = docstrings("rich", 136)
    texts = ["\n".join(parts[i * 15 : i * 15 + 12 + i % 3]) for i in range(8)]
    assert all(150 < len(text.split()) < 400 for text in texts)
    return [*texts, *parts[-2:]]


def reach_of(encode: CuttingEncoder, texts: list[str], declared: int | None = None, noise: float = 0.0) -> Any:
    scissors = Scissors(encode, PROMPT)
    return reach_of_encoder(texts, encode(texts, PROMPT), scissors, encode, declared, noise)


@pytest.mark.parametrize("kept", ["head", "tail"])
@pytest.mark.parametrize("declared", [None, 128, 8192])
def test_the_part_that_a_runtime_reads_is_found_to_the_token(
    fast_encoder: Encoder, long_texts: list[str], kept: Kept, declared: int | None
) -> None:
    encode = CuttingEncoder(fast_encoder, kept, 128)
    reach = reach_of(encode, long_texts, declared)
    assert (reach.cut.kept, reach.cut.tokens, reach.texts) == (kept, 128, 4)
    assert 2 <= reach.cut.texts <= 4
    assert encode.asked - len(long_texts) <= MOST_ENCODINGS


@pytest.mark.parametrize("kept", ["head", "tail"])
def test_without_a_tokenizer_the_part_is_found_in_words(
    fast_encoder: Encoder, long_texts: list[str], kept: Kept
) -> None:
    encode = CuttingEncoder(fast_encoder, kept, 128, tokenizer=False)
    reach = reach_of(encode, long_texts)
    read = [len(encode.cut(PROMPT + text).split()) for text in long_texts[:8]]
    assert (reach.cut.kept, reach.cut.tokens) == (kept, None)
    assert min(read) - 1 <= reach.cut.words <= max(read)


def test_an_encoder_that_reads_its_longest_texts_whole_has_no_cut(fast_encoder: Encoder, long_texts: list[str]) -> None:
    spaced = [text.replace(" ", " \n\n \t ") + " \n" * 400 for text in long_texts]
    for texts in (long_texts, spaced):
        reach = reach_of(CuttingEncoder(fast_encoder, None, 0), texts)
        assert (reach.texts, reach.cut, reach.reason) == (4, None, None)
        assert reach.words >= 150


def test_a_limit_that_no_text_reaches_is_no_cut(fast_encoder: Encoder, long_texts: list[str]) -> None:
    assert reach_of(CuttingEncoder(fast_encoder, "head", 4096), long_texts).cut is None


def test_texts_that_repeat_themselves_are_not_taken_for_cut(fast_encoder: Encoder) -> None:
    # With word means, a text said sixteen times has the vector of the same text said fourteen times.
    by_length: dict[int, list[str]] = {}
    for part in docstrings("rich", 136):
        spans = fast_encoder.token_spans(part)
        assert spans is not None
        by_length.setdefault(len(spans), []).append(part)
    # Of equal length, so that the shorter texts which say the same would agree on a cut.
    parts = next(alike for alike in by_length.values() if len(alike) > 1)[:2]
    repeated = [" ".join([part] * 16) for part in parts]
    encode = CuttingEncoder(fast_encoder, None, 0)
    scissors = Scissors(encode, "")
    assert len(repeated) == 2
    assert reach_of_encoder(repeated, encode(repeated, ""), scissors, encode, None, 0.0).cut is None


def test_short_texts_and_unsteady_encoders_are_not_probed(fast_encoder: Encoder, long_texts: list[str]) -> None:
    encode = CuttingEncoder(fast_encoder, "head", 32)
    short = reach_of(encode, long_texts[-2:])
    assert (short.texts, short.cut) == (0, None)
    assert f"have {LEAST_WORDS} words" in short.reason
    unsteady = reach_of(encode, long_texts, noise=1e-5)
    assert (unsteady.texts, unsteady.cut) == (0, None)
    assert encode.asked == 2 + len(long_texts)


def test_the_limit_of_a_transformer_is_confirmed_at_its_declared_length(
    encoder: Encoder, long_texts: list[str]
) -> None:
    tokens = encoder.count_tokens(pa.array([PROMPT + text for text in long_texts]))
    texts = [text for text, n in zip(long_texts, tokens, strict=True) if n > 280][:2]
    asked: list[str] = []

    def encode(pieces: list[str], prompt: str) -> np.ndarray:
        asked.extend(pieces)
        return encoder.encode(pieces, prompt=prompt)

    reach = reach_of_encoder(
        texts, encode(texts, PROMPT), Scissors(encoder, PROMPT), encode, encoder.max_tokens, noise=0.0
    )
    assert (reach.cut.kept, reach.cut.tokens, reach.cut.texts) == ("head", encoder.max_tokens, 2)
    assert len(asked) == 2 + 4 + 4  # the whole texts, two shorter heads of each, and the declared limit confirmed


def explained(loss: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return (loss <= 1e-4) & (loss < 0.1 * whole)


def stored_cut(encoder: Encoder, texts: list[str], stored: np.ndarray, *, tokenizer: bool = True) -> tuple[Any, int]:
    encode = CuttingEncoder(encoder, None, 0, tokenizer=tokenizer)
    whole = cosine_loss(stored, encode(texts, PROMPT))
    found = cut_of_vectors(texts, stored, whole, Scissors(encode, PROMPT), encode, explained)
    return found, encode.asked - len(texts)


@pytest.mark.parametrize("tokenizer", [True, False])
@pytest.mark.parametrize(("kept", "limit"), [("head", 128), ("head", 100), ("tail", 128), ("tail", 75)])
def test_the_cut_that_the_writers_runtime_made_is_named(
    fast_encoder: Encoder, long_texts: list[str], kept: Kept, limit: int, tokenizer: bool
) -> None:
    texts = long_texts[:8]
    writer = CuttingEncoder(fast_encoder, kept, limit)
    cut, encodings = stored_cut(fast_encoder, texts, writer(texts, PROMPT), tokenizer=tokenizer)
    assert encodings <= MOST_ENCODINGS
    if tokenizer:
        assert (cut.kept, cut.tokens) == (kept, limit)
        reader = CuttingEncoder(fast_encoder, None, 0)
        loss = loss_under_cut(texts, writer(texts, PROMPT), cut, Scissors(reader, PROMPT), reader)
        assert np.nanmax(loss) < 1e-6
    elif kept == "head":  # a tail that begins within a word has no words that are its own
        read = [len(writer.cut(PROMPT + text).split()) for text in texts]
        assert cut.kept == kept
        assert min(read) - 2 <= cut.words <= max(read)


def test_vectors_that_are_no_part_of_their_text_show_no_cut(fast_encoder: Encoder, long_texts: list[str]) -> None:
    texts = long_texts[:8]
    others = fast_encoder.encode(texts[::-1])
    cut, encodings = stored_cut(fast_encoder, texts, others)
    assert cut is None
    assert encodings <= MOST_ENCODINGS


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as running:
        yield running


def test_a_server_that_reads_a_hundred_words_is_caught_through_its_answers_alone(
    server: EmbeddingServer, long_texts: list[str]
) -> None:
    def first_words(body: dict[str, Any]) -> dict[str, Any]:
        return sound(body | {"input": [" ".join(text.split()[:100]) for text in body["input"]]})

    server.rule = lambda body: Reply(make=first_words)
    encoder = OpenAICompatibleEncoder(
        EncoderSettings(kind="openai_compatible", model="m", base_url=server.base_url, max_tokens=8192)
    )

    def encode(texts: list[str], prompt: str) -> np.ndarray:
        return encoder.encode(texts, prompt=prompt)

    whole = encode(long_texts, PROMPT)
    reach = reach_of_encoder(long_texts, whole, Scissors(encoder, PROMPT), encode, encoder.max_tokens, 0.0)
    assert reach.cut == Cut("head", None, 99, 4)  # and the word of the prompt
