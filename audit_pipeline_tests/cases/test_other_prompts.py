"""A prompt that hurts is told by the same queries under other prompts; where nothing hurts, nothing is told."""

from __future__ import annotations

import pytest

from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.cases.conftest import AuditTable, Corpus, table_of

HURTS = "zebra orchestra gravel midnight umbrella volcano saxophone tundra " * 4


@pytest.mark.parametrize("prompt", [HURTS, ""])
def test_queries_without_the_prompt_find_more(audit_table: AuditTable, corpus: Corpus, prompt: str) -> None:
    texts = [f"{a} {b}" for a, b in zip(corpus.texts[:200:2], corpus.texts[1:200:2], strict=True)]
    vectors = load_encoder(EncoderSettings(model=corpus.model)).encode(texts)
    audit = audit_table(table_of(texts, vectors), encoder={"query_prompt": prompt}, sample={"arms": 200})
    rows = audit.report["formatting_arms"]
    assert rows[0]["configured"]
    assert rows[0]["prompt"] == prompt
    assert {row["run"] for row in rows} == {"held_out"}
    held = audit.tables().table("held_out_retrieval", text=False)
    asked = held[held["eligible"]]
    assert rows[0]["success"]["n"] == len(asked)
    assert rows[0]["success"]["value"] == pytest.approx(asked["hit_10"].astype(bool).mean())
    better = {row["prompt"] for row in rows if row["better"]}
    text = audit.report["verdict"]["text"]
    assert ("" in better) == bool(prompt)
    assert ("find more than as configured: heldout@10 +" in text) == bool(prompt)
    if not prompt:
        assert better == set()
