"""How known writers lay out their tables, as data, and how a table is recognised. Nothing is read or cast here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from audit_pipeline.corpus.paths import is_text
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.paths import find_path
from audit_pipeline.index.vectors import is_vector_type

LLAMA_INDEX_NODE = "metadata._node_content"
REGISTRY = "lancedb_registry"


@dataclass(frozen=True)
class Layout:
    """One writer's habits.

    ``columns`` are its places for each chunk field, the first that a table holds; an empty tuple says that the writer
    has no such field. A field that is not there has its default name. ``marks`` are the places that all must be there
    for a table to be recognised, ``never`` those that none may be. ``zeros_meant``: a zero vector is written on
    purpose where nothing was embedded. ``embed_text`` is what the writer embeds where that is not the text.
    ``metric`` is what its own search asks for.
    """

    name: str
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    never: tuple[str, ...] = ("chunk_id",)
    structs: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    zeros_meant: bool = False
    embed_text: str | None = None
    metric: str = "l2"


PLAIN = Layout("plain", metric="l2")

# A file's or page's name is the document, not the source: sources are what a team feeds, and batches are made of them.
LAYOUTS = (
    Layout(
        "llama_index",
        {"chunk_id": ("id",), "doc_id": ("doc_id", "metadata.ref_doc_id"), "source": ()},
        marks=("id", "text", "vector", LLAMA_INDEX_NODE),
        embed_text="{before_text}{text}",
    ),
    Layout(
        "langchain",
        {"chunk_id": ("id",), "doc_id": ("metadata.source",), "source": ()},
        marks=("id", "text", "vector", "metadata"),
        structs=("metadata",),
    ),
    Layout(
        "haystack",
        {
            "chunk_id": ("id",),
            "text": ("content",),
            "doc_id": ("meta.source_id", "meta.file_path"),
            "position": ("meta.split_id",),
            "source": (),
        },
        marks=("id", "content", "vector", "meta"),
        structs=("meta",),
    ),
    Layout(
        "haiku_rag",
        {
            "chunk_id": ("id",),
            "text": ("content",),
            "doc_id": ("document_id",),
            "position": ("order",),
            "heading": ("documents[id=document_id].title",),
            "ingestion_date": ("documents[id=document_id].created_at",),
            "source": (),
        },
        marks=("id", "content", "vector", "document_id"),
        zeros_meant=True,
    ),
    Layout(
        "anythingllm",
        {
            "chunk_id": ("id",),
            "doc_id": ("url", "title"),
            "heading": ("title",),
            "ingestion_date": ("published",),
            "source": (),
        },
        marks=("id", "text", "vector", "title", "docSource"),
        metric="cosine",
    ),
    Layout(
        "agno",
        {"chunk_id": ("id",), "text": ("payload$.content",), "doc_id": ("payload$.name",), "source": ()},
        marks=("id", "vector", "payload"),
        texts=("payload",),
        metric="cosine",
    ),
    Layout(
        "crewai",
        {"chunk_id": ("id",), "text": ("content",), "doc_id": ("scope",), "ingestion_date": ("created_at",)},
        marks=("id", "content", "vector", "scope", "metadata_str"),
        zeros_meant=True,
    ),
    Layout(
        "cognee",
        {
            "chunk_id": ("id",),
            "text": ("payload.text",),
            "doc_id": ("payload.document_id",),
            "position": ("payload.chunk_index",),
            "source": (),
        },
        marks=("id", "vector", "payload.text"),
        metric="cosine",
    ),
    Layout(
        "openclaw",
        {"chunk_id": ("id",), "source": ("category",), "ingestion_date": ("createdAt",)},
        marks=("id", "text", "vector", "category", "createdAt"),
    ),
    Layout(
        "nv_ingest",
        {"doc_id": ("source",), "source": ()},
        marks=("text", "vector", "source", "metadata"),
        never=("chunk_id", "id"),
    ),
    Layout(
        "graphrag",
        {"chunk_id": ("id_field", "id"), "vector": ("vector_field", "vector"), "text": (), "source": ()},
        zeros_meant=True,
    ),
)


def layout_of(schema: pa.Schema, name: str, table: str) -> tuple[Layout, str]:
    """The layout of a table and what that rests on, in words. ``name`` is auto, or the layout to take.

    Raises AuditInputError where the table lacks what the named layout needs.
    """
    if name == "auto":
        return _recognised(schema)
    if name == "plain":
        return PLAIN, "named in the settings"
    if name == REGISTRY:
        found = _registry(schema)
        if found is None:
            raise AuditInputError(
                f"index.layout: table {table!r} has no 'embedding_functions' in its schema's metadata: "
                "use auto, or plain with index.columns"
            )
        return found, "named in the settings"
    layout = next(layout for layout in LAYOUTS if layout.name == name)
    lacking = [place for place in layout.marks if find_path(schema, place) is None]
    if lacking:
        raise AuditInputError(
            f"index.layout: table {table!r} has no {lacking[0]!r}, which layout {name} needs; "
            f"columns are {', '.join(schema.names)}: use auto, or plain with index.columns"
        )
    return layout, "named in the settings"


def embedding_functions(schema: pa.Schema) -> list[dict]:
    """What LanceDB's registry keeps in the schema's metadata: name, model, source_column, vector_column of each."""
    raw = (schema.metadata or {}).get(b"embedding_functions")
    try:
        listed = json.loads(raw) if raw else []
    except ValueError:
        return []
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _recognised(schema: pa.Schema) -> tuple[Layout, str]:
    for layout in LAYOUTS:
        if layout.marks and _fits(schema, layout):
            return layout, f"its columns {', '.join(layout.marks)}"
    registry = _registry(schema)
    if registry is not None:
        return registry, "the embedding_functions in its schema's metadata"
    if _has_no_text(schema):
        return LAYOUTS[-1], "a vector, an id and no text"
    return PLAIN, "no other layout fits"


def _fits(schema: pa.Schema, layout: Layout) -> bool:
    if any(find_path(schema, place) is None for place in layout.marks) or any(n in schema.names for n in layout.never):
        return False
    structs = all(pa.types.is_struct(schema.field(name).type) for name in layout.structs)
    return structs and all(is_text(schema.field(name).type) for name in layout.texts)


def _registry(schema: pa.Schema) -> Layout | None:
    for entry in embedding_functions(schema):
        text, vector = str(entry.get("source_column")), str(entry.get("vector_column"))
        if text in schema.names and vector in schema.names and "chunk_id" not in schema.names:
            return Layout(REGISTRY, {"chunk_id": ("id",), "text": (text,), "vector": (vector,)})
    return None


def _has_no_text(schema: pa.Schema) -> bool:
    ids = {"id_field", "id"}
    others = [column for column in schema if column.name not in ids and not is_vector_type(column.type)]
    vectors = any(column.name in ("vector_field", "vector") for column in schema if is_vector_type(column.type))
    return vectors and bool(ids & set(schema.names)) and not any(is_text(column.type) for column in others)
