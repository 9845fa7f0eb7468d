"""Days out of every form in which tables hold dates."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from audit_pipeline.corpus.dates import days_of, holds_dates

DAY = dt.date(2026, 1, 13)
NOON = dt.datetime(2026, 1, 13, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([DAY]),
        pa.array([NOON]),
        pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ms")),
        pa.array([1768305600], pa.int64()),
        pa.array([1768305600.25], pa.float64()),
        pa.array([1768305600123], pa.int64()),
        pa.array([1768305600123.0], pa.float64()),
        pa.array([1768305600123456], pa.int64()),
        pa.array([20260113], pa.int32()),
        pa.array(["1768305600"]),
        pa.array(["1768305600123"]),
        pa.array(["1768305600.25"]),
        pa.array(["20260113"]),
        pa.array(["2026-01-13"]),
        pa.array(["2026-01-13T12:00:00.123Z"]),
        pa.array(["2026-01-14T00:30:00+01:00"]),
        pa.array(["1/13/2026, 4:05:06 PM"]),
        pa.array(["13/01/2026, 16:05:06"]),
        pa.array(["13.1.2026, 16:05:06"]),
        pa.array(["2026/1/13 16:05:06"]),
        pa.array(["2026年1月13日"]),
        pa.array(["Tue, 13 Jan 2026 16:05:06 GMT"]),
        pa.array(["Tue Jan 13 2026 16:05:06 GMT+0000"]),
        pa.array(["January 13th, 2026"]),
    ],
    ids=str,
)
def test_one_day_in_every_form(values: pa.Array) -> None:
    days, lost = days_of(values)
    assert days.to_pylist() == [DAY]
    assert not lost.any()


def test_a_column_shows_by_its_other_values_which_part_is_the_month() -> None:
    assert days_of(pa.array(["1/2/2026", "1/13/2026"]))[0][0].as_py() == dt.date(2026, 1, 2)
    assert days_of(pa.array(["1/2/2026", "13/1/2026"]))[0][0].as_py() == dt.date(2026, 2, 1)


def test_what_is_not_understood_is_null_and_counted_and_a_null_is_not() -> None:
    days, lost = days_of(
        pa.array(["1/2/2026", None, "soon", "13/13/2026", "3/3/2026", "1/2/26", "99999999999999999999"])
    )
    assert days.to_pylist() == [None, None, None, None, dt.date(2026, 3, 3), None, None]
    assert lost.tolist() == [True, False, True, True, False, True, True]


def test_two_orders_in_one_column_leave_the_ambiguous_ones_out() -> None:
    days, _ = days_of(pa.array(["1/13/2026", "13/1/2026", "1/2/2026"]))
    assert days.to_pylist() == [DAY, DAY, None]


def test_numbers_that_are_no_epoch_are_no_dates() -> None:
    days, lost = days_of(pa.array([7.0, float("nan"), float("inf"), 20261399.0, -5.5]))
    assert days.null_count == 5
    assert lost.all()


def test_types_that_hold_no_dates() -> None:
    assert not holds_dates(pa.bool_())
    with pytest.raises(TypeError):
        days_of(pa.array([True]))
