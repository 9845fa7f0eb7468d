"""Chosen rows are judged as the fingerprint judges its sample, also where roles differ by request fields alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.fingerprint import fingerprint
from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder.row_fidelity import judge_rows
from audit_pipeline.encoder.vector_store import VectorStore
from audit_pipeline_tests.encoder.embedding_server import serving
from audit_pipeline_tests.encoder.planted import planted_rows


def test_a_row_of_the_query_role_is_named_where_the_role_is_a_field_of_the_request(tmp_path: Path) -> None:
    rows = planted_rows([f"The text of row {number} about nothing else." for number in range(48)])
    store = VectorStore(tmp_path / "vectors")
    with serving() as server:
        settings = IndexAuditSettings.model_validate(
            {
                "name": "served",
                "encoder": {
                    "kind": "openai_compatible",
                    "model": "small",
                    "base_url": server.base_url,
                    "query_extra": {"input_type": "query"},
                    "passage_extra": {"input_type": "document"},
                },
                "index": {"uri": "unused", "table": "unused", "managed": False},
            }
        )
        encoder = load_encoder(settings.encoder)
        texts = rows["text"].to_pylist()
        vectors = store.get_or_encode(encoder, settings.encoder.passage_arm, texts).vectors.copy()
        vectors[40] = store.get_or_encode(encoder, settings.encoder.query_arm, texts[40:41]).vectors[0]
        usable = np.ones(len(vectors), bool)
        found = fingerprint(rows, vectors, usable, encoder, store, settings)
        judged = judge_rows(
            rows,
            vectors,
            usable,
            np.array([3, 40]),
            encoder,
            store,
            settings,
            found.summary["calibration"] | {"cut": found.summary["cut"]},
            embed_text=None,
        )
    assert judged.states == {"chunk-003": ("faithful", None), "chunk-040": ("role_mismatch", "query")}
