"""The arm of each query vector, with an encoder whose arms are worked out by hand."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from audit_pipeline.arms import as_arm
from audit_pipeline.encoder.fidelity import NOT_IDENTIFIABLE
from audit_pipeline.encoder.query_side import UNEXPLAINED, QuerySide, arms_of_queries, judge_queries
from audit_pipeline.encoder_settings import EncoderSettings

ARMS = arms_of_queries(EncoderSettings(model="m", query_prompt="query: ", passage_prompt="passage: "), {})
QUESTIONS = [f"question {i}" for i in range(60)]


def direction(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    vector = np.random.default_rng(seed).standard_normal(64)
    return vector / np.linalg.norm(vector)


def encode(texts: list[str], arm: str, pull: float = 0.3) -> np.ndarray:
    """As a transformer does with a short prefix: the text's direction, pulled a little towards the prompt's."""
    for prompt in sorted(filter(None, ARMS.values()), key=len, reverse=True):
        if not arm and texts and all(text.startswith(prompt) for text in texts):
            return encode([text.removeprefix(prompt) for text in texts], prompt, pull)
    rows = [direction(text) + (pull * direction(f"the prompt {arm}") if arm else 0) for text in texts]
    return np.stack(rows).astype(np.float32)


def judge(sent: np.ndarray, texts: list[str] = QUESTIONS, arms: dict[str, str] = ARMS, **options: bool) -> QuerySide:
    return judge_queries(texts, sent, arms, encode, **options)


def test_the_configured_query_arm_stands_first_under_its_name():
    assert list(ARMS.items())[:3] == [("query", "query: "), ("passage", "passage: "), ("none", "")]
    alike = arms_of_queries(EncoderSettings(model="m", query_prompt="p: ", passage_prompt="p: "), {})
    assert "passage" not in alike
    assert alike["query"] == "p: "


@pytest.mark.parametrize("stored_as", [np.float32, np.float16])
def test_each_query_is_given_the_arm_it_was_sent_in(stored_as: type):
    sent = encode(QUESTIONS, "query: ")
    sent[10:30] = encode(QUESTIONS[10:30], "passage: ")
    sent[30:35] = encode(QUESTIONS[30:35], "")
    sent[35:37] = encode(QUESTIONS[35:37], "search_query: ")
    sent[37:40] = encode([f"rewritten {i}" for i in range(3)], "query: ")
    found = judge((7 * sent).astype(stored_as)).role
    expected = ["query"] * 10 + ["passage"] * 20 + ["none"] * 5 + ["'search_query: '"] * 2 + [UNEXPLAINED] * 3
    assert found == expected + ["query"] * 20


def spoilt(vectors: np.ndarray, loss: float) -> np.ndarray:
    """The vectors turned a little, each to about this loss."""
    noise = np.random.default_rng(0).standard_normal(vectors.shape)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return vectors + noise * np.sqrt(2 * loss) * np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_rare_arm_is_found_behind_many_that_nothing_explains_and_that_are_nearer():
    texts = [f"question {i}" for i in range(90)]
    sent = encode(texts, "query: ")
    sent[:60] = spoilt(sent[:60], 0.02)  # a wrong arm costs .08
    sent[89] = encode([texts[89]], "passage: ")[0]
    assert judge(sent, texts).role == [UNEXPLAINED] * 60 + ["query"] * 29 + ["passage"]


def test_few_queries_are_encoded_in_the_arms_that_explain_nothing():
    encoded: dict[str, int] = {}

    def counting(texts: list[str], arm: str) -> np.ndarray:
        encoded[arm] = encoded.get(arm, 0) + len(texts)
        return encode(texts, arm)

    texts = [f"question {i}" for i in range(500)]
    assert set(judge_queries(texts, encode(texts, "passage: "), ARMS, counting).role) == {"passage"}
    assert encoded["passage: "] < 600
    assert encoded["search_query: "] < 60  # the yardstick's and one round's


def test_a_text_that_is_logged_with_its_prompt_counts_as_that_prompts():
    logged = [f"query: {text}" for text in QUESTIONS[:20]] + [f"passage: {text}" for text in QUESTIONS[20:]]
    texts = QUESTIONS
    sent = np.concatenate([encode(texts[:20], "query: "), encode(texts[20:], "passage: ")])

    def one_by_one(some: list[str], arm: str) -> np.ndarray:
        return np.concatenate([encode([text], arm) for text in some])

    found = judge_queries(logged, sent, ARMS, one_by_one).role
    assert found == ["query"] * 20 + ["passage"] * 40
    apart = judge_queries(logged, sent, ARMS, one_by_one, prompt_is_text=False).role
    assert apart == ["none"] * 60


def test_what_is_within_noise_but_over_the_tolerance_is_not_identifiable():
    def close(texts: list[str], arm: str) -> np.ndarray:
        return encode(texts, arm, pull=0.01)  # a wrong arm costs some 1e-4: a tenth of it is less than storage noise

    side = judge_queries(QUESTIONS, spoilt(close(QUESTIONS, "query: "), 5e-5), ARMS, close)
    assert side.calibration.tolerance < 5e-5
    assert set(side.role) == {NOT_IDENTIFIABLE}
    # Nearer to another arm, but not clearly so: no arm is named.
    side = judge_queries(QUESTIONS, spoilt(close(QUESTIONS, "passage: "), 5e-5), ARMS, close)
    assert set(side.role) <= {NOT_IDENTIFIABLE, UNEXPLAINED}


def test_an_arm_that_changes_nothing_leaves_the_role_open_and_drift_measured():
    arms = {"query": "query: ", "passage": "passage: "}

    def same(texts: list[str], arm: str) -> np.ndarray:
        return encode(texts, "query: ")

    sent = encode(QUESTIONS, "query: ")
    sent[:5] = encode(["something else"] * 5, "query: ")
    side = judge_queries(QUESTIONS, sent, arms, same)
    assert not side.calibration.identifiable("passage: ")
    assert side.role == [UNEXPLAINED] * 5 + ["query"] * 55


def test_request_fields_make_arms_of_their_own():
    settings = EncoderSettings(
        kind="openai_compatible",
        model="m",
        base_url="http://localhost/v1",
        query_extra={"input_type": "query"},
        passage_extra={"input_type": "passage"},
    )
    arms = arms_of_queries(settings, {})
    assert arms["query"] == as_arm("", {"input_type": "query"})
    assert judge(encode(QUESTIONS, arms["passage"]), arms=arms).role == ["passage"] * 60
