from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder import vector_store
from audit_pipeline.encoder.models import EncoderIdentity
from audit_pipeline.encoder.vector_store import VectorStore, text_keys


class CountingEncoder:
    """Vectors are made of a hash of prompt + text and of the size of the call, so that other batches show."""

    excludes_prompt = False
    is_remote = False
    max_tokens = 4

    def __init__(self, model: str = "counting", dtype: str = "float32", dies_after: int | None = None) -> None:
        self.identity = EncoderIdentity(model, None, dtype, self.max_tokens, 3, fingerprint="f" * 64)
        self.cache_key = self.identity.cache_key
        self.calls: list[list[str]] = []
        self.dies_after = dies_after

    def encode(self, texts, progress=None, *, prompt=""):
        if self.dies_after is not None and len(self.calls) == self.dies_after:
            raise KeyboardInterrupt
        self.calls.append([prompt + text for text in texts])
        digests = [hashlib.sha256((prompt + text).encode()).digest() for text in texts]
        return np.array([[d[0], d[1], len(texts)] for d in digests], dtype=np.float32)

    def count_tokens(self, texts):
        return np.array([len(text.split()) for text in texts.to_pylist()], dtype=np.int32)

    @property
    def encoded(self) -> list[str]:
        return sorted(text for call in self.calls for text in call)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_store, "BLOCK_TEXTS", 4)


TEXTS = [f"text number {i}" for i in range(10)]


def segments_of(store: VectorStore, encoder: CountingEncoder) -> list[Path]:
    return sorted(store.folder_of(encoder.identity).glob("seg-*"))


def test_the_key_is_the_sha256_of_prompt_and_text():
    keys = text_keys(["cat", ""], "query: ")
    assert [key.ljust(32, b"\0").hex() for key in keys.tolist()] == [
        hashlib.sha256(b"query: cat").hexdigest(),
        hashlib.sha256(b"query: ").hexdigest(),
    ]


def test_keys_are_the_same_for_lists_arrays_slices_and_chunks():
    texts = ["ünïcode", "", "plain", "plain"]
    expected = text_keys(texts, "p").tolist()
    padded = pa.array(["x", *texts, "y"]).slice(1, 4)
    assert text_keys(padded, "p").tolist() == expected
    assert text_keys(pa.chunked_array([padded.slice(0, 1), padded.slice(1)]), "p").tolist() == expected
    assert text_keys(pa.array(["ünïcode", None, "plain", "plain"]), "p").tolist() == expected
    assert text_keys(pa.array([], pa.string()), "p").tolist() == []


def test_a_boundary_kept_in_the_key_tells_prompt_and_text_apart():
    assert text_keys(["bc"], "a").tolist() == text_keys(["c"], "ab").tolist()
    assert text_keys(["bc"], "a", apart=True).tolist() != text_keys(["c"], "ab", apart=True).tolist()


def test_each_distinct_text_is_encoded_once_and_vectors_follow_the_texts(tmp_path: Path):
    encoder, store = CountingEncoder(), VectorStore(tmp_path)
    encoded = store.get_or_encode(encoder, "p: ", [*TEXTS, TEXTS[3], TEXTS[0]])
    assert (encoded.encoded, encoded.from_cache) == (10, 0)
    assert encoded.tokens == 10 * 4  # "p: text number i" has four words, and the model reads four
    assert encoder.encoded == sorted("p: " + text for text in TEXTS)
    for text, vector in zip([*TEXTS, TEXTS[3], TEXTS[0]], encoded.vectors, strict=True):
        digest = hashlib.sha256(f"p: {text}".encode()).digest()
        assert vector[:2].tolist() == [digest[0], digest[1]]


def test_a_second_call_encodes_nothing_and_a_changed_text_alone(tmp_path: Path):
    store = VectorStore(tmp_path)
    first = store.get_or_encode(CountingEncoder(), "", TEXTS)
    again = CountingEncoder()
    second = store.get_or_encode(again, "", pa.array(TEXTS))
    assert (again.calls, second.encoded, second.tokens, second.from_cache) == ([], 0, 0, 10)
    np.testing.assert_array_equal(first.vectors, second.vectors)
    changed = CountingEncoder()
    third = store.get_or_encode(changed, "", [*TEXTS[1:], "new"])
    assert (changed.encoded, third.from_cache) == (["new"], 9)


def test_prompts_precisions_and_models_do_not_share_vectors_but_names_do(tmp_path: Path):
    store = VectorStore(tmp_path)
    store.get_or_encode(CountingEncoder(), "", TEXTS)
    assert store.get_or_encode(CountingEncoder(), "query: ", TEXTS).encoded == 10
    assert store.get_or_encode(CountingEncoder(dtype="bfloat16"), "", TEXTS).encoded == 10
    assert store.get_or_encode(CountingEncoder(model="another/name"), "", TEXTS).encoded == 0


