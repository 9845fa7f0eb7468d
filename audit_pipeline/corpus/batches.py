"""Names of batches: slugs of sources, first days of periods, partition keys. The rows of a batch are in store.py."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, overload

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.errors import AuditInputError

Grain = Literal["day", "week", "month"]

NO_SOURCE = "(none)"
SLUG_PATTERN = re.compile(r"^[a-z0-9][a-z0-9_-]{0,62}$")
_SLUG_LENGTH = 63
_OTHER = re.compile(r"[^a-z0-9_-]+")


def display_source(raw: str | None) -> str:
    """A raw source value as reports show it: null is "(none)"."""
    return NO_SOURCE if raw is None else raw


def slug(raw: str | None) -> str:
    """Partition key of a raw source value, matching ``SLUG_PATTERN``; null is "none".

    Accents are dropped and other characters become "-". Where letters of another script or length are lost, a digest
    of the raw value is appended, so that two Chinese names do not become one key.
    """
    if raw is None:
        return "none"
    decomposed = unicodedata.normalize("NFKD", raw.casefold())
    bare = "".join(character for character in decomposed if not unicodedata.combining(character))
    folded = _OTHER.sub("-", bare).strip("-_")
    lost_letters = any(character.isalnum() and not character.isascii() for character in bare)
    if folded and not lost_letters and len(folded) <= _SLUG_LENGTH:
        return folded
    digest = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{folded[: _SLUG_LENGTH - 9].rstrip('-_') or 's'}-{digest}"


def slugs_of(values: Iterable[str | None]) -> dict[str, str | None]:
    """Slug -> raw value of all distinct raw values. Raises AuditInputError where two of them have one slug."""
    slugs: dict[str, str | None] = {}
    for raw in sorted(set(values), key=lambda value: (value is not None, value or "")):
        key = slug(raw)
        if key in slugs:
            one, other = display_source(slugs[key]), display_source(raw)
            raise AuditInputError(
                f"sources: {one!r} and {other!r} both give the partition key {key!r}: rename one of them in the data"
            )
        slugs[key] = raw
    return slugs


def batch_key(period: dt.date, source_slug: str) -> str:
    """Partition key of a cell, "2026-01-02|handbook" (Dagster sorts dimensions by name)."""
    return f"{period.isoformat()}|{source_slug}"


def parse_batch_key(key: str) -> tuple[dt.date, str]:
    """(first day of the period, slug) of a partition key. Raises AuditInputError for anything else."""
    day, separator, source_slug = key.partition("|")
    try:
        period = dt.date.fromisoformat(day)
    except ValueError:
        period = None
    if period is None or not separator or not SLUG_PATTERN.match(source_slug):
        raise AuditInputError(f"{key!r} is no batch key: write the day and the source's slug as '2026-01-02|handbook'")
    return period, source_slug


def cells_of(rows: pa.Table) -> dict[str, tuple[str | None, dt.date | None]]:
    """Batch key -> (raw source, first day of the period) of rows with the fields batch, source and ingestion_date.

    The day is None where no row of the batch has a date: its key holds the day of the first audit, which says nothing
    of the rows. Rows without the field ingestion_date are taken for dated ones. Null batches are left out.
    """
    fields = ["source", *(["ingestion_date"] if "ingestion_date" in rows.column_names else [])]
    found = rows.select(["batch", *fields]).group_by(["batch"]).aggregate([(name, "min") for name in fields])
    cells: dict[str, tuple[str | None, dt.date | None]] = {}
    for row in found.to_pylist():
        if row["batch"] is not None:
            dated = row.get("ingestion_date_min", True) is not None
            cells[row["batch"]] = (row["source_min"], parse_batch_key(row["batch"])[0] if dated else None)
    return cells


@overload
def period_start(dates: dt.date, grain: Grain) -> dt.date: ...
@overload
def period_start(dates: pa.Array, grain: Grain) -> pa.Array: ...


def period_start(dates: dt.date | pa.Array, grain: Grain) -> dt.date | pa.Array:
    """First day of the period of a date or of each date of a date32 array: the day, its Monday, or the 1st."""
    if isinstance(dates, dt.date):
        return period_start(pa.array([dates], pa.date32()), grain)[0].as_py()
    if grain == "day":
        return dates.cast(pa.date32())
    return pc.floor_temporal(dates.cast(pa.date32()), unit=grain, week_starts_monday=True).cast(pa.date32())


def batch_keys(sources: pa.Array, dates: pa.Array, grain: Grain) -> pa.Array:
    """Batch key of each row, (n,) string; null where the date is null. Raises AuditInputError as ``slugs_of`` does."""
    encoded = sources.dictionary_encode()
    raw_values: list[str | None] = encoded.dictionary.to_pylist()
    slugs_of(raw_values + [None] * (sources.null_count > 0))
    slug_of_code = pa.array([*(slug(raw) for raw in raw_values), slug(None)], pa.string())
    codes = encoded.indices.fill_null(len(raw_values))
    days = pc.strftime(period_start(dates, grain), format="%Y-%m-%d")
    return pc.binary_join_element_wise(days, slug_of_code.take(codes), "|")
