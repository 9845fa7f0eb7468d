"""The settings of one part of the source store. What one format has to itself stands in format_settings."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field, field_validator, model_validator

from audit_pipeline.column_settings import CHUNK_COLUMNS, ColumnPath, check_columns
from audit_pipeline.format_settings import LanceSettings, MarkdownSettings
from audit_pipeline.settings_base import Settings, only_under
from audit_pipeline.uris import holds_credentials

_OBJECT_STORES = ("s3", "gs", "az")


class SourceSettings(Settings):
    """One part of the source store: what should be in the index."""

    name: str = Field(description="Source name as it appears in findings; '*' takes every value of the source column.")
    uri: str = Field(
        description=(
            "File, folder or glob; for format lance a table (x.lance) or its database, for docstrings the name of an "
            "installed distribution."
        )
    )
    format: Literal["parquet", "jsonl", "csv", "lance", "markdown", "docstrings"] = Field(
        description="How the rows are stored."
    )
    columns: dict[str, ColumnPath | None] = Field(
        default_factory=dict,
        description=(
            "Where each chunk field stands in the data: {chunk_id: id, text: body}; default: the same names. A column; "
            "metadata.source in a struct; payload$.content in a JSON string; a list for a composite chunk_id, source, "
            "doc_id or heading, as in index.columns; null where a column of that name means something else."
        ),
    )
    ingestion_date: dt.date | None = Field(
        default=None, description="Date of all rows where the data has no date column; default: the file's date."
    )
    retired: bool = Field(
        default=False,
        description=(
            "A managed index only: nothing comes from here any more, and nothing is read. The rows it brought stay in "
            "the table and in every audit, and are written anew from the state folder where the table or the encoder "
            "is another; without the entry they would be deleted."
        ),
    )
    packages: list[str] = Field(
        default_factory=list,
        description="Format docstrings only: dotted packages to read; default: all of the distribution but its tests.",
    )
    markdown: MarkdownSettings | None = Field(
        default=None, description="Format markdown only: how files are cut into chunks, under their headings."
    )

    lance: LanceSettings | None = Field(default=None, description="Format lance only: which table, which version.")
    storage_options: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description=(
            "Credentials, region and endpoint of the object store that the uri names, in LanceDB's words as in "
            "index.storage_options; default: the environment's."
        ),
    )

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, columns: dict[str, ColumnPath | None]) -> dict[str, ColumnPath | None]:
        for field in ("chunk_id", "text"):
            if field in columns and columns[field] is None:
                raise ValueError(f"{field!r} cannot be null: name its column, a source store needs it")
        return check_columns(columns, CHUNK_COLUMNS)

    @model_validator(mode="after")
    def _one_place_for_credentials(self) -> SourceSettings:
        scheme, found, _ = self.uri.partition("://")
        if holds_credentials(self.uri):
            raise ValueError(
                "'uri' holds credentials, which messages would repeat: set them under 'storage_options' or in the "
                "environment"
            )
        stores = _OBJECT_STORES if self.format != "lance" else (scheme,) if found and scheme != "file" else ()
        if self.storage_options and scheme not in (stores if found else ()):
            raise ValueError(
                "'storage_options' belongs to an object store (s3://, gs://, az://): remove it or correct the uri"
            )
        return self

    @model_validator(mode="after")
    def _fields_of_one_format(self) -> SourceSettings:
        only_under(self, ("packages",), "format", "docstrings")
        for name in ("markdown", "lance"):
            only_under(self, (name,), "format", name)
        others = [field for field in self.columns if field != "ingestion_date"]
        if self.format == "markdown" and others:
            raise ValueError(
                f"'columns' of format markdown names the date in the front matter alone: remove {others[0]!r}, "
                "which comes from the file"
            )
        return self
