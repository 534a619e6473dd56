"""An aggregate of its own package: the geometric mean, which averages ratios and growth."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.aggregates import (
    DOUBLE,
    AggregateSpec,
    Call,
    Grouped,
    NameKey,
    Part,
    null_where,
    reduced,
    valid_counts,
)


@dataclass(frozen=True)
class GeometricMean:
    """The nth root of the product of n values: 0 with a 0 among them, NaN with a negative one."""

    column: str

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The sum of the logarithms, and how many there are."""
        return {"logs": pl.Float64(), "n": pl.Int64()}

    def lift(self, rows: Grouped) -> Part:
        """Both of each group."""
        values = rows.column(self.column)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = values.cast(pl.Float64).log()
        sums = reduced(logs, rows, np.add, 0.0).fill_null(0.0)
        return {"logs": sums, "n": pl.Series(valid_counts(values, rows))}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Add both."""
        return {name: left[name] + right[name] for name in self.parts}

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The mean; NULL where there was no value."""
        return null_where((part["logs"] / part["n"]).exp(), part["n"] == 0)


def _make(call: Call) -> GeometricMean:
    return GeometricMean(call.column)


GEOMETRIC_MEAN = AggregateSpec(
    name="geometric_mean",
    version="1",
    help="a double",
    takes="a column of numbers",
    result=lambda column: DOUBLE if column.numeric else None,
    bytes_held=lambda _: 16,
    make=_make,
)
