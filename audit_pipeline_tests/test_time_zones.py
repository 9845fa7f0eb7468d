"""On which day a time falls: zones of the data against the zone of the settings, with days that clocks change on."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from zoneinfo import ZoneInfo

import lancedb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context

from audit_pipeline.corpus.dates import days_of
from audit_pipeline.corpus.stamps import store_stamp
from audit_pipeline.index.reading import open_snapshot
from audit_pipeline.orchestration import partitions
from audit_pipeline.stages import workspace
from audit_pipeline_tests.corpus.builders import settings_of, store_of, write_jsonl

UTC, TOKYO, NEW_YORK, BERLIN, APIA = map(
    ZoneInfo, ("UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin", "Pacific/Apia")
)


def day(value: object, zone: ZoneInfo, kind: pa.DataType | None = None) -> str:
    days, lost = days_of(pa.array([value], kind), zone)
    assert not lost.any()
    return days[0].as_py().isoformat()


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-13T23:30:00Z",
        "2026-01-13T23:30:00.123456789Z",
        "2026-01-13 23:30:00 +0000",
        "2026-01-13 18:30:00 -0500",
        "2026-01-14 08:30 UTC+09:00",
        "Tue, 13 Jan 2026 23:30:00 GMT",
        "Tue, 13 Jan 2026 18:30:00 -0500",
        "Tue Jan 13 2026 18:30:00 GMT-0500 (Eastern Standard Time)",
        "1/13/2026, 11:30:00 PM UTC",
        1768347000,
        1768347000000,
        "1768347000.5",
        dt.datetime(2026, 1, 13, 23, 30, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 14, 8, 30, tzinfo=TOKYO),
    ],
    ids=str,
)
def test_half_past_eleven_in_utc_is_the_next_day_in_tokyo(value: object) -> None:
    assert [day(value, zone) for zone in (UTC, TOKYO, NEW_YORK)] == ["2026-01-13", "2026-01-14", "2026-01-13"]


@pytest.mark.parametrize(
    "value",
    [
        dt.date(2026, 1, 13),
        dt.datetime(2026, 1, 13, 23, 30),
        "2026-01-13",
        "2026-01-13 23:30",
        "20260113",
        20260113,
        "Tue, 13 Jan 2026 23:30:00",
        "13.1.2026, 23:30",
        "2026年1月13日",
    ],
    ids=str,
)
def test_a_date_and_a_time_without_a_zone_are_local(value: object) -> None:
    assert {day(value, zone) for zone in (UTC, TOKYO, NEW_YORK)} == {"2026-01-13"}


@pytest.mark.parametrize(
    ("moment", "zone", "expected"),
    [
        ("2026-03-28T22:59:59", BERLIN, "2026-03-28"),  # 23:59:59, one hour ahead of UTC
        ("2026-03-28T23:00:00", BERLIN, "2026-03-29"),  # midnight, before the clock goes forward at 2
        ("2026-03-29T21:59:59", BERLIN, "2026-03-29"),  # 23:59:59, two hours ahead
        ("2026-03-29T22:00:00", BERLIN, "2026-03-30"),
        ("2026-10-24T22:00:00", BERLIN, "2026-10-25"),
        ("2026-10-25T22:59:59", BERLIN, "2026-10-25"),  # a day of 25 hours
        ("2026-10-25T23:00:00", BERLIN, "2026-10-26"),
        ("2011-12-30T09:59:59", APIA, "2011-12-29"),  # Samoa went over the date line and had no 30 December
        ("2011-12-30T10:00:00", APIA, "2011-12-31"),
    ],
)
def test_days_on_which_clocks_change(moment: str, zone: ZoneInfo, expected: str) -> None:
    aware = dt.datetime.fromisoformat(moment + "+00:00")
    seconds = int(aware.timestamp())
    assert day(f"{moment}Z", zone) == expected
    assert day(aware, zone) == day(aware, zone, pa.timestamp("ns", "Asia/Tokyo")) == expected
    assert day(seconds, zone) == day(seconds * 1000 + 999, zone) == expected
    assert day(seconds * 10**9 + 999_999_999, zone) == expected  # as a float this is the second after


def test_what_only_looks_like_a_zone_is_none() -> None:
    for value in ("13 Jan 2026 (late)", "13-01-2026", "2026-01-13 23:30 Uhr", "2026-01-13 23:30:00 -9900"):
        assert day(value, TOKYO) == "2026-01-13"


def test_every_format_and_the_audited_table_take_the_zone(tmp_path: Path) -> None:
    late = dt.datetime(2026, 3, 1, 20, tzinfo=dt.UTC)  # the second of March in Tokyo
    row = {"chunk_id": "a", "text": "t"}
    write_jsonl(tmp_path / "a.jsonl", [row | {"ingestion_date": "2026-03-01T20:00:00Z"}])
    pq.write_table(pa.Table.from_pylist([row | {"ingestion_date": late}]), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("chunk_id,text\na,t\n")  # no dates: the file's own
    (tmp_path / "a.md").write_text("---\ndate: 2026-03-01 20:00:00 +0000\n---\ntext\n")
    os.utime(tmp_path / "a.csv", (late.timestamp(), late.timestamp()))
    lancedb.connect(str(tmp_path / "db")).create_table("a", pa.Table.from_pylist([row | {"ingestion_date": late}]))
    entries = {name: {"uri": str(tmp_path / f"a.{name}")} for name in ("jsonl", "parquet", "csv")}
    entries["lance"] = {"uri": str(tmp_path / "db")}
    for zone, expected in (("UTC", "2026-03-01|s"), ("Asia/Tokyo", "2026-03-02|s")):
        for name, entry in entries.items():
            assert list(store_of({"name": "s", "format": name, **entry}, timezone=zone).scan().batches) == [expected]
        dated = {
            "name": "s",
            "format": "markdown",
            "uri": str(tmp_path / "a.md"),
            "columns": {"ingestion_date": "date"},
        }
        assert list(store_of(dated, timezone=zone).scan().batches) == [expected]


def test_the_zone_is_part_of_what_decides_the_batches(tmp_path: Path) -> None:
    entry = {"name": "s", "uri": write_jsonl(tmp_path / "a.jsonl", [{"chunk_id": "a"}]), "format": "jsonl"}
    later = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    stamps = {store_stamp(settings_of(entry, timezone=zone), later.date(), later) for zone in ("UTC", "Asia/Tokyo")}
    assert len(stamps - {None}) == 2


class _Evening(dt.datetime):
    """Eight in the evening of the first of March in London; the second has begun in Tokyo."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
        return dt.datetime(2026, 3, 1, 20, tzinfo=dt.UTC).astimezone(tz)


