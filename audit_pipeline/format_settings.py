"""The settings that one format of a source has to itself: Markdown, Lance. Nothing is read here."""

from __future__ import annotations

from pydantic import Field, model_validator

from audit_pipeline.settings_base import Settings


class MarkdownSettings(Settings):
    """Length of the chunks that a Markdown file is cut into, within its sections."""

    words: int = Field(
        default=200, ge=1, description="Most words of a chunk; a code block stays whole. A CJK character is a word."
    )
    overlap: int = Field(
        default=0,
        ge=0,
        description="Words that a chunk repeats from the one before it in its section; every one is stored twice.",
    )

    @model_validator(mode="after")
    def _moves_on(self) -> MarkdownSettings:
        if self.overlap >= self.words:
            raise ValueError(f"an overlap of {self.overlap} in chunks of {self.words} words: lower it")
        return self


class LanceSettings(Settings):
    """Which table of a LanceDB database is read, and at which version."""

    table: str | None = Field(
        default=None, description="Name of the table; default: the uri is a table (x.lance), or has one table only."
    )
    version: int | None = Field(default=None, ge=1, description="Version that is read; default: the newest.")
