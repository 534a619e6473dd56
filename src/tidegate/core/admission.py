"""Admission: which rows may take part at all, before any watermark sees them.

    [admission] -> watermark -> lateness -> windows / joins -> emission

A rejected row is never lost: it keeps its reason and goes to the channel `rejected`, or is
counted. It moves no watermark, so a poisonous time cannot close everybody's windows.
"""

from __future__ import annotations

import polars as pl

from tidegate.core.arrays import Bools
from tidegate.eventtime import EARLIEST_EVENT_US, FOREVER, LATEST_EVENT_US, plus

NO_EVENT_TIME = "no_event_time"
UNPARSABLE = "unparsable"
OUT_OF_RANGE = "out_of_range"
FUTURE = "future"

OF_THE_EVENT_TIME = (NO_EVENT_TIME, UNPARSABLE, OUT_OF_RANGE, FUTURE)
"""Reasons that lie in the event time alone, whatever the policies of a source."""


def admit(
    event_us: pl.Series,
    *,
    now_us: int | None,
    max_future_skew_us: int | None,
    unparsable: Bools | None = None,
) -> pl.Series:
    """Find the first reason to reject each row, NULL where it is admitted.

    `unparsable`: NULL, and marked so. `no_event_time`: any other NULL. `out_of_range`: outside
    [EARLIEST_EVENT_US, LATEST_EVENT_US). `future`: after `now_us + max_future_skew_us`; exactly
    there is admitted, and with `max_future_skew_us` None there is no such limit.

    >>> admit(pl.Series([5, None, 11]), now_us=7, max_future_skew_us=3).to_list()
    [None, 'no_event_time', 'future']
    """
    if event_us.dtype != pl.Int64:
        raise TypeError(f"event_us: found {event_us.dtype}, expected Int64 microseconds")
    latest_us = _latest_admitted(now_us, max_future_skew_us)
    if _all_within(event_us, latest_us):
        return pl.Series("reason", [None], dtype=pl.String).new_from_index(0, len(event_us))
    time = pl.col("event_us")
    in_range = (time >= EARLIEST_EVENT_US) & (time < LATEST_EVENT_US)
    marked = pl.lit(False) if unparsable is None else pl.Series("unparsable", unparsable)
    reason = (
        pl.when(time.is_null() & marked)
        .then(pl.lit(UNPARSABLE))
        .when(time.is_null())
        .then(pl.lit(NO_EVENT_TIME))
        .when(~in_range)
        .then(pl.lit(OUT_OF_RANGE))
        .when(time > latest_us)
        .then(pl.lit(FUTURE))
    )
    return pl.DataFrame({"event_us": event_us}).select(reason.alias("reason")).to_series()


def _latest_admitted(now_us: int | None, max_future_skew_us: int | None) -> int:
    if max_future_skew_us is None:
        return FOREVER
    if now_us is None:
        raise ValueError("max_future_skew_us is given without now_us: nothing to compare with")
    return plus(now_us, max_future_skew_us)


def _all_within(event_us: pl.Series, latest_us: int) -> bool:
    """Whether every row is admitted: the common case, seen from two numbers."""
    if event_us.null_count():
        return False
    earliest, latest = event_us.min(), event_us.max()
    if not isinstance(earliest, int) or not isinstance(latest, int):
        return True
    return earliest >= EARLIEST_EVENT_US and latest < LATEST_EVENT_US and latest <= latest_us
