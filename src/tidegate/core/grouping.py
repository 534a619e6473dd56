"""Grouped rows: what an aggregate sees of the rows that entered windows in one epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidegate.core.arrays import Bools, Int64s, spans
from tidegate.core.frames import nulls
from tidegate.core.rows import Rows

NameKey = Callable[[int], dict[str, Any]]
"""The key of the nth group, for the message of an error."""


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """Rows in groups that stand one behind the other, each in order of event time and position.

    `row` picks rows of `events`; a row may be in several groups. Groups are never empty.
    """

    events: Rows
    row: Int64s
    starts: Int64s
    name_key: NameKey
    _ordered: dict[str, pl.Series] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> Int64s:
        """The number of rows of each group."""
        return spans(self.starts, len(self.row))

    def column(self, name: str) -> pl.Series:
        """A column of the rows in group order; taken once, however many aggregates read it."""
        if name not in self._ordered:
            self._ordered[name] = self.events.columns[name].gather(self.row)
        return self._ordered[name]

    @cached_property
    def sign(self) -> Int64s | None:
        """The sign of each row in group order; None: all are added."""
        return None if self.events.sign is None else self.events.sign[self.row]

    def balance(self, counted: Bools | None = None) -> Int64s:
        """How many rows each group adds, less those that it takes back; all, or those `counted`."""
        one = np.int64(1) if self.sign is None else self.sign
        return self.added_up(
            one * (np.ones(len(self.row), np.bool_) if counted is None else counted)
        )

    def added_up(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum of a number of each row, group by group."""
        return np.add.reduceat(numbers, self.starts) if len(self) else numbers

    def group_of(self, index: Int64s) -> Int64s:
        """The group in which each of the given places of `row` lies."""
        return np.searchsorted(self.starts, index, side="right") - 1


def lists_of(values: pl.Series, group: Int64s, groups: int) -> pl.Series:
    """One list for each group, of the values that stand in it; `group` is ascending.

    >>> lists_of(pl.Series(["a", "b"]), np.array([1, 1]), 3).to_list()
    [[], ['a', 'b'], []]
    """
    bounds = np.searchsorted(group, np.arange(groups + 1))
    lists = pa.LargeListArray.from_arrays(pa.array(bounds), values.to_arrow())
    return pl.Series(values.name, lists, dtype=pl.List(values.dtype))


def list_lengths(lists: pl.Series) -> Int64s:
    """The length of each list; NULL counts as empty."""
    return lists.list.len().fill_null(0).to_numpy().astype(np.int64)


def valid_counts(values: pl.Series, rows: Grouped) -> Int64s:
    """How many values of each group are not NULL."""
    if values.null_count() == 0:
        return rows.sizes
    return np.add.reduceat(values.is_not_null().to_numpy().astype(np.int64), rows.starts)


def reduced(values: pl.Series, rows: Grouped, ufunc: np.ufunc, neutral: Any) -> pl.Series:
    """Numbers reduced group by group, NULL where a group has no value."""
    if len(values) == 0:
        return values
    filled = values.fill_null(neutral) if values.null_count() else values
    with np.errstate(over="ignore", invalid="ignore"):  # floats: infinity and NaN are results
        result = pl.Series(ufunc.reduceat(filled.to_numpy(), rows.starts))
    return null_where(result, pl.Series(valid_counts(values, rows) == 0))


def reduced_by_polars(
    values: pl.Series, rows: Grouped, by: Callable[[pl.Expr], pl.Expr]
) -> pl.Series:
    """Values of types that numpy does not reduce; NULL where a group has no value."""
    group = pl.Series("group", np.repeat(np.arange(len(rows)), rows.sizes)).set_sorted()
    frame = pl.DataFrame({"group": group, "value": values})
    result = frame.group_by("group", maintain_order=True).agg(by(pl.col("value")))["value"]
    return null_where(result, pl.Series(valid_counts(values, rows) == 0))


def null_where(values: pl.Series, missing: pl.Series) -> pl.Series:
    """The values, NULL where they are `missing`."""
    if not missing.any():
        return values
    return values.zip_with(~missing, nulls(len(values), values.dtype))
