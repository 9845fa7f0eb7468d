"""The base of every settings class, and the checks that several of them make; no field of any setting stands here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{name!r} is no time zone: write one such as Europe/Berlin") from error
    return name


TimeZone = Annotated[str, AfterValidator(_known_zone)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Settings(BaseModel):
    """Base of all settings: an unknown field is an error, not a silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def only_under(settings: Settings, fields: Iterable[str], choice: str, value: str) -> None:
    """Refuse fields that say something only where the setting ``choice`` has this value.

    Raises ValueError with the first of them, by name, that differs from its default under another value.
    """
    if getattr(settings, choice) == value:
        return
    known = type(settings).model_fields
    given = sorted(n for n in fields if getattr(settings, n) != known[n].get_default(call_default_factory=True))
    if given:
        raise ValueError(f"{given[0]!r} belongs to {choice} {value}: remove it or change the {choice}")
