"""A model whose own configuration names its passage prompt by a key that its library never selects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from audit_pipeline_tests.cases.conftest import AuditTable, Corpus

CONFIGURATION = "config_sentence_transformers.json"


@pytest.mark.parametrize(("key", "said"), [("passage", True), ("document", False)])
def test_a_passage_prompt_that_no_encoding_ever_carries(
    audit_table: AuditTable, corpus: Corpus, tmp_path: Path, key: str, said: bool
) -> None:
    folder = tmp_path / f"model with key {key}"
    shutil.copytree(corpus.model, folder)
    configuration = json.loads((folder / CONFIGURATION).read_text(encoding="utf-8"))
    configuration["prompts"] = {key: "passage: "}
    (folder / CONFIGURATION).write_text(json.dumps(configuration), encoding="utf-8")

    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder))
    passages = model.encode_document(corpus.texts[:100])
    with_prompt = model.encode(corpus.texts[:100], prompt="passage: ")
    assert bool((passages == with_prompt).all()) is not said  # the library itself leaves the prompt out, silently

    rows = corpus.rows(slice(100))
    found = audit_table(rows, encoder={"model": str(folder)})
    assert found.codes("error") == set()
    if not said:
        assert "prompt_not_applied" not in found.codes()
        return
    finding = found.finding("prompt_not_applied")
    assert (finding["severity"], finding["evidence"]["keys"]) == ("warning", ["passage"])
    assert "'passage'" in finding["message"]
    assert found.codes("warning") == {"prompt_not_applied"}