def test_a_killed_call_keeps_its_finished_blocks_and_ends_with_the_same_bytes(tmp_path: Path):
    whole = VectorStore(tmp_path / "whole").get_or_encode(CountingEncoder(), "", TEXTS)
    store = VectorStore(tmp_path / "killed")
    with pytest.raises(KeyboardInterrupt):
        store.get_or_encode(CountingEncoder(dies_after=2), "", TEXTS)
    resumed = CountingEncoder()
    encoded = store.get_or_encode(resumed, "", list(reversed(TEXTS)))
    assert (encoded.encoded, encoded.from_cache) == (2, 8)
    assert encoded.vectors[::-1].tobytes() == whole.vectors.tobytes()


def test_progress_counts_the_texts_that_are_new(tmp_path: Path):
    store, seen = VectorStore(tmp_path), []
    store.get_or_encode(CountingEncoder(), "", TEXTS[:2])
    store.get_or_encode(CountingEncoder(), "", TEXTS, lambda what, done, total: seen.append((what, done, total)))
    assert seen[-1] == ("encoding", 8, 8)


def test_no_texts_and_null_texts_work(tmp_path: Path):
    store = VectorStore(tmp_path)
    assert store.get_or_encode(CountingEncoder(), "", []).vectors.shape == (0, 3)
    assert store.get_or_encode(CountingEncoder(), "", pa.array([None, ""], pa.string())).encoded == 1


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("keys.npy", lambda path: path.write_bytes(path.read_bytes()[:-7])),
        ("vectors.npy", lambda path: path.write_bytes(path.read_bytes()[:-7])),
        ("sums.npy", lambda path: path.write_bytes(b"")),
        ("vectors.npy", lambda path: path.unlink()),
        ("keys.npy", lambda path: path.write_text("no array")),
    ],
)
def test_a_damaged_segment_is_named_and_its_texts_are_encoded_again(tmp_path: Path, caplog, file: str, damage):
    store, encoder = VectorStore(tmp_path), CountingEncoder()
    right = store.get_or_encode(encoder, "", TEXTS)
    broken = segments_of(store, encoder)[0]
    damage(broken / file)
    with caplog.at_level(logging.WARNING):
        repaired = store.get_or_encode(CountingEncoder(), "", TEXTS)
    assert broken.name in caplog.text
    np.testing.assert_array_equal(repaired.vectors, right.vectors)
    assert 0 < repaired.encoded < 10
    assert store.get_or_encode(CountingEncoder(), "", TEXTS).encoded == 0


@pytest.mark.parametrize("written", [b"\x00" * 12, b"\x7f" * 12])
def test_a_row_whose_bytes_changed_on_disk_is_encoded_again_and_stays_repaired(tmp_path: Path, caplog, written: bytes):
    store, encoder = VectorStore(tmp_path), CountingEncoder()
    right = store.get_or_encode(encoder, "", TEXTS)
    vectors = segments_of(store, encoder)[0] / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-12] + written)
    with caplog.at_level(logging.WARNING):
        repaired = store.get_or_encode(CountingEncoder(), "", TEXTS)
    assert vectors.parent.name in caplog.text
    assert repaired.encoded == 1
    np.testing.assert_array_equal(repaired.vectors[:, :2], right.vectors[:, :2])
    assert store.get_or_encode(CountingEncoder(), "", TEXTS).encoded == 0


def test_many_segments_are_merged_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vector_store, "MOST_SEGMENTS", 3)
    store = VectorStore(tmp_path)
    texts = [f"text {i}" for i in range(100)]
    first = store.get_or_encode(CountingEncoder(), "", texts)
    assert len(segments_of(store, CountingEncoder())) == 1
    again = store.get_or_encode(CountingEncoder(), "", texts)
    assert again.encoded == 0
    np.testing.assert_array_equal(again.vectors, first.vectors)


def test_what_an_encoder_wrote_is_described_in_readable_json(tmp_path: Path):
    store, encoder = VectorStore(tmp_path), CountingEncoder("org/Some Model")
    store.get_or_encode(encoder, "", TEXTS)
    folder = store.folder_of(encoder.identity)
    described = json.loads((folder / "encoder.json").read_text())
    assert folder.name.startswith("org-some-model--")
    assert (described["model"], described["dimension"], described["max_tokens"]) == ("org/Some Model", 3, 4)
    assert not list(folder.glob(".tmp-*"))


def test_pending_counts_what_a_call_would_encode_without_encoding(tmp_path: Path):
    store, encoder = VectorStore(tmp_path), CountingEncoder()
    store.get_or_encode(encoder, "", TEXTS[:4])
    encoder.calls.clear()
    pending = store.pending(encoder, "", [*TEXTS, *TEXTS])
    assert (pending.distinct, pending.missing, pending.tokens) == (10, 6, 6 * 3)
    assert encoder.calls == []
