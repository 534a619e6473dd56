"""Event times: the column that holds the time of a row, as microseconds.

read -> [event times] -> admission -> watermark
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from tidegate.core.arrays import Bools

US_OF_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in each unit that a whole number may count."""
_US_OF_DAY = 86_400 * US_OF_UNIT["s"]

_WITH_ZONE = ("%+", "%Y-%m-%d %H:%M:%S%.f%#z")
_WITHOUT_ZONE = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M")
_DAY = "%Y-%m-%d"

_MICROSECONDS = pl.Datetime("us")


class EventTimes(NamedTuple):
    """Microseconds since 1970 UTC, NULL where a row has no time or one that cannot be read."""

    event_us: pl.Series
    unparsable: Bools | None
    """Which rows have something there that is no time; None: none of them."""

    def without(self, unreadable: pl.Series) -> EventTimes:
        """Rows that could not be read as a whole have no time that could be read either."""
        nothing = pl.Series([None], dtype=pl.Int64).new_from_index(0, len(unreadable))
        marked = unreadable.to_numpy()
        return EventTimes(
            self.event_us.zip_with(~unreadable, nothing),
            marked if self.unparsable is None else marked | self.unparsable,
        )


def event_times(values: pl.Series, unit: str | None = None) -> EventTimes:
    """Read times from timestamps, days, ISO 8601 text, or whole numbers that count `unit`.

    What has no time zone is UTC; a day is its midnight. What is out of reach of int64
    microseconds is unparsable.

    >>> event_times(pl.Series(["1970-01-01T00:00:01Z", "soon", None])).event_us.to_list()
    [1000000, None, None]
    """
    event_us = _microseconds(values, unit).rename("event_us")
    if event_us.null_count() == values.null_count():
        return EventTimes(event_us, None)
    return EventTimes(event_us, (event_us.is_null() & values.is_not_null()).to_numpy())


def _microseconds(values: pl.Series, unit: str | None) -> pl.Series:
    if values.dtype == pl.String:
        return _parsed(values)
    if values.dtype.is_integer():
        return _scaled(values.cast(pl.Int64), US_OF_UNIT[unit or "us"])
    if values.dtype == pl.Date:
        return _scaled(values.to_physical().cast(pl.Int64), _US_OF_DAY)
    if isinstance(values.dtype, pl.Datetime):
        return _of_timestamps(values, values.dtype)
    raise TypeError(
        f"event time {values.name!r}: found type {values.dtype}, "
        "expected a timestamp, date, string or whole number"
    )


def _of_timestamps(values: pl.Series, dtype: pl.Datetime) -> pl.Series:
    if dtype.time_unit == "ms":  # a cast would not tell which ones do not fit
        return _scaled(values.to_physical(), US_OF_UNIT["ms"])
    return values.cast(pl.Datetime("us", dtype.time_zone)).to_physical()


def _scaled(values: pl.Series, factor: int) -> pl.Series:
    if factor == 1:
        return values
    longest = (2**63 - 1) // factor
    fits = values.is_between(-longest, longest)
    if not fits.all():
        values = values.zip_with(
            fits, pl.Series([None], dtype=pl.Int64).new_from_index(0, len(values))
        )
    return values * factor


def _parsed(values: pl.Series) -> pl.Series:
    """Try one form after the other, each on what the ones before could not read."""
    text = values.str.strip_chars()
    found = _read_as(text, _WITH_ZONE[0], zoned=True)
    for form in (*_WITH_ZONE[1:], *_WITHOUT_ZONE, _DAY):
        if found.null_count() == values.null_count():
            break
        missing = found.is_null() & text.is_not_null()
        rest = _read_as(text.filter(missing), form, zoned=form in _WITH_ZONE)
        found = found.scatter(missing.arg_true(), rest)
    return found


def _read_as(text: pl.Series, form: str, *, zoned: bool) -> pl.Series:
    if form == _DAY:
        return text.str.to_date(form, strict=False).cast(_MICROSECONDS).to_physical()
    dtype = pl.Datetime("us", "UTC") if zoned else _MICROSECONDS
    return text.str.strptime(dtype, form, strict=False).to_physical()
