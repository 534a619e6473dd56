"""Rows of several inputs as one, in order of position."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tidegate.core.rows import Rows, together


def events(*rows: tuple[int, int, str | None], column: str = "user") -> Rows:
    """Rows of a lane, an offset, and a value."""
    lanes, offsets, values = zip(*rows, strict=True) if rows else ((), (), ())
    return Rows(
        event_us=np.array(offsets, np.int64),
        lane=np.array(lanes, np.int64),
        offset=np.array(offsets, np.int64),
        key_hash=np.array(offsets, np.int64),
        columns=pl.DataFrame({column: pl.Series(values, dtype=pl.String)}),
    )


def rows_of(found: Rows) -> list[tuple[object, ...]]:
    columns = found.columns.rows() or [()] * len(found)
    places = zip(found.lane.tolist(), found.offset.tolist(), strict=True)
    return [(*place, *row) for place, row in zip(places, columns, strict=True)]


def test_inputs_come_together_in_order_of_position() -> None:
    inputs = [events((0, 5, "a"), (0, 6, "b")), events((0, 1, "c"), (1, 0, "d"))]
    assert rows_of(together(inputs)) == [(0, 1, "c"), (0, 5, "a"), (0, 6, "b"), (1, 0, "d")]


def test_an_input_without_rows_adds_nothing() -> None:
    inputs = [events(column="other"), events((0, 1, "a")), events()]
    assert together(inputs) is inputs[1]
    assert together([inputs[0], inputs[2]]) is inputs[0]


def test_a_column_that_one_input_does_not_have_is_null_there() -> None:
    found = together([events((0, 1, "a")), events((1, 1, "b"), column="page")])
    assert found.columns.columns == ["user", "page"]
    assert rows_of(found) == [(0, 1, "a", None), (1, 1, None, "b")]


def test_inputs_without_columns_come_together() -> None:
    bare = [
        Rows(
            event_us=each.event_us,
            lane=each.lane,
            offset=each.offset,
            key_hash=each.key_hash,
            columns=pl.DataFrame(),
        )
        for each in (events((0, 2, None)), events((0, 1, None)))
    ]
    assert rows_of(together(bare)) == [(0, 1), (0, 2)]


def test_rows_in_order_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(np, "lexsort")
    found = together([events((0, 5, "a")), events((0, 6, "b"), (1, 0, "c"))])
    assert rows_of(found) == [(0, 5, "a"), (0, 6, "b"), (1, 0, "c")]
