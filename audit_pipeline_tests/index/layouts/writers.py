"""Tables as their writers leave them: schema, ids, metadata, zero vectors, stand-ins, indexes. Written from scratch."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import IvfFlat

Writer = Callable[[Path, list[str], np.ndarray], str]
"""writer(database folder, texts (n,), vectors (n, d) float32 of what it embeds) -> name of the table."""

DAYS = [dt.date(2026, 1, 5) + dt.timedelta(days=i) for i in range(3)]
FILES = ["guide.md", "api.md", "faq.md"]


def uuids(texts: list[str], space: str) -> list[str]:
    return [str(uuid.uuid5(uuid.NAMESPACE_URL, f"{space}/{i}")) for i in range(len(texts))]


def file_of(row: int) -> str:
    return f"docs/{FILES[row % len(FILES)]}"


def day_of(row: int) -> dt.date:
    return DAYS[row % len(DAYS)]


def column(vectors: np.ndarray, kind: Any = np.float32) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(kind).reshape(-1)), vectors.shape[1])


def created(uri: Path, name: str, columns: dict[str, Any]) -> Any:
    return lancedb.connect(str(uri)).create_table(name, pa.table(columns))


def plain(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    ids = [f"c{i:03}" for i in range(len(texts))]
    days = [day_of(i) for i in range(len(texts))]
    created(uri, "docs", {"chunk_id": ids, "text": texts, "ingestion_date": days, "vector": column(vectors)})
    return "docs"


def langchain(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    """No index; the metadata's fields are those of the first batch."""
    metadata = [{"source": file_of(i), "page": i} for i in range(len(texts))]
    ids = uuids(texts, "langchain")
    created(uri, "vectorstore", {"vector": column(vectors), "id": ids, "text": texts, "metadata": metadata})
    return "vectorstore"


def llama_index_node(row: int) -> dict[str, Any]:
    """The node of a row as it is stored: without its text, with all that says what was embedded."""
    return {
        "id_": str(uuid.uuid5(uuid.NAMESPACE_URL, f"llama/{row}")),
        "embedding": None,
        "metadata": {"file_name": FILES[row % 3], "section": f"Part {row // 3}", "file_size": 4096 + row},
        "excluded_embed_metadata_keys": ["file_size"],
        "excluded_llm_metadata_keys": ["file_size"],
        "relationships": {},
        "metadata_template": "{key}: {value}",
        "metadata_separator": "\n",
        "text": "",
        "text_template": "{metadata_str}\n\n{content}",
        "class_name": "TextNode",
    }


def llama_index_embedded(texts: list[str]) -> list[str]:
    """What LlamaIndex hands the encoder for these texts: lines of the metadata that is not excluded, then the text."""
    return [f"file_name: {FILES[i % 3]}\nsection: Part {i // 3}\n\n{text}" for i, text in enumerate(texts)]