@pytest.mark.parametrize(("zone", "today"), [("Asia/Tokyo", "2026-03-02"), ("UTC", "2026-03-01")])
def test_today_is_the_zones_own_for_rows_and_for_the_grid(
    tmp_path: Path, zone: str, today: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"chunk_id": day, "text": "t", "ingestion_date": day} for day in ("2026-03-01", "2026-03-02", "2026-03-03")]
    entry = {"name": "s", "uri": write_jsonl(tmp_path / "a.jsonl", rows), "format": "jsonl"}
    settings = settings_of(entry, timezone=zone)
    monkeypatch.setattr(workspace.dt, "datetime", _Evening)
    assert partitions.grid_start(settings, None).isoformat() == today
    scan = workspace.Workspace(settings, tmp_path / "state").scan()
    assert max(scan.batches) == f"{today}|s"
    monkeypatch.undo()
    grid = partitions.batch_partitions(settings, dt.date(2026, 3, 1))
    dates = grid.get_partitions_def_for_dimension("ingestion_date")
    with partition_loading_context(effective_dt=dt.datetime(2026, 3, 1, 20, tzinfo=dt.UTC)):
        assert dates.get_last_partition_key() == today


def test_dates_of_the_audited_table_fall_on_the_same_days_as_those_of_its_store(tmp_path: Path) -> None:
    late = dt.datetime(2026, 3, 1, 20, tzinfo=dt.UTC)
    row = {"chunk_id": "a", "text": "t", "vector": [1.0, 0.0], "ingestion_date": late}
    lancedb.connect(str(tmp_path / "db")).create_table("t", pa.Table.from_pylist([row]))
    settings = settings_of(index_uri=str(tmp_path / "db")).index
    for zone, expected in ((UTC, dt.date(2026, 3, 1)), (TOKYO, dt.date(2026, 3, 2))):
        snapshot = open_snapshot(
            settings, str(tmp_path / "db"), tmp_path / zone.key, undated=dt.date(2026, 1, 1), zone=zone
        )
        assert snapshot.rows["ingestion_date"].to_pylist() == [expected]
