"""Sums and means, which must never be wrong by an overflow.

Numbers are added in their column type as long as a bound on their size shows that nothing
can overflow. Otherwise, which is rare, they are added as Python's integers, and a total that
does not fit stops the pipeline, naming the key and the column.

Where rows may be taken back, a sum also counts its values: without any it is NULL again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.aggregates.protocol import Call, Part
from tidegate.core.aggregates.simple import Count
from tidegate.core.arrays import Bools
from tidegate.core.grouping import (
    Grouped,
    NameKey,
    null_where,
    reduced,
    reduced_by_polars,
    valid_counts,
)
from tidegate.errors import AggregateOverflow

_WIDE = Context(prec=100)


@dataclass(frozen=True, slots=True)
class FloatSum:
    """The sum of floats, or of numbers as floats: a double."""

    column: str

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The sum so far, NULL if there was no value."""
        return {"sum": pl.Float64()}

    def lift(self, rows: Grouped) -> Part:
        """Sum each group."""
        return {"sum": reduced(rows.column(self.column).cast(pl.Float64), rows, np.add, 0.0)}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add."""
        return {"sum": _added(left["sum"], right["sum"])}

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The sum."""
        return part["sum"]


@dataclass(frozen=True, slots=True)
class ExactSum:
    """The sum of integers as int64, of decimals as a decimal of `digits` digits.

    A sum that leaves its type stops the pipeline. `scale` is None for integers.
    """

    column: str
    digits: int = 0
    scale: int | None = None

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The sum so far, NULL if there was no value."""
        return {"sum": self._dtype}

    @property
    def _dtype(self) -> pl.DataType:
        return pl.Int64() if self.scale is None else pl.Decimal(38, self.scale)

    @property
    def _limit(self) -> int:
        """The greatest total; the least is its negative, of integers one less."""
        return 2**63 - 1 if self.scale is None else 10**self.digits - 1

    def lift(self, rows: Grouped) -> Part:
        """Sum each group."""
        values = rows.column(self.column)
        largest = int(rows.sizes.max()) if len(rows) else 0
        if self._magnitude(values) * largest > self._limit:
            return {"sum": self._checked(self._exact_totals(values, rows), rows.name_key)}
        if self.scale is None:
            return {"sum": reduced(values.cast(pl.Int64), rows, np.add, 0)}
        return {"sum": reduced_by_polars(values, rows, pl.Expr.sum).cast(self._dtype)}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add."""
        a, b = left["sum"], right["sum"]
        if self._magnitude(a) + self._magnitude(b) <= self._limit:
            return {"sum": _added(a, b).cast(self._dtype)}
        pairs = zip(self._integers(a), self._integers(b), strict=True)
        totals = [x if y is None else y if x is None else x + y for x, y in pairs]
        return {"sum": self._checked(totals, name_key)}

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The sum in its published type."""
        if self.scale is None:
            return part["sum"]
        return part["sum"].cast(pl.Decimal(self.digits, self.scale))

    def _magnitude(self, values: pl.Series) -> int:
        """A bound on the absolute values, as integers: of decimals the unscaled ones."""
        return max(abs(end or 0) for end in self._integers([values.min(), values.max()]))

    def _integers(self, values: Iterable[Any]) -> list[int | None]:
        """The (unscaled) integers as Python's own, of any size."""
        scale = self.scale or 0
        return [None if v is None else int(_WIDE.scaleb(v, scale) if scale else v) for v in values]

    def _exact_totals(self, values: pl.Series, rows: Grouped) -> list[int | None]:
        numbers = np.array([value or 0 for value in self._integers(values)], dtype=object)
        totals = np.add.reduceat(numbers, rows.starts)
        counts = valid_counts(values, rows)
        return [int(total) if n else None for total, n in zip(totals, counts, strict=True)]

    def _checked(self, totals: Sequence[int | None], name_key: NameKey) -> pl.Series:
        """Totals of any size as a column, if they fit."""
        least = -self._limit if self.scale is not None else -self._limit - 1
        for nth, total in enumerate(totals):
            if total is not None and not least <= total <= self._limit:
                raise AggregateOverflow(self.column, name_key(nth), self._type_name)
        if self.scale is None:
            return pl.Series(totals, dtype=pl.Int64)
        scaled = [None if t is None else _WIDE.scaleb(Decimal(t), -self.scale) for t in totals]
        return pl.Series(pa.array(scaled, pa.decimal128(38, self.scale)))

    @property
    def _type_name(self) -> str:
        return "long" if self.scale is None else f"decimal({self.digits},{self.scale})"


