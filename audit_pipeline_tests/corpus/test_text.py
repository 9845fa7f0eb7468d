import hashlib
import re

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.corpus.text import count_words, normalise, normalised_sha256, sha256_hex


def test_a_hash_is_that_of_the_raw_bytes_also_in_a_slice_and_with_nulls() -> None:
    texts = pa.array(["x", "é", None, "", "A b"])[1:]
    expected = [hashlib.sha256("é".encode()).hexdigest(), None, hashlib.sha256(b"").hexdigest()]
    assert sha256_hex(texts).to_pylist()[:3] == expected
    assert sha256_hex(pa.chunked_array([texts[:2], texts[2:]])).to_pylist() == sha256_hex(texts).to_pylist()


def test_texts_that_differ_in_case_space_or_unicode_form_have_one_normal_form() -> None:
    assert normalise("  Cafe\u0301\n\tSTRASSE ") == normalise("café straße") == "café strasse"
    one, other, third = normalised_sha256(pa.array(["A  b", "a b", "a c"])).to_pylist()
    assert one == other != third


@given(st.text())
def test_the_normal_form_of_a_normal_form_is_itself(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_words_are_counted_as_python_counts_them() -> None:
    texts = ["", "one two", "snake_case x1 3.5", "今天天气 很好。", "naïve Ünïcode", "...", "a\nb\u00a0c"]
    assert count_words(pa.array([*texts, None])).to_pylist() == [len(re.findall(r"\w+", text)) for text in texts] + [
        None
    ]
