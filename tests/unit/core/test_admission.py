from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.admission import admit
from tidegate.eventtime import BEGINNING, EARLIEST_EVENT_US, FOREVER, LATEST_EVENT_US


def reasons(
    times_us: list[int | None], now_us: int | None = None, skew_us: int | None = None
) -> list[str | None]:
    event_us = pl.Series(times_us, dtype=pl.Int64)
    found = admit(event_us, now_us=now_us, max_future_skew_us=skew_us)
    assert found.dtype == pl.String
    return found.to_list()


def test_a_row_without_event_time_is_rejected() -> None:
    assert reasons([None, 5]) == ["no_event_time", None]


def test_times_outside_the_range_are_rejected_and_its_bounds_are_half_open() -> None:
    times_us: list[int | None] = [
        BEGINNING,
        EARLIEST_EVENT_US - 1,
        EARLIEST_EVENT_US,
        LATEST_EVENT_US - 1,
        LATEST_EVENT_US,
        FOREVER,
    ]
    out = "out_of_range"
    assert reasons(times_us) == [out, out, None, None, out, out]


def test_a_row_exactly_at_the_future_limit_is_admitted() -> None:
    assert reasons([1010, 1011], now_us=1000, skew_us=10) == [None, "future"]


def test_without_a_limit_the_future_is_admitted() -> None:
    assert reasons([10**15], now_us=0, skew_us=None) == [None]


def test_a_time_out_of_range_is_not_called_future() -> None:
    assert reasons([LATEST_EVENT_US], now_us=0, skew_us=10) == ["out_of_range"]


def test_a_limit_beyond_all_times_does_not_overflow() -> None:
    assert reasons([10**15], now_us=10**15, skew_us=FOREVER) == [None]


def test_no_rows_give_no_reasons() -> None:
    assert reasons([], now_us=0, skew_us=0) == []


def test_a_limit_without_a_clock_is_refused() -> None:
    with pytest.raises(ValueError, match="without now_us"):
        reasons([5], now_us=None, skew_us=10)


def test_times_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match="found Float64, expected Int64"):
        admit(pl.Series([1.5]), now_us=None, max_future_skew_us=None)


@given(
    times_us=st.lists(st.none() | st.integers(BEGINNING, FOREVER) | st.integers(-50, 50)),
    now_us=st.integers(-50, 50),
    skew_us=st.none() | st.integers(0, 20),
)
def test_admission_agrees_with_its_definition(
    times_us: list[int | None], now_us: int, skew_us: int | None
) -> None:
    def reason(time_us: int | None) -> str | None:
        if time_us is None:
            return "no_event_time"
        if not EARLIEST_EVENT_US <= time_us < LATEST_EVENT_US:
            return "out_of_range"
        return "future" if skew_us is not None and time_us > now_us + skew_us else None

    assert reasons(times_us, now_us, skew_us) == [reason(time_us) for time_us in times_us]
