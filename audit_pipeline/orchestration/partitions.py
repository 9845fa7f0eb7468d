"""The batch partitions: source x ingestion date. What a batch holds is the corpus room's business."""

from __future__ import annotations

import datetime as dt

import dagster as dg

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.batches import period_start
from audit_pipeline.orchestration.naming import source_partitions_name


def grid_start(settings: IndexAuditSettings, start_date: dt.date | None) -> dt.date:
    """First day of the first period of the grid: of the start date, of today where there is none yet."""
    return period_start(start_date or dt.datetime.now(settings.zone).date(), settings.ingestion_grain)


def batch_partitions(settings: IndexAuditSettings, start_date: dt.date | None) -> dg.MultiPartitionsDefinition:
    """Cells of one index. Keys read "2026-01-02|handbook": dimension names join in alphabetical order.

    Without a start date (none configured and nothing ingested yet) the grid begins today and is empty until the
    first run has found the earliest date.
    """
    start = grid_start(settings, start_date).isoformat()
    # end_offset 1: the current day, week or month is a cell too, or today's rows would have to wait for it to end.
    zone = settings.timezone
    dates: dg.TimeWindowPartitionsDefinition
    if settings.ingestion_grain == "month":
        dates = dg.MonthlyPartitionsDefinition(start_date=start, end_offset=1, timezone=zone)
    elif settings.ingestion_grain == "week":
        dates = dg.WeeklyPartitionsDefinition(start_date=start, day_offset=1, end_offset=1, timezone=zone)
    else:
        dates = dg.DailyPartitionsDefinition(start_date=start, end_offset=1, timezone=zone)
    sources = dg.DynamicPartitionsDefinition(name=source_partitions_name(settings))
    return dg.MultiPartitionsDefinition({"source": sources, "ingestion_date": dates})
