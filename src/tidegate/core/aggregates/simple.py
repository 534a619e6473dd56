"""Counts, extremes, and the values at either end: one or a few numbers for each window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.aggregates.protocol import Part
from tidegate.core.arrays import Bools, Int64s, is_new
from tidegate.core.grouping import (
    Grouped,
    NameKey,
    null_where,
    reduced,
    reduced_by_polars,
    valid_counts,
)


@dataclass(frozen=True, slots=True)
class Count:
    """Rows, or the rows whose `column` is not NULL; less those that are taken back."""

    column: str | None = None

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """One number."""
        return {"n": pl.Int64()}

    def lift(self, rows: Grouped) -> Part:
        """Count by the bounds of the groups."""
        if self.column is None:
            return {"n": pl.Series(rows.sizes if rows.sign is None else rows.balance())}
        if rows.sign is not None:
            valid = rows.column(self.column).is_not_null().to_numpy()
            return {"n": pl.Series(rows.balance(valid))}
        return {"n": pl.Series(valid_counts(rows.column(self.column), rows))}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add."""
        return {"n": left["n"] + right["n"]}

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The count."""
        return part["n"]


@dataclass(frozen=True, slots=True)
class Extreme:
    """The smallest or the greatest value; NaN is greater than every number."""

    column: str
    dtype: pl.DataType
    greatest: bool

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The extreme so far."""
        return {"value": self.dtype}

    def lift(self, rows: Grouped) -> Part:
        """The extreme of each group."""
        values = rows.column(self.column)
        if not _has_numbers(self.dtype):
            by = pl.Expr.max if self.greatest else pl.Expr.min
            return {"value": reduced_by_polars(values, rows, by)}
        physical = values.cast(pl.Int8) if self.dtype == pl.Boolean else values.to_physical()
        ufunc, neutral = self._reduction(physical.dtype)
        return {"value": reduced(physical, rows, ufunc, neutral).cast(self.dtype)}

    def _reduction(self, physical: pl.DataType) -> tuple[np.ufunc, Any]:
        """How numpy finds it, and the value that never wins: NaN is ignored by `fmin` only."""
        if physical.is_float():
            return (np.maximum, -np.inf) if self.greatest else (np.fmin, np.nan)
        bits = 8 * np.dtype(str(physical).lower()).itemsize - 1
        return (np.maximum, -(2**bits)) if self.greatest else (np.minimum, 2**bits - 1)

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """The better of two; Polars orders NaN last, as we do."""
        a, b = left["value"], right["value"]
        better = a >= b if self.greatest else a <= b
        return {"value": a.zip_with(better.fill_null(value=False) | b.is_null(), b)}

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The extreme."""
        return part["value"]


@dataclass(frozen=True, slots=True)
class Edge:
    """The value of the first or the last row by event time, then position, that is not NULL.

    The position stays in state: ties are never decided by the epoch a row came in.
    """

    column: str
    dtype: pl.DataType
    latest: bool

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The value and where it stood."""
        place = dict.fromkeys(("at_us", "lane", "offset"), pl.Int64())
        return {"value": self.dtype, **place}

    def lift(self, rows: Grouped) -> Part:
        """The first or last value of each group; groups are in order already."""
        values = rows.column(self.column)
        index, empty = _edges(values, rows, latest=self.latest)
        row = rows.row[index]
        part = {
            "value": values.gather(index),
            "at_us": pl.Series(rows.events.event_us[row]),
            "lane": pl.Series(rows.events.lane[row]),
            "offset": pl.Series(rows.events.offset[row]),
        }
        if not empty.any():
            return part
        return {name: null_where(column, pl.Series(empty)) for name, column in part.items()}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """The one that stands before (or behind) the other."""
        before = _stands_before(left, right)
        keep = (~before if self.latest else before) & left["at_us"].is_not_null()
        keep |= right["at_us"].is_null()
        return {name: left[name].zip_with(keep, right[name]) for name in self.parts}

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The value."""
        return part["value"]


def _stands_before(left: Part, right: Part) -> pl.Series:
    """Whether the left position comes first; NULL positions give False."""
    tie = left["at_us"] == right["at_us"]
    same_lane = tie & (left["lane"] == right["lane"])
    before = (
        (left["at_us"] < right["at_us"])
        | (tie & (left["lane"] < right["lane"]))
        | (same_lane & (left["offset"] < right["offset"]))
    )
    return before.fill_null(value=False)


def _edges(values: pl.Series, rows: Grouped, *, latest: bool) -> tuple[Int64s, Bools]:
    """The place of the first or last valid value of each group, and the groups without one."""
    if values.null_count() == 0:
        ends = rows.starts + rows.sizes - 1
        return (ends if latest else rows.starts), np.zeros(len(rows), np.bool_)
    valid = np.flatnonzero(values.is_not_null().to_numpy())
    group = rows.group_of(valid)
    edge = is_new(group[::-1])[::-1] if latest else is_new(group)
    index, empty = rows.starts.copy(), np.ones(len(rows), np.bool_)
    index[group[edge]] = valid[edge]
    empty[group[edge]] = False
    return index, empty


def _has_numbers(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or dtype.is_float() or dtype.is_temporal() or dtype == pl.Boolean
