import datetime as dt

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.corpus.batches import (
    SLUG_PATTERN,
    batch_key,
    batch_keys,
    cells_of,
    parse_batch_key,
    period_start,
    slug,
)


@given(st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_source_value_has_a_slug_that_a_partition_key_can_hold(raw: str | None) -> None:
    assert SLUG_PATTERN.match(slug(raw))
    assert parse_batch_key(batch_key(dt.date(2026, 1, 2), slug(raw))) == (dt.date(2026, 1, 2), slug(raw))


def test_slugs_are_readable_where_they_can_be() -> None:
    assert [slug(raw) for raw in ("handbook", "A|b, c", "Café", None)] == ["handbook", "a-b-c", "cafe", "none"]


def test_names_that_lose_letters_stay_apart() -> None:
    assert len({slug("文档"), slug("手册"), slug("docs 文档"), slug("docs"), slug("x" * 70), slug("x" * 71)}) == 6


def test_a_week_begins_on_monday_and_a_month_on_the_first() -> None:
    sunday = dt.date(2026, 3, 1)
    assert period_start(sunday, "day") == sunday
    assert period_start(sunday, "week") == dt.date(2026, 2, 23)
    assert period_start(dt.date(2026, 3, 31), "month") == dt.date(2026, 3, 1)
    assert period_start(dt.date(1969, 12, 31), "week") == dt.date(1969, 12, 29)


def test_keys_of_rows_follow_source_and_date() -> None:
    sources = pa.array(["b", None, "b"])
    dates = pa.array([dt.date(2026, 1, 7), dt.date(2026, 1, 1), None], pa.date32())
    assert batch_keys(sources, dates, "week").to_pylist() == ["2026-01-05|b", "2025-12-29|none", None]


def test_the_cells_of_batches_have_a_day_where_any_row_has_a_date() -> None:
    day = dt.date(2026, 1, 7)
    rows = pa.table(
        {
            "batch": ["2026-01-05|a", "2026-01-05|a", "2026-01-05|b-c", "2026-01-05|none", None],
            "source": ["a", "a", "B c", None, "a"],
            "ingestion_date": pa.array([None, day, None, None, day], pa.date32()),
        }
    )
    monday = dt.date(2026, 1, 5)
    assert cells_of(rows) == {
        "2026-01-05|a": ("a", monday),
        "2026-01-05|b-c": ("B c", None),
        "2026-01-05|none": (None, None),
    }
    assert cells_of(rows.drop_columns(["ingestion_date"]))["2026-01-05|b-c"] == ("B c", monday)