@dataclass(frozen=True, slots=True)
class ReversibleExactSum:
    """An `ExactSum` from which values can be taken back.

    What the rows of an epoch add up to in a window, and the sum after each epoch, must fit the
    type; they stop the pipeline also if a row that is taken back later would make them fit.
    """

    total: ExactSum

    @property
    def column(self) -> str:
        """The column that is summed."""
        return self.total.column

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The sum so far, and the number of values in it."""
        return {**self.total.parts, **Count(self.column).parts}

    def lift(self, rows: Grouped) -> Part:
        """Sum each group, values that are taken back with their sign turned."""
        return {**self.total.lift(self._turned(rows)), **Count(self.column).lift(rows)}

    def _turned(self, rows: Grouped) -> Grouped:
        sign = rows.events.sign
        if sign is None:
            return rows
        values = rows.events.columns[self.column]
        if self.total.scale is None:
            values = values.cast(pl.Decimal(38, 0))  # the least long has no opposite among longs
        turned = values.zip_with(pl.Series(sign > 0), -values)
        events = replace(rows.events, columns=pl.DataFrame({self.column: turned}))
        return Grouped(events=events, row=rows.row, starts=rows.starts, name_key=rows.name_key)

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add both."""
        total = self.total.combine(left, right, name_key)
        return {**total, **Count().combine(left, right, name_key)}

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The sum, NULL without a value."""
        return null_where(self.total.lower(part, name_key), part["n"] == 0)


@dataclass(frozen=True, slots=True)
class ReversibleFloatSum:
    """A `FloatSum` from which values can be taken back.

    NaN and infinities are counted, not added: the sum of the others is still there when they are
    taken back. It is rounded as sums of floats are, and one that overflowed stays infinite.
    """

    column: str

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The sum of finite values, the number of all values, and of those that are not finite."""
        return {"sum": pl.Float64(), **dict.fromkeys(("n", *_ODD), pl.Int64())}

    def lift(self, rows: Grouped) -> Part:
        """Sum and count each group."""
        column = rows.column(self.column)
        values = column.cast(pl.Float64).fill_null(0.0).to_numpy()
        finite = np.where(np.isfinite(values), values, 0.0)
        with np.errstate(over="ignore"):
            total = rows.added_up(finite if rows.sign is None else finite * rows.sign)
        odd = {name: pl.Series(rows.balance(is_odd(values))) for name, is_odd in _ODD.items()}
        n = rows.balance(column.is_not_null().to_numpy())
        return {"sum": pl.Series(total, dtype=pl.Float64), "n": pl.Series(n), **odd}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add all."""
        return {name: left[name] + right[name] for name in self.parts}

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The sum as if all values were added now, NULL without one."""
        nan, up, down = (part[name].to_numpy() > 0 for name in _ODD)
        total = np.select(
            [nan | (up & down), up, down], [np.nan, np.inf, -np.inf], part["sum"].to_numpy()
        )
        return null_where(pl.Series(total), part["n"] == 0)


_ODD: Final[Mapping[str, Callable[[npt.NDArray[np.float64]], Bools]]] = {
    "nan": np.isnan,
    "up": np.isposinf,
    "down": np.isneginf,
}
"""Values that are not finite, by the part that counts them."""

Sum: TypeAlias = FloatSum | ExactSum | ReversibleFloatSum | ReversibleExactSum


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean: a double, or of decimals a decimal rounded half up.

    `precision` and `scale` are those of the decimal, None for a double.
    """

    total: Sum
    precision: int | None = None
    scale: int | None = None

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """Sum and count."""
        return {**self.total.parts, **Count(self.total.column).parts}

    def lift(self, rows: Grouped) -> Part:
        """Sum and count each group."""
        return {**self.total.lift(rows), **Count(self.total.column).lift(rows)}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add both."""
        total = self.total.combine(left, right, name_key)
        return {**total, **Count().combine(left, right, name_key)}

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """Divide."""
        total = self.total.lower(part, name_key)
        if self.scale is None or self.precision is None:
            return null_where(total / part["n"], part["n"] == 0)
        mean = _decimal_means(total, part["n"], self.scale)
        limit = _WIDE.scaleb(Decimal(1), self.precision - self.scale)
        if too_large := np.flatnonzero(
            pc.greater_equal(pc.abs(mean), limit).fill_null(False)
        ).tolist():
            name = f"decimal({self.precision},{self.scale})"
            raise AggregateOverflow(self.total.column, name_key(too_large[0]), name)
        return pl.Series(pc.cast(mean, pa.decimal128(self.precision, self.scale)))


def sum_of(call: Call) -> Sum:
    """The sum over a column of numbers."""
    given = call.input_type
    if given is not None and given.decimal:
        return _exact_sum(call, digits=call.result_type.precision or 38, scale=given.scale)
    return _exact_sum(call) if given is not None and given.integral else _float_sum(call)


def mean_of(call: Call) -> Mean:
    """A mean of integers adds doubles, as Spark does; one of decimals has all 38 digits."""
    given, result = call.input_type, call.result_type
    if given is None or not given.decimal:
        return Mean(_float_sum(call))
    total = _exact_sum(call, digits=38, scale=given.scale)
    return Mean(total, precision=result.precision, scale=result.scale)


def _exact_sum(call: Call, *, digits: int = 0, scale: int | None = None) -> Sum:
    total = ExactSum(call.column, digits=digits, scale=scale)
    return ReversibleExactSum(total) if call.takes_back else total


def _float_sum(call: Call) -> Sum:
    return ReversibleFloatSum(call.column) if call.takes_back else FloatSum(call.column)


def _added(left: pl.Series, right: pl.Series) -> pl.Series:
    """The sums; NULL only where both are."""
    if left.null_count() == 0 and right.null_count() == 0:
        return left + right
    total: pl.Series = left.fill_null(0) + right.fill_null(0)
    return null_where(total, left.is_null() & right.is_null())


def _decimal_means(total: pl.Series, n: pl.Series, scale: int) -> Any:
    """Arrow decimals rounded half up, as Spark does, in a type that holds them all.

    The quotient is cut off far behind the last digit kept, so rounding it is exact.
    """
    counted = null_where(n, n == 0).to_arrow().cast(pa.decimal256(19, 0))
    sums = total.to_arrow()
    quotient = pc.divide(sums.cast(pa.decimal256(38, sums.type.scale)), counted)
    return pc.round(quotient, scale, round_mode="half_towards_infinity")
