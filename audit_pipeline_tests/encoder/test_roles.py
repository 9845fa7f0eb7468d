from __future__ import annotations

from audit_pipeline.encoder.roles import arms_of, never_selected, prompt_not_applied
from audit_pipeline.encoder_settings import EncoderSettings


def test_arms_start_with_the_configured_passage_and_always_hold_the_yardsticks():
    settings = EncoderSettings(model="m", query_prompt="ask: ", passage_prompt="text: ")
    arms = arms_of(settings, {})
    assert list(arms.items())[:3] == [("passage", "text: "), ("query", "ask: "), ("none", "")]
    assert {"query: ", "passage: "} <= set(arms.values())


def test_roles_with_one_prompt_share_the_first_ones_arm():
    arms = arms_of(EncoderSettings(model="m", query_prompt="query: "), {"document": "", "query": "query: "})
    assert [name for name, prompt in arms.items() if prompt == ""] == ["passage"]
    assert [name for name, prompt in arms.items() if prompt == "query: "] == ["query"]


def test_a_models_own_prompt_is_an_arm_of_its_own():
    assert arms_of(EncoderSettings(model="m"), {"passage": "doc> "})["model:passage"] == "doc> "


def test_a_prompt_under_the_key_passage_alone_is_never_applied_and_named():
    silent = never_selected({"passage": "passage: "}, None)
    assert silent == ["passage"]
    finding = prompt_not_applied({"passage": "passage: "}, silent, "some-model")
    assert finding is not None
    assert (finding.code, finding.severity, finding.evidence["keys"]) == ("prompt_not_applied", "warning", ["passage"])
    assert "'passage'" in finding.message


def test_prompts_that_the_api_selects_or_that_belong_to_other_tasks_are_silent():
    assert never_selected({"query": "query: ", "document": "passage: "}, None) == []
    assert (
        never_selected({"query": "q: ", "document": "d: ", "Retrieval-document": "d: ", "Clustering": "c: "}, None)
        == []
    )
    assert never_selected({"passage": "passage: "}, "passage") == []
    assert never_selected({}, None) == []
    assert prompt_not_applied({}, [], "m") is None


def test_role_prompts_under_compound_keys_are_found():
    keys = {"retrieval.query": "q: ", "retrieval.passage": "p: ", "classification": "c: "}
    assert never_selected(keys, None) == ["retrieval.passage", "retrieval.query"]
