"""The settings of a second vector per chunk, made for comparing passages with passages. Nothing is read here."""

from __future__ import annotations

from pydantic import Field, model_validator

from audit_pipeline.settings_base import Settings, Share


class SecondVectorSettings(Settings):
    """Vectors to compare with the table's own on the same labels: a column, or the texts under another prompt."""

    vector: str | None = Field(
        default=None,
        description="Column of an index as it stands; default: the audit encodes the texts, and writes them nowhere.",
    )
    passage_prompt: str | None = Field(
        default=None, description="Prompt of the second vectors; needed where the audit encodes them."
    )
    thresholds: list[Share] | None = Field(
        default=None, min_length=2, description="Cosine thresholds of the second sweep; default: those of the first."
    )

    @model_validator(mode="after")
    def _named(self) -> SecondVectorSettings:
        if self.vector is None and self.passage_prompt is None:
            raise ValueError("neither 'vector' nor 'passage_prompt': name the column, or the prompt to encode under")
        return self
