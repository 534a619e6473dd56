"""Aggregates: what a window knows of its rows.

    events -> lift -> partial -> combine -> partial ... -> lower -> value

An aggregate is a monoid over *partials*, a few columns of state each. `lift` makes partials
of groups of rows, `combine` joins partials pairwise, `lower` reads the value. Combining in
any order and grouping gives the same value (floats: but for rounding). NULLs are skipped; an
aggregate that saw nothing but NULLs is NULL (counts 0, collections empty).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.arrays import Int64s, is_new
from tidegate.core.grouping import Grouped, NameKey
from tidegate.errors import AggregateOverflow

Part = dict[str, pl.Series]
"""The columns of some partials by their short names: `{"sum": ..., "n": ...}`."""


class Aggregate(Protocol):
    """One aggregate over one column, as a monoid."""

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The columns of a partial."""
        ...

    def lift(self, rows: Grouped) -> Part:
        """The partial of each group."""
        ...

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """The partials of the nth on the left and the nth on the right together."""
        ...

    def lower(self, part: Part) -> pl.Series:
        """The value of each partial."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """Rows, or the rows whose `column` is not NULL."""

    column: str | None = None

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """One number."""
        return {"n": pl.Int64()}

    def lift(self, rows: Grouped) -> Part:
        """Count by the bounds of the groups."""
        if self.column is None:
            return {"n": pl.Series(rows.sizes)}
        return {"n": pl.Series(_valid(rows.column(self.column), rows))}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add."""
        return {"n": left["n"] + right["n"]}

    def lower(self, part: Part) -> pl.Series:
        """The count."""
        return part["n"]


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum: int64 of integers, double of floats, decimal of decimals.

    A sum that leaves its type stops the pipeline; it never wraps. `digits` bounds decimals.
    """

    column: str
    dtype: pl.DataType
    digits: int = 38

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The sum so far, NULL if there was no value."""
        return {"sum": self.dtype}

    def lift(self, rows: Grouped) -> Part:
        """Sum each group."""
        return {"sum": self._total(rows.column(self.column), rows)}

    def _total(self, values: pl.Series, rows: Grouped) -> pl.Series:
        if self.dtype == pl.Float64:
            return _reduced(values.cast(pl.Float64), rows, np.add, 0)
        if values.null_count() == len(values):
            return pl.Series([None] * len(rows), dtype=self.dtype)
        if _magnitude(values) * int(rows.sizes.max()) > self._limit:
            return self._exactly(_exact_totals(values, rows), rows.name_key)
        if self.dtype.is_decimal():
            return _by_polars(values, rows, pl.Expr.sum).cast(self.dtype)
        return _reduced(values.cast(pl.Int64), rows, np.add, 0)

    @property
    def _limit(self) -> int:
        return 10**self.digits - 1 if self.dtype.is_decimal() else 2**63 - 1

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add; where the numbers are so large that they might overflow, with exact integers."""
        a, b = left["sum"], right["sum"]
        if self.dtype != pl.Float64 and _magnitude(a) + _magnitude(b) > self._limit:
            pairs = zip(_integers(a), _integers(b), strict=True)
            totals = [_added(x, y) for x, y in pairs]
            return {"sum": self._exactly(totals, name_key)}
        total = (a.fill_null(0) + b.fill_null(0)).cast(self.dtype)
        return {"sum": _null_where(total, (a.is_null() & b.is_null()))}

    def _exactly(self, totals: Sequence[int | None], name_key: NameKey) -> pl.Series:
        """Totals of any size as the column's type; the rare path, so it may loop."""
        for nth, total in enumerate(totals):
            if total is not None and abs(total) > self._limit:
                raise AggregateOverflow(self.column, name_key(nth), _type_name(self))
        return _from_integers(totals, self.dtype)

    def lower(self, part: Part) -> pl.Series:
        """The sum, in its published type."""
        if self.dtype.is_decimal():
            return part["sum"].cast(pl.Decimal(self.digits, self.dtype.scale))
        return part["sum"]


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
            return {"value": _by_polars(values, rows, by)}
        physical = values.cast(pl.Int8) if self.dtype == pl.Boolean else values.to_physical()
        ufunc, neutral = self._reduction(physical.dtype)
        return {"value": _reduced(physical, rows, ufunc, neutral).cast(self.dtype)}

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

    def lower(self, part: Part) -> pl.Series:
        """The extreme."""
        return part["value"]


