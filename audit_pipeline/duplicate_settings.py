"""The settings of the near-duplicate search; those of a second vector stand in second_settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from audit_pipeline.second_settings import SecondVectorSettings
from audit_pipeline.settings_base import Settings, Share


class DuplicateSettings(Settings):
    """Lanes, verification and sweep of the near-duplicate search."""

    shingle_words: int = Field(default=5, ge=1, description="Words in a shingle.")
    permutations: int = Field(default=128, ge=16, description="Hash functions of a MinHash signature.")
    bands: int = Field(default=32, ge=1, description="LSH bands; permutations must divide by it.")
    jaccard: Share = Field(default=0.7, description="Jaccard at which a candidate pair is verified.")
    containment: Share = Field(default=0.9, description="Containment at which a candidate pair is verified.")
    neighbours: int = Field(default=20, ge=1, description="Distinct texts kept as neighbours of each.")
    thresholds: list[Share] = Field(
        default=[0.90, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99], min_length=2, description="Cosine thresholds of the sweep."
    )
    regime: Literal["stored", "query"] = Field(
        default="stored",
        description=(
            "stored: stored vectors on both sides. query: the newer text of a pair in the query role against the older "
            "one's stored vector, for a team that checks new text so; encodes every text once more."
        ),
    )
    second: SecondVectorSettings | None = Field(
        default=None, description="Second vectors, under another prompt, to judge by the same labels; null: none."
    )
    bucket_cap: int = Field(default=200, ge=2, description="Rows of one LSH bucket above which it is joined as a star.")
    runner: Literal["native", "ray"] = Field(
        default="native",
        description=(
            "Where Daft joins the LSH bands: native is this machine; ray the cluster at RAY_ADDRESS, or a local one."
        ),
    )
    twin_similarity: Share = Field(default=0.8, description="Word-sequence similarity from which two texts are twins.")
    floor_pairs: int = Field(default=200_000, ge=100, description="Random pairs behind the similarity floor.")

    @field_validator("thresholds")
    @classmethod
    def _ascending(cls, thresholds: list[float]) -> list[float]:
        distinct = sorted(set(thresholds))
        if len(distinct) < 2:
            raise ValueError(f"a sweep takes at least two different thresholds, not {distinct[0]:g} alone: add another")
        return distinct

    @model_validator(mode="after")
    def _bands_divide(self) -> DuplicateSettings:
        if self.permutations % self.bands:
            raise ValueError(
                f"{self.permutations} permutations do not divide into {self.bands} bands: change one of them"
            )
        return self
