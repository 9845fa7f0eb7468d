"""Real texts in a fast model's vectors, and the whole audit of a table that something else wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.encoder.planted import docstrings, static_model
from audit_pipeline_tests.processes import common_folder, made_once


@dataclass(frozen=True)
class Corpus:
    """Distinct texts of real documentation beside their vectors (n, 384) of length 1, in the model's own folder."""

    model: str
    texts: list[str]
    vectors: np.ndarray

    def rows(self, which: slice | np.ndarray | list[int], **columns: Any) -> pa.Table:
        """A table of some of the texts: chunk_id, text, what is named, vector."""
        picked = np.arange(len(self.texts))[which]
        return table_of([self.texts[n] for n in picked], self.vectors[picked], **columns)


def table_of(texts: list[str], vectors: np.ndarray, **columns: Any) -> pa.Table:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float32).ravel()), vectors.shape[1])
    ids = columns.pop("chunk_id", [f"c{n:04}" for n in range(len(texts))])
    return pa.table({"chunk_id": ids, "text": texts, **columns, "vector": lists})


@dataclass(frozen=True)
class Audit:
    """One audited table: its report, and what it says."""

    report: dict[str, Any]
    folder: Path

    @property
    def causes(self) -> dict[str, int]:
        """Causes of the self probes' misses."""
        return self.report["causes"]["self"]

    def codes(self, *severities: str) -> set[str]:
        """Codes of the findings, of these severities only where any is named."""
        return {f["code"] for f in self.report["findings"] if not severities or f["severity"] in severities}

    def finding(self, code: str) -> dict[str, Any]:
        """The one finding of this code."""
        (found,) = [finding for finding in self.report["findings"] if finding["code"] == code]
        return found

    def tables(self) -> Any:
        return load(self.folder / "state", "case")


AuditTable = Callable[..., Audit]


@pytest.fixture(scope="session")
def corpus(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    model = str(made_once(tmp_path_factory, "cases/word-means", lambda part: static_model(encoder, part)))
    loaded = load_encoder(EncoderSettings(model=model))
    assert loaded is not None
    # Of one length band: a sentence of a short text leads back to it less often, which is no fault of an index.
    found = sorted({*docstrings("rich", 300), *docstrings("lancedb", 300)})
    lengths = loaded.count_tokens(pa.array(found))
    texts = [text for text, tokens in zip(found, lengths, strict=True) if tokens >= 40]
    vectors = loaded.encode(texts)
    # Texts of the same words in another order have one vector here: keep the first of them.
    distinct = np.sort(np.unique(np.round(vectors, 4), axis=0, return_index=True)[1])[:400]
    vectors = vectors[distinct]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Corpus(model, [texts[n] for n in distinct], vectors)


@pytest.fixture(scope="session")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vector store that all audits share: each text is encoded once."""
    folder = common_folder(tmp_path_factory) / "cases" / "vectors"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def audit_table(tmp_path: Path, corpus: Corpus, encoded: Path) -> AuditTable:
    return auditing(tmp_path, corpus, encoded)


def auditing(folder: Path, corpus: Corpus, encoded: Path) -> AuditTable:
    """audit_table(table, after=..., labels=..., encoder=..., sources=..., **index): the audit of ``docs``.

    ``after`` is called with the LanceDB table before the audit: to index it, or to add to it.
    """

    def run(table: pa.Table, *, after: Callable[[Any], Any] | None = None, **attributes: Any) -> Audit:
        inside = folder / f"audit {len(list(folder.iterdir()))}"
        written = lancedb.connect(str(inside / "db")).create_table("docs", table)
        if after is not None:
            after(written)
        named = ("labels", "sources", "sample", "report", "duplicates")
        parts = {name: attributes.pop(name) for name in named if name in attributes}
        parts["sample"] = {"arms": 0, "ann_sweep": 0} | parts.get("sample", {})
        (inside / "state").mkdir()
        (inside / "state" / "vectors").symlink_to(encoded)
        encoder = {"model": corpus.model, **attributes.pop("encoder", {})}
        index = {"uri": "db", "table": "docs", "managed": False, **attributes}
        settings = parse_settings({"name": "case", "encoder": encoder, "index": index, **parts}, "test", inside)
        workspace = Workspace(settings, inside / "state")
        for asset in CORPUS_ASSETS:
            asset.stage(workspace)
        return Audit(load(inside / "state", "case").audit, inside)

    return run
