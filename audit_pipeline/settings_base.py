"""The base of every settings class; no field of any setting stands here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Base of all settings: an unknown field is an error, not a silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)
