"""Rows as text: what has no text is NULL, and stops nobody."""

from __future__ import annotations

import json

import polars as pl

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
