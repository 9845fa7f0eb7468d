"""The settings of what Dagster's daemon does by itself, and when. Of Dagster only its reading of cron is known here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from audit_pipeline.settings_base import Settings, TimeZone


def _known_cron(cron: str) -> str:
    from dagster._utils.schedules import is_valid_cron_schedule  # slow to import, and most settings have the default

    if not is_valid_cron_schedule(cron):
        raise ValueError(f"{cron!r} is no cron schedule: write five fields such as '0 5 * * *'")
    return cron


class AutomationSettings(Settings):
    """What Dagster's daemon does by itself."""

    mode: Literal["manual", "sensors", "conditions"] = Field(
        default="manual",
        description=(
            "manual: nothing, though the sensor and the schedule can be turned on in the UI. sensors: a sensor asks "
            "for each batch that is new, changed or emptied, and a schedule for the audit. conditions: automation "
            "conditions on the assets do, and the audit follows the batches."
        ),
    )
    history: Literal["ingest", "wait"] = Field(
        default="ingest",
        description=(
            "Batches that a source already has when it is seen first: ingest them, or wait for a backfill. What "
            "arrives afterwards is always ingested."
        ),
    )
    every_seconds: int = Field(default=60, ge=1, description="Least time from one look at the sources to the next.")
    audit_cron: Annotated[str, AfterValidator(_known_cron)] = Field(
        default="0 5 * * *", description="When the index is audited: five cron fields."
    )
    timezone: TimeZone | None = Field(
        default=None, description="Time zone of audit_cron, such as Europe/Berlin; default: the index's own."
    )
    fresh_hours: float = Field(
        default=26, gt=0.02, description="Hours after which the report is stale; nothing is where the mode is manual."
    )