def llama_index(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    """Nodes without a source: doc_id is a column of type null, and ref_doc_id is "None" as text."""
    nodes = [llama_index_node(i) for i in range(len(texts))]
    metadata = [
        {**node["metadata"], "_node_content": json.dumps(node), "_node_type": "TextNode", "ref_doc_id": "None"}
        for node in nodes
    ]
    columns = {
        "id": [node["id_"] for node in nodes],
        "doc_id": pa.nulls(len(texts)),
        "vector": column(vectors),
        "text": texts,
        "metadata": metadata,
    }
    created(uri, "vectors", columns)
    return "vectors"


def haystack(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    ids = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    meta = [{"source_id": file_of(i), "split_id": i // 3, "page_number": 1} for i in range(len(texts))]
    created(uri, "documents", {"id": ids, "content": texts, "vector": column(vectors), "meta": meta})
    return "documents"


def haiku_rag(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    """Chunks, documents and settings; a chunk that is not embedded yet has a zero vector."""
    documents = [f"document-{i}" for i in range(3)]
    created(
        uri,
        "documents",
        {
            "id": documents,
            "content": ["whole text"] * 3,
            "uri": [f"file:///{name}" for name in FILES],
            "title": FILES,
            "metadata": ["{}"] * 3,
            "created_at": [f"{day.isoformat()}T08:00:00.123456" for day in DAYS],
        },
    )
    created(uri, "settings", {"id": ["settings"], "settings": ["{}"]})
    waiting = ["A chunk that waits for its vector.", "Another chunk that waits."]
    rows = [*texts, *waiting]
    columns = {
        "id": uuids(rows, "haiku"),
        "document_id": [documents[i % 3] for i in range(len(rows))],
        "content": rows,
        "metadata": ["{}"] * len(rows),
        "order": [i // 3 for i in range(len(rows))],
        "vector": column(np.concatenate([vectors, np.zeros((len(waiting), vectors.shape[1]), np.float32)])),
    }
    created(uri, "chunks", columns)
    return "chunks"


def anythingllm(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    """One table a workspace; dates as a browser writes them."""
    columns = {
        "id": uuids(texts, "anything"),
        "vector": column(vectors),
        "url": [f"file:///{file_of(i)}" for i in range(len(texts))],
        "title": [FILES[i % 3] for i in range(len(texts))],
        "docAuthor": ["Unknown"] * len(texts),
        "docSource": ["a text file uploaded by the user."] * len(texts),
        "published": [f"1/{13 + i % 3}/2026, 4:05:06 PM" for i in range(len(texts))],
        "wordCount": pa.array([float(len(text.split())) for text in texts]),
        "text": anythingllm_texts(texts),
    }
    created(uri, "my-workspace", columns)
    return "my-workspace"


def anythingllm_texts(texts: list[str]) -> list[str]:
    """The stored text, which is the embedded one: each chunk behind a block about its document."""
    head = "<document_metadata>\nsourceDocument: {}\n</document_metadata>\n\n{}"
    return [head.format(FILES[i % 3], text) for i, text in enumerate(texts)]


def agno(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    payloads = [
        json.dumps({"name": file_of(i), "meta_data": {"page": i}, "content": text, "user_id": None})
        for i, text in enumerate(texts)
    ]
    ids = [hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() for text in texts]
    created(uri, "knowledge", {"vector": column(vectors), "id": ids, "payload": payloads})
    return "knowledge"


def crewai(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    """A memory without an embedding has a zero vector; the table began with a stand-in that may still be there."""
    rows = [*texts, "A memory that was never embedded.", "__schema_placeholder__"]
    empty = np.zeros((2, vectors.shape[1]), np.float32)
    columns = {
        "id": [*uuids(rows[:-1], "crew"), "__schema_placeholder__"],
        "content": rows,
        "scope": [f"/team/{i % 3}" for i in range(len(rows))],
        "categories_str": ["[]"] * len(rows),
        "metadata_str": ["{}"] * len(rows),
        "importance": [0.5] * len(rows),
        "created_at": [f"{day_of(i).isoformat()}T10:00:00" for i in range(len(rows))],
        "source": [["chat", "tool"][i % 2] for i in range(len(rows))],
        "vector": column(np.concatenate([vectors, empty])),
    }
    created(uri, "memories", columns)
    return "memories"


def cognee(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    ids = uuids(texts, "cognee")
    payload = [
        {"id": ids[i], "text": text, "document_id": f"document-{i % 3}", "chunk_index": i // 3}
        for i, text in enumerate(texts)
    ]
    created(uri, "DocumentChunk_text", {"id": ids, "vector": column(vectors), "payload": payload})
    return "DocumentChunk_text"


def openclaw(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    noon = [dt.datetime.combine(day_of(i), dt.time(12), dt.UTC).timestamp() * 1000 for i in range(len(texts))]
    columns = {
        "id": uuids(texts, "claw"),
        "text": texts,
        "vector": column(vectors),
        "importance": [0.7] * len(texts),
        "category": [["fact", "decision"][i % 2] for i in range(len(texts))],
        "createdAt": pa.array(noon, pa.float64()),
    }
    created(uri, "memories", columns)
    return "memories"


def nv_ingest(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    """No id at all; the metadata is a page number as text."""
    columns = {
        "vector": column(vectors),
        "text": texts,
        "metadata": [str(i // 3) for i in range(len(texts))],
        "source": [file_of(i) for i in range(len(texts))],
    }
    created(uri, "nv-ingest", columns)
    return "nv-ingest"


def graphrag(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    """No text; the index is built over one stand-in, and the rows come after it."""
    dummy = np.zeros((1, vectors.shape[1]), np.float32)
    table = created(uri, "default-entity", {"id_field": ["__DUMMY__"], "vector_field": column(dummy)})
    table.create_index("vector_field", config=IvfFlat(distance_type="l2", num_partitions=1))
    table.add(pa.table({"id_field": uuids(texts, "graph"), "vector_field": column(vectors)}))
    return "default-entity"


def lancedb_registry(uri: Path, texts: list[str], vectors: np.ndarray) -> str:
    """A LanceModel's table: no id, and the schema's metadata says what was embedded with which model."""
    table = pa.table({"code": texts, "language": ["en"] * len(texts), "embedding": column(vectors)})
    function = {
        "name": "sentence-transformers",
        "model": {"name": "all-MiniLM-L6-v2"},
        "source_column": "code",
        "vector_column": "embedding",
    }
    metadata = {"embedding_functions": json.dumps([function])}
    lancedb.connect(str(uri)).create_table("snippets", table.replace_schema_metadata(metadata))
    return "snippets"


WRITERS: dict[str, Writer] = {
    writer.__name__: writer
    for writer in (
        plain,
        langchain,
        llama_index,
        haystack,
        haiku_rag,
        anythingllm,
        agno,
        crewai,
        cognee,
        openclaw,
        nv_ingest,
        graphrag,
        lancedb_registry,
    )
}
WITH_TEXT = [name for name in WRITERS if name != "graphrag"]
WITH_DATES = ["plain", "haiku_rag", "anythingllm", "crewai", "openclaw"]

EMBEDDED: dict[str, Callable[[list[str]], list[str]]] = {
    "llama_index": llama_index_embedded,
    "anythingllm": anythingllm_texts,
}
"""What is embedded where that is not the text handed to the writer."""
