"""Days out of the forms in which dates are stored: typed, ISO, epoch, as people write them. No column is named here."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UTC = ZoneInfo("UTC")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Seconds of an epoch from 1973 to 5138; a thousand times that is milliseconds, and so on. Smaller numbers are no epoch.
_LEAST, _MOST = 1e8, 1e11
_PARTS_A_SECOND = (1, 1_000, 1_000_000, 1_000_000_000)
_NUMERIC = re.compile(r"^(\d{1,4})([./-])\s?(\d{1,2})\2\s?(\d{1,4})(?!\d)")
_IDEOGRAPHS = re.compile(r"^(\d{4})年(\d{1,2})月(\d{1,2})日")
_DAY_NAME_YEAR = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)?\.?[ -]([A-Za-z]{3,9})\.?,?[ -](\d{4})\b")
_NAME_DAY_YEAR = re.compile(r"\b([A-Za-z]{3,9})\.?\s(\d{1,2})(?:st|nd|rd|th)?,?\s(\d{4})\b")
# A zone behind a time of day that is not ISO's: "16:05 GMT", "16:05:06 -0500", "GMT-0500 (Eastern Standard Time)".
_ZONED = re.compile(
    r"(?:\s*(?P<name>UTC|GMT|(?<=\d)Z))?\s*(?P<offset>(?<![\d/.])[+-]\d{2}:?\d{2})?(?:\s*\(.*\)|\sUTC)?$"
)
_CLOCK = re.compile(r"\b(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?:[.,]\d+)?\s*(?P<half>[aApP])?")
_MONTHS = "january february march april may june july august september october november december".split()


def holds_dates(kind: pa.DataType) -> bool:
    """Whether values of this Arrow type can be days."""
    return (
        pa.types.is_null(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
    )


@dataclass(frozen=True)
class Days:
    """What gives the rows of a file their days: the ``zone`` in which times fall on one, and the file's ``own`` day."""

    zone: ZoneInfo
    own: dt.date


def days_of(array: pa.Array, zone: ZoneInfo = UTC) -> tuple[pa.Array, np.ndarray]:
    """(date32 days in the zone (n,), (n,) bool: values that are there but were not understood), of any such type.

    Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970 by their size, or 20260131. A time
    without a zone is local there, so its day is the one that it names. ``1/2/2026`` is understood where other values
    of the column show which of the two is the month; English month names and year-first forms always are.
    Raises TypeError for another type.
    """
    kind = array.type
    if pa.types.is_null(kind) or pa.types.is_date(kind):
        days = array.cast(pa.date32())
    elif pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp(kind.unit))  # dropping the zone leaves the UTC instant
        if kind.tz is None or zone is UTC:
            days = pc.floor_temporal(array, unit="day").cast(pa.date32())
        else:
            seconds = pc.floor_temporal(array, unit="second").cast(pa.timestamp("s")).cast(pa.int64())
            days = _distinct(seconds, lambda values: [_day_of_second(value, zone) for value in values])
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        days = _distinct(array, lambda values: [_day_of_number(value, zone) for value in values])
    elif holds_dates(kind):
        days = _distinct(array.cast(pa.string()), lambda values: _days_of_strings(values, zone))
    else:
        raise TypeError(f"{kind} holds no dates")
    lost = days.is_null().to_numpy(zero_copy_only=False) & array.is_valid().to_numpy(zero_copy_only=False)
    return days, lost


def are_ambiguous(array: pa.Array, lost: np.ndarray) -> np.ndarray:
    """(n,) bool: which of the values that were not understood are days like 03/04/2026, of either order."""
    found = np.zeros(len(array), dtype=bool)
    if pa.types.is_binary(array.type):
        array = array.cast(pa.string(), safe=False)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        places = np.flatnonzero(lost)
        found[places] = [_is_either(value) for value in array.take(pa.array(places)).to_pylist()]
    return found


def _is_either(value: str | None) -> bool:
    match = _NUMERIC.match(value.strip()) if value else None
    if match is None or match[2] == "." or len(match[1]) > 2 or len(match[4]) != 4:
        return False
    one, other = int(match[1]), int(match[3])
    return one != other and 1 <= one <= 12 and 1 <= other <= 12


def _distinct(array: pa.Array, read: Callable[[list], list[dt.date | None]]) -> pa.Array:
    encoded = array.dictionary_encode()
    return pa.array(read(encoded.dictionary.to_pylist()), pa.date32()).take(encoded.indices)