@dataclass(frozen=True, slots=True)
class Average:
    """The mean: double, or of decimals a decimal rounded half up with four digits more."""

    column: str
    total: Sum
    dtype: pl.DataType

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """Sum and count."""
        return {**self.total.parts, "n": pl.Int64()}

    def lift(self, rows: Grouped) -> Part:
        """Sum and count each group."""
        return {**self.total.lift(rows), **Count(self.column).lift(rows)}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add both."""
        return {
            **self.total.combine(left, right, name_key),
            **Count().combine(left, right, name_key),
        }

    def lower(self, part: Part) -> pl.Series:
        """Divide."""
        if not self.dtype.is_decimal():
            return part["sum"] / part["n"]
        return _decimal_mean(part["sum"], part["n"], self.dtype)


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
        return {name: _null_where(column, pl.Series(empty)) for name, column in part.items()}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """The one that stands before (or behind) the other."""
        before = _stands_before(left, right)
        keep = (~before if self.latest else before) & left["at_us"].is_not_null()
        keep |= right["at_us"].is_null()
        return {name: left[name].zip_with(keep, right[name]) for name in self.parts}

    def lower(self, part: Part) -> pl.Series:
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


def _edges(values: pl.Series, rows: Grouped, *, latest: bool) -> tuple[Int64s, npt.NDArray[Any]]:
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


def _valid(values: pl.Series, rows: Grouped) -> Int64s:
    """How many values of each group are not NULL."""
    if values.null_count() == 0:
        return rows.sizes
    return np.add.reduceat(values.is_not_null().to_numpy().astype(np.int64), rows.starts)


def _reduced(values: pl.Series, rows: Grouped, ufunc: np.ufunc, neutral: Any) -> pl.Series:
    """Numbers reduced group by group, NULL where a group has no value."""
    if values.null_count() == 0:
        return pl.Series(ufunc.reduceat(values.to_numpy(), rows.starts))
    filled = values.fill_null(neutral).to_numpy()
    result = pl.Series(ufunc.reduceat(filled, rows.starts))
    return _null_where(result, pl.Series(_valid(values, rows) == 0))


def _by_polars(values: pl.Series, rows: Grouped, by: Callable[[pl.Expr], pl.Expr]) -> pl.Series:
    """Values of types that numpy does not reduce; NULL where a group has no value."""
    group = pl.Series("group", np.repeat(np.arange(len(rows)), rows.sizes)).set_sorted()
    frame = pl.DataFrame({"group": group, "value": values})
    reduced = frame.group_by("group", maintain_order=True).agg(by(pl.col("value")))["value"]
    if values.null_count() == 0:
        return reduced
    return _null_where(reduced, pl.Series(_valid(values, rows) == 0))


def _null_where(values: pl.Series, missing: pl.Series) -> pl.Series:
    if not missing.any():
        return values
    return values.zip_with(~missing, pl.Series([None], dtype=values.dtype).new_from_index(0, len(values)))


def _has_numbers(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or dtype.is_float() or dtype.is_temporal() or dtype == pl.Boolean


def _magnitude(values: pl.Series) -> int:
    """A bound on the absolute values of integers, or of the unscaled integers of decimals."""
    low, high = values.min(), values.max()
    if low is None:
        return 0
    scale = values.dtype.scale if isinstance(values.dtype, pl.Decimal) else 0
    return max(abs(int(low.scaleb(scale) if scale else low)), abs(int(high.scaleb(scale) if scale else high)))


def _integers(values: pl.Series) -> list[int | None]:
    """Integers, or the unscaled integers of decimals, as Python's own: of any size."""
    scale = values.dtype.scale if isinstance(values.dtype, pl.Decimal) else 0
    return [None if v is None else int(v.scaleb(scale) if scale else v) for v in values]


def _from_integers(values: Sequence[int | None], dtype: pl.DataType) -> pl.Series:
    if not isinstance(dtype, pl.Decimal):
        return pl.Series(values, dtype=dtype)
    from decimal import Decimal

    return pl.Series([None if v is None else Decimal(v).scaleb(-dtype.scale) for v in values], dtype=dtype)


def _exact_totals(values: pl.Series, rows: Grouped) -> list[int | None]:
    """Sums of any size, group by group; the rare path for numbers near the limit of their type."""
    numbers = np.array([v or 0 for v in _integers(values)], dtype=object)
    totals = np.add.reduceat(numbers, rows.starts)
    return [int(t) if n else None for t, n in zip(totals, _valid(values, rows), strict=True)]


def _added(a: int | None, b: int | None) -> int | None:
    return (a or 0) + (b or 0) if a is not None or b is not None else None


def _type_name(total: Sum) -> str:
    if isinstance(total.dtype, pl.Decimal):
        return f"decimal({total.digits},{total.dtype.scale})"
    return "long"


def _decimal_mean(total: pl.Series, n: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Rounded half up, as Spark does; the quotient is cut off far behind the last digit kept."""
    wide = pc.cast(total.to_arrow(), pa.decimal256(38, total.dtype.scale))
    count = pc.cast(n.replace(0, None).to_arrow(), pa.decimal256(19, 0))
    mean = pc.round(pc.divide(wide, count), dtype.scale, round_mode="half_towards_infinity")
    return pl.Series(pc.cast(mean, pa.decimal128(dtype.precision, dtype.scale)), dtype=dtype)
