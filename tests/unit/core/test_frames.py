"""Frames brought to the columns that somebody expects."""

from __future__ import annotations

import polars as pl
from polars.testing import assert_frame_equal

from tidegate.core.frames import with_schema


def test_rows_get_the_columns_that_are_expected_in_their_order() -> None:
    rows = pl.DataFrame({"c": [3], "odd": [{"x": 1}], "a": [1]})
    schema = pl.Schema({"a": pl.Int32(), "b": pl.List(pl.String()), "c": pl.Int64()})
    expected = pl.DataFrame({"a": [1], "b": [None], "c": [3]}, schema=schema)
    assert_frame_equal(with_schema(rows, schema), expected)


def test_no_rows_stay_no_rows() -> None:
    rows = pl.DataFrame({"a": []}, schema={"a": pl.Int64()})
    assert with_schema(rows, pl.Schema({"b": pl.String(), "a": pl.Int64()})).height == 0
