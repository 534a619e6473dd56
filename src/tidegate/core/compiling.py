"""From a window as the user wrote it to the operator that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from tidegate.core.aggregates import Aggregate, Count, Edge, Extreme
from tidegate.core.collections import ApproximateDistinct, Collect, ExactDistinct
from tidegate.core.emission import Emission, Moment
from tidegate.core.lateness import Lateness
from tidegate.core.step import Operator
from tidegate.core.sums import ExactSum, FloatSum, Mean
from tidegate.core.windows.fixed import FixedWindow
from tidegate.core.windows.plan import Aggregates, WindowPlan
from tidegate.core.windows.session import SessionWindow
from tidegate.pipeline import (
    Aggregation,
    BoundAggregation,
    BoundWindow,
    DataType,
    Window,
    bind,
)

_PLAIN_TYPES: Mapping[str, pl.DataType] = {
    "boolean": pl.Boolean(),
    "byte": pl.Int8(),
    "short": pl.Int16(),
    "int": pl.Int32(),
    "long": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "string": pl.String(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
}


def polars_type(datatype: DataType) -> pl.DataType:
    """The Polars type of a column."""
    if datatype.decimal:
        return pl.Decimal(datatype.precision or 38, datatype.scale or 0)
    if datatype.element is not None:
        return pl.List(polars_type(datatype.element))
    return _PLAIN_TYPES[datatype.name]


def spark_type(dtype: pl.DataType) -> DataType | None:
    """The Spark type of a Polars column; None if it has none that Tidegate knows."""
    if isinstance(dtype, pl.Decimal):
        return DataType("decimal", dtype.precision, dtype.scale)
    names = {plain: name for name, plain in _PLAIN_TYPES.items()}
    return DataType(names[dtype]) if dtype in names else None


def compile_window(window: Window, columns: Mapping[str, str | DataType]) -> Operator[Any, Any]:
    """The operator of a window over rows with these columns; `ConfigError` if they do not fit."""
    bound = bind(window, columns)
    plan = _plan(bound)
    if window.kind == "session":
        return SessionWindow(
            plan=plan,
            cap_us=window.max_session_duration_us or 0,
            gap_us=window.gap_us or 0,
            gap_column=window.gap_column,
            keep_nonpositive=window.nonpositive_gap == "keep",
        )
    return FixedWindow(
        plan=plan,
        width_us=window.width_us or 0,
        hop_us=window.hop_us or 0,
        offset_us=window.offset_us,
    )


def _plan(bound: BoundWindow) -> WindowPlan:
    window = bound.window
    unbounded = window.allowed_lateness_ms == "unbounded"
    return WindowPlan(
        keys={name: polars_type(datatype) for name, datatype in bound.keys.items()},
        aggregates=aggregates_of(bound.aggregations),
        lateness=Lateness(
            allowed_us=None if unbounded else window.allowed_lateness_us,
            reassign_within_us=window.max_lateness_us,
        ),
        emission=Emission(
            moment=_moment(window),
            changelog=window.emit == "changelog",
            every_us=window.every_us or 0,
        ),
    )


def _moment(window: Window) -> Moment:
    """When changed windows go out: only `on_watermark` looks at the late policy too."""
    if window.emit in ("on_update", "changelog"):
        return "changed"
    if window.emit == "every":
        return "every"
    reopens = window.emit == "on_watermark" and window.late_data == "reopen"
    return "closed" if reopens else "forgotten"


def aggregates_of(bound: Sequence[BoundAggregation]) -> Aggregates:
    """What computes the aggregations."""
    return Aggregates({each.aggregation.output_name: _aggregate(each) for each in bound})


def _aggregate(bound: BoundAggregation) -> Aggregate:
    column, given = bound.aggregation.input_column, bound.input_type
    if column is None or given is None:
        return Count()
    return _builders(bound.aggregation, column, given, bound.result_type)[bound.aggregation.kind]()


def _builders(
    spec: Aggregation, column: str, given: DataType, result: DataType
) -> Mapping[str, Callable[[], Aggregate]]:
    """How each kind of aggregate over a column is made."""
    dtype = polars_type(given)
    return {
        "count_col": lambda: Count(column),
        "min": lambda: Extreme(column, dtype, greatest=False),
        "max": lambda: Extreme(column, dtype, greatest=True),
        "first": lambda: Edge(column, dtype, latest=False),
        "last": lambda: Edge(column, dtype, latest=True),
        "sum": lambda: _sum(column, given),
        "avg": lambda: _mean(column, given, result),
        "collect": lambda: Collect(column, dtype, spec.max_values or 0),
        "count_distinct": lambda: (
            ExactDistinct(column, dtype, spec.max_distinct or 0)
            if spec.mode == "exact"
            else ApproximateDistinct(column)
        ),
    }


def _sum(column: str, given: DataType) -> FloatSum | ExactSum:
    if given.decimal:
        return ExactSum(column, digits=min(38, (given.precision or 0) + 10), scale=given.scale)
    return ExactSum(column) if given.integral else FloatSum(column)


def _mean(column: str, given: DataType, result: DataType) -> Mean:
    """A mean of integers adds doubles, as Spark does; one of decimals has all 38 digits."""
    if not given.decimal:
        return Mean(FloatSum(column))
    total = ExactSum(column, digits=38, scale=given.scale)
    return Mean(total, precision=result.precision, scale=result.scale)
