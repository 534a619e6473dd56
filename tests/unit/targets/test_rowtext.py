"""Rows as text: what has no text is NULL, and stops nobody."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tidegate.targets.rowtext import readable, to_csv, to_json, to_json_lines

FAR = 2**63 - 1


def test_times_that_no_calendar_has_are_null() -> None:
    """Some of them between others, in lists, and where NULL hides one."""
    times = pl.Series([FAR, 0, None, -FAR, 8_210_298_412_800_000_000])
    table = pl.DataFrame(
        {
            "us": times.cast(pl.Datetime("us", "UTC")),
            "ms": times.cast(pl.Datetime("ms")),
            "ns": times.cast(pl.Datetime("ns")),
            "day": pl.Series([2**31 - 1, 0, None, -(2**31), 96_000_000], dtype=pl.Int32).cast(
                pl.Date
            ),
        }
    ).with_columns(all=pl.concat_list("us"))
    found = [json.loads(line) for line in to_json_lines(table).splitlines()]
    assert [row["us"] for row in found] == [None, "1970-01-01T00:00:00.000000Z", None, None, None]
    assert [row["ms"] for row in found] == [None, "1970-01-01T00:00:00.000000", None, None, None]
    assert [row["day"] for row in found] == [None, "1970-01-01", None, None, None]
    assert [row["ns"][:4] for row in found if row["ns"]] == ["2262", "1970", "1677", "2230"]
    assert [row["all"] for row in found] == [[row["us"]] for row in found]
    assert [json.loads(row) for row in to_json(table)] == found
    assert to_csv(table).count(b"\n") == 6
    assert readable(table)["day"].to_list() == [None, "1970-01-01", None, None, None]


LAST_DAY = 95_026_236
"""From 1970 to the last day of the year 262142."""
DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("last", "dtype", "text"),
    [
        (LAST_DAY, pl.Date(), "+262142-12-31"),
        (
            (LAST_DAY + 1) * DAY_US - 1,
            pl.Datetime("us", "UTC"),
            "+262142-12-31T23:59:59.999999Z",
        ),
        ((LAST_DAY + 1) * DAY_US - 1, pl.Datetime("us"), "+262142-12-31T23:59:59.999999"),
    ],
)
def test_the_last_time_of_the_calendar_has_a_text_and_the_next_has_none(
    last: int, dtype: pl.DataType, text: str
) -> None:
    dtype_of_numbers = pl.Int32() if isinstance(dtype, pl.Date) else pl.Int64()
    times = pl.Series("at", [last, last + 1], dtype=dtype_of_numbers).cast(dtype)
    found = [json.loads(row)["at"] for row in to_json(times.to_frame())]
    assert found == [text, None]
    assert to_csv(times.to_frame()).decode().splitlines()[:2] == ["at", text]