def _day_of_second(second: float, zone: ZoneInfo) -> dt.date | None:
    try:
        return (_EPOCH + dt.timedelta(seconds=second)).astimezone(zone).date()
    except OverflowError:
        return None


def _day_of_number(value: float, zone: ZoneInfo) -> dt.date | None:
    for parts in _PARTS_A_SECOND:
        if _LEAST * parts <= abs(value) < _MOST * parts:
            return _day_of_second(value // parts, zone)  # rounded, the last nanosecond of a day were the next one's
    if value == value and abs(value) < _LEAST and value == int(value):
        return _day_of_digits(str(int(value)))
    return None


def _day_of_digits(digits: str) -> dt.date | None:
    return _day(int(digits[:4]), int(digits[4:6]), int(digits[6:])) if re.fullmatch(r"[12]\d{7}", digits) else None


def _days_of_strings(values: list[str], zone: ZoneInfo) -> list[dt.date | None]:
    day_first = _day_comes_first(values)
    return [_day_of_string(value.strip(), day_first, zone) for value in values]


def _day_comes_first(values: list[str]) -> bool | None:
    """Which order the column's slashed dates have; None where no value shows it, or values contradict each other."""
    shown = set()
    for value in values:
        found = _NUMERIC.match(value.strip())
        if found and found[2] != "." and len(found[1]) <= 2 and len(found[4]) == 4:
            first, second = int(found[1]), int(found[3])
            shown |= {True} if first > 12 >= second else {False} if second > 12 >= first else set()
    return shown.pop() if len(shown) == 1 else None


def _day_of_string(value: str, day_first: bool | None, zone: ZoneInfo) -> dt.date | None:
    if value.isdigit() and value.isascii():
        return (
            _day_of_digits(value) if len(value) == 8 else _day_of_number(int(value), zone) if len(value) < 20 else None
        )
    try:
        moment = dt.datetime.fromisoformat(value)
        return (moment if moment.tzinfo is None else moment.astimezone(zone)).date()
    except (ValueError, OverflowError):
        pass
    found = _ZONED.search(value)
    if found and (found["name"] or found["offset"]) and (clock := _CLOCK.search(value, 0, found.start())):
        day = _day_of_string(value[: found.start()], day_first, zone)
        moved = None if day is None else _moved(day, clock, found["offset"] or "+0000", zone)
        if moved is not None:
            return moved
    if found := _NUMERIC.match(value):
        return _day_of_parts(found[1], found[3], found[4], True if found[2] == "." else day_first)
    if found := _IDEOGRAPHS.match(value):
        return _day(int(found[1]), int(found[2]), int(found[3]))
    if found := _DAY_NAME_YEAR.search(value):
        return _day(int(found[3]), _month(found[2]), int(found[1]))
    if found := _NAME_DAY_YEAR.search(value):
        return _day(int(found[3]), _month(found[1]), int(found[2]))
    try:
        return _day_of_number(float(value), zone)
    except (ValueError, OverflowError):
        return None


def _moved(day: dt.date, clock: re.Match[str], offset: str, zone: ZoneInfo) -> dt.date | None:
    """The day in the zone of a time of day at an offset from UTC."""
    hours, minutes = int(offset[1:3]), int(offset[-2:])
    hour = int(clock["hour"]) % 12 + 12 * (clock["half"] in "pP") if clock["half"] else int(clock["hour"])
    try:
        fixed = dt.timezone((-1 if offset[0] == "-" else 1) * dt.timedelta(hours=hours, minutes=minutes))
        moment = dt.datetime.combine(day, dt.time(hour, int(clock["minute"]), int(clock["second"] or 0)), fixed)
        return moment.astimezone(zone).date()
    except (ValueError, OverflowError):
        return None


def _day_of_parts(first: str, second: str, third: str, day_first: bool | None) -> dt.date | None:
    if len(first) == 4:
        return _day(int(first), int(second), int(third))
    if len(third) != 4:
        return None
    year, one, other = int(third), int(first), int(second)
    if day_first is None and one <= 12 and other <= 12 and one != other:
        return None
    month, day = (other, one) if day_first or one > 12 else (one, other)
    return _day(year, month, day)


def _month(name: str) -> int:
    """1 to 12 of an English month name or its first letters; 0 for anything else."""
    return next((place for place, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())), 0)


def _day(year: int, month: int, day: int) -> dt.date | None:
    try:
        return dt.date(year, month, day)
    except ValueError:
        return None
