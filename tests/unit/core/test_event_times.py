"""Event times: every type that holds one, and everything that is none."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.event_times import event_times

US = 1_000_000
DAY_US = 86_400 * US
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def read(values: pl.Series, unit: str | None = None) -> tuple[list[int | None], list[bool]]:
    """Microseconds, and which values are no time."""
    found = event_times(values, unit)
    assert found.event_us.dtype == pl.Int64
    assert found.event_us.name == "event_us"
    marked = [False] * len(values) if found.unparsable is None else found.unparsable.tolist()
    return found.event_us.to_list(), marked


def us_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo", "America/New_York"])
def test_timestamps_are_instants_and_without_a_zone_utc(unit: str, zone: str | None) -> None:
    moments = [EPOCH + timedelta(seconds=12), None, EPOCH - timedelta(milliseconds=1)]
    utc = pl.Series(moments, dtype=pl.Datetime("us", "UTC"))
    values = utc.dt.convert_time_zone(zone) if zone else utc.dt.replace_time_zone(None)
    values = values.cast(pl.Datetime(unit, zone))  # type: ignore[arg-type]  # one of three words
    assert read(values) == ([12 * US, None, -1000], [False] * 3)


def test_nanoseconds_below_a_microsecond_are_cut_off_towards_the_past() -> None:
    values = pl.Series([1_999, 0, -1]).cast(pl.Datetime("ns"))
    assert read(values)[0] == [1, 0, -1]


def test_a_day_is_its_midnight() -> None:
    days = [date(1970, 1, 2), None, date(1969, 12, 31), date(1, 1, 1)]
    assert read(pl.Series(days)) == ([DAY_US, None, -DAY_US, -719_162 * DAY_US], [False] * 4)


@pytest.mark.parametrize(("unit", "factor"), [("s", US), ("ms", 1000), ("us", 1), (None, 1)])
@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt32])
def test_whole_numbers_count_their_unit(
    unit: str | None, factor: int, dtype: type[pl.DataType]
) -> None:
    values = pl.Series([0, 127, None], dtype=dtype)
    assert read(values, unit) == ([0, 127 * factor, None], [False] * 3)


@pytest.mark.parametrize(("unit", "factor"), [("s", US), ("ms", 1000)])
def test_a_number_whose_microseconds_leave_int64_is_no_time(unit: str, factor: int) -> None:
    longest = (2**63 - 1) // factor
    values = pl.Series([longest, longest + 1, -longest, -longest - 1, 2**63 - 1, -(2**63), None, 5])
    expected = [longest * factor, None, -longest * factor, None, None, None, None, 5 * factor]
    no_time = [False, True, False, True, True, True, False, False]
    assert read(values, unit) == (expected, no_time)


def test_microseconds_are_taken_as_they_are() -> None:
    values = pl.Series([2**63 - 1, -(2**63), None])
    assert read(values, "us") == (values.to_list(), [False] * 3)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:30:45Z",
        "2026-03-01T12:30:45.000Z",
        "2026-03-01T12:30:45.000000+00:00",
        "2026-03-01T13:30:45+01:00",
        "2026-03-01T18:00:45+05:30",
        "2026-03-01T12:30:45",
        "2026-03-01 12:30:45",
        "2026-03-01 12:30:45.000",
        "2026-03-01 12:30:45Z",
        "2026-03-01 12:30:45+00:00",
        "2026-03-01 13:30:45+01",
        "  2026-03-01T12:30:45Z  ",
    ],
)
def test_the_forms_in_which_people_write_an_instant_are_read(text: str) -> None:
    assert read(pl.Series([text])) == (
        [us_of(datetime(2026, 3, 1, 12, 30, 45, tzinfo=UTC))],
        [False],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01", us_of(datetime(2026, 3, 1, tzinfo=UTC))),
        ("2026-03-01T12:30", us_of(datetime(2026, 3, 1, 12, 30, tzinfo=UTC))),
        ("2026-03-01 12:30", us_of(datetime(2026, 3, 1, 12, 30, tzinfo=UTC))),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1970-01-01T00:00:00.000001", 1),
        ("2024-02-29", us_of(datetime(2024, 2, 29, tzinfo=UTC))),
    ],
)
def test_short_forms_and_edges_are_read(text: str, expected: int) -> None:
    assert read(pl.Series([text])) == ([expected], [False])


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "soon", "NaN", "12:30", "1772368245", "01.03.2026"),
        *("2026-13-01", "2026-02-30", "2026-03-01T25:00:00"),
        *("2026-03-01T12:30:45 nonsense", "2026-03-01T12:30:45+99:00"),
    ],
)
def test_what_is_no_instant_is_marked_and_not_guessed(text: str) -> None:
    assert read(pl.Series([text, None])) == ([None, None], [True, False])


def test_forms_may_be_mixed_in_one_column() -> None:
    texts = [
        "1970-01-02",
        None,
        "x",
        "1970-01-01T00:00:01Z",
        "1970-01-01 00:00:02",
        "",
        "1970-01-01T01",
    ]
    expected = [DAY_US, None, None, US, 2 * US, None, None]
    assert read(pl.Series(texts)) == (expected, [False, False, True, False, False, True, True])


def test_columns_without_a_time_or_without_rows_are_fine() -> None:
    for dtype in (pl.String(), pl.Int64(), pl.Date(), pl.Datetime("us", "UTC")):
        assert read(pl.Series([None, None], dtype=dtype), "s") == ([None, None], [False] * 2)
        assert read(pl.Series([], dtype=dtype), "s") == ([], [])


@pytest.mark.parametrize("values", [[1.5], [True], [[1]], [b"x"]])
def test_other_types_are_refused_by_name(values: list[object]) -> None:
    with pytest.raises(TypeError, match=r"event time 'when': found type .*, expected a timestamp"):
        event_times(pl.Series("when", values))


@given(st.lists(st.one_of(st.none(), MOMENTS), max_size=20), ZONES)
def test_what_is_written_in_any_zone_is_read_as_the_same_instant(
    moments: list[datetime | None], zone: timezone
) -> None:
    instants = [None if m is None else m.replace(tzinfo=UTC) for m in moments]
    expected = [None if m is None else us_of(m) for m in instants]
    texts = [None if m is None else m.astimezone(zone).isoformat() for m in instants]
    plain = [None if m is None else str(m.replace(tzinfo=None)) for m in instants]
    none = [False] * len(moments)
    assert read(pl.Series(texts, dtype=pl.String)) == (expected, none)
    assert read(pl.Series(plain, dtype=pl.String)) == (expected, none)
    assert read(pl.Series(expected, dtype=pl.Int64), "us") == (expected, none)
    assert read(pl.Series(instants, dtype=pl.Datetime("us", "UTC"))) == (expected, none)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=20))
def test_a_number_is_read_exactly_or_marked(numbers: list[int | None]) -> None:
    for unit, factor in (("s", US), ("ms", 1000), ("us", 1)):
        event_us, no_time = read(pl.Series(numbers, dtype=pl.Int64), unit)
        for number, us, odd in zip(numbers, event_us, no_time, strict=True):
            if number is None:
                assert (us, odd) == (None, False)
            elif us is None:
                assert odd
                assert abs(number * factor) >= 2**63 - factor
            else:
                assert (us, odd) == (number * factor, False)


@given(st.lists(st.text(max_size=30), max_size=20))
def test_any_text_is_a_time_or_marked(texts: list[str]) -> None:
    event_us, no_time = read(pl.Series(texts, dtype=pl.String))
    assert [us is None for us in event_us] == no_time


@pytest.mark.parametrize(
    ("dtype", "factor"),
    [(pl.Date(), 86_400 * US), (pl.Datetime("ms"), 1000), (pl.Datetime("us"), 1)],
)
@given(numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20), power=st.integers(0, 31))
def test_a_day_or_timestamp_is_read_exactly_or_marked(
    dtype: pl.DataType, factor: int, numbers: list[int], power: int
) -> None:
    """Avro has days that no timestamp reaches: 2^31 - 1, for one, where somebody means never."""
    if dtype != pl.Date():
        numbers = [number << power for number in numbers]
    values = pl.Series(numbers, dtype=pl.Int32 if dtype == pl.Date() else pl.Int64).cast(dtype)
    for number, us, odd in zip(numbers, *read(values), strict=True):
        if us is None:
            assert odd
            assert abs(number * factor) >= 2**63 - factor
        else:
            assert (us, odd) == (number * factor, False)
