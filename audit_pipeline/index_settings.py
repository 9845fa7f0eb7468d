"""The settings of the LanceDB table under audit, its ANN index and the application's search. Nothing is opened here."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from audit_pipeline.column_settings import CHUNK_COLUMNS, ColumnPath, check_columns
from audit_pipeline.settings_base import Settings
from audit_pipeline.uris import holds_credentials


class VectorIndexSettings(Settings):
    """The ANN index of a managed table."""

    type: Literal["IVF_HNSW_SQ", "IVF_HNSW_PQ", "IVF_PQ", "IVF_FLAT", "none"] = Field(
        default="IVF_HNSW_SQ", description="LanceDB index type; none keeps the search exact."
    )
    min_rows: int = Field(
        default=5000, ge=256, description="Under this many rows no ANN index is built and the search stays exact."
    )


class SearchSettings(Settings):
    """The search as the application sends it."""

    limit: int = Field(default=10, ge=1, description="Rows the application asks for.")
    nprobes: int | None = Field(default=None, ge=1, description="IVF partitions searched; default: LanceDB's own.")
    ef: int | None = Field(default=128, ge=1, description="HNSW search breadth; ignored by other index types.")
    refine_factor: int | None = Field(default=None, ge=1, description="Re-rank limit x factor rows exactly.")
    fast_search: bool = Field(default=False, description="Search indexed rows only.")
    prefilter: bool = Field(default=True, description="Filter before the search (true) or after it (false).")
    min_score: float | None = Field(
        default=None,
        description=(
            "The application's cut-off: answers of a lower score are dropped. The score is 1 - _distance under cosine "
            "and dot, and 1 - _distance / 2 under l2, the cosine of vectors of length one."
        ),
    )
    max_distance: float | None = Field(
        default=None, description="The same cut-off as a _distance of LanceDB: answers further away are dropped."
    )

    @property
    def cutoff(self) -> dict[str, float]:
        """What is set of the application's cut-off, by the name of its setting."""
        named = {"min_score": self.min_score, "max_distance": self.max_distance}
        return {name: value for name, value in named.items() if value is not None}

    def furthest(self, metric: str) -> float | None:
        """The largest ``_distance`` that the application's cut-off lets through; None without one."""
        scored = None if self.min_score is None else (1 - self.min_score) * (2 if metric == "l2" else 1)
        return min((limit for limit in (scored, self.max_distance) if limit is not None), default=None)


class IndexSettings(Settings):
    """The LanceDB table under audit."""

    uri: str | None = Field(
        default=None, description="LanceDB folder or object store URI; default: in the state folder."
    )
    table: str = Field(default="chunks", description="Name of the table; '*': all tables of one shape, each a source.")
    managed: bool = Field(
        default=True, description="true: this project writes the table; false: read only, as it stands."
    )
    layout: Literal[
        "auto",
        "plain",
        "langchain",
        "llama_index",
        "haystack",
        "haiku_rag",
        "anythingllm",
        "agno",
        "crewai",
        "cognee",
        "openclaw",
        "nv_ingest",
        "graphrag",
        "lancedb_registry",
    ] = Field(default="auto", description="Shape of a table written by something else; auto recognises it.")
    columns: dict[str, ColumnPath | None] = Field(
        default_factory=dict,
        description=(
            "Where each field stands in the table; default: the same names. A column; metadata.source in a struct; "
            "payload$.content in a JSON string; documents[id=document_id].uri in another table; a list for a composite "
            "chunk_id, source, doc_id or heading; null where the table has no such field."
        ),
    )
    embed_text: str | None = Field(
        default=None,
        description="What was encoded: a column, or a template such as '{heading}\\n\\n{text}'; default: the text.",
    )
    metric: Literal["cosine", "l2", "dot"] = Field(
        default="cosine", description="Metric the application searches with."
    )
    filter: str | None = Field(
        default=None,
        description=(
            "SQL filter that the application always sends; {column} or '{column}' is filled from the probe's own row "
            "(tenants), {{ and }} are braces."
        ),
    )
    vector_index: VectorIndexSettings = Field(default_factory=VectorIndexSettings, description="ANN index to build.")
    search: SearchSettings = Field(default_factory=SearchSettings, description="The application's search.")
    storage_options: dict[str, str] = Field(
        default_factory=dict, repr=False, description="Object store options for LanceDB."
    )

    @field_validator("uri")
    @classmethod
    def _no_credentials(cls, uri: str | None) -> str | None:
        if uri is not None and holds_credentials(uri):
            raise ValueError(
                "it holds credentials, which messages would repeat: set them under 'storage_options' or in the "
                "environment"
            )
        return uri

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, columns: dict[str, ColumnPath | None]) -> dict[str, ColumnPath | None]:
        if "vector" in columns and columns["vector"] is None:
            raise ValueError("'vector' cannot be null: name the column of the vectors")
        return check_columns(columns, (*CHUNK_COLUMNS, "vector"))
