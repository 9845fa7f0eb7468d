"""The settings of what the report calls low, and of what it shows. Everything that is measured stands elsewhere."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from audit_pipeline.settings_base import Settings, Share


class LimitSettings(Settings):
    """What the team asks of its index; a breach is a warning."""

    self_at_1: Share = Field(default=0.98, description="Least self@1.")
    self_at_10: Share = Field(default=0.995, description="Least self@10.")
    labelled_gap: Share = Field(
        default=0.10, description="Most that labelled success may stay under the held-out ceiling."
    )
    source_gap: Share = Field(default=0.15, description="Least effect that makes a stratum an anomaly.")
    ann_recall_at_10: Share = Field(default=0.95, description="Least ann_recall@10.")
    truncated: Share = Field(default=0.25, description="Most of a batch that may be longer than the encoder reads.")


class ReportSettings(Settings):
    """What the reports show."""

    text: Literal["full", "excerpt", "none"] = Field(default="excerpt", description="Corpus text in the reports.")
