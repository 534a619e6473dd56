"""From a window as the user wrote it to the operator that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import polars as pl

from tidegate.core.aggregates import Aggregate, Average, Count, Edge, Extreme, Sum
from tidegate.core.collections import ApproximateDistinct, Collect, ExactDistinct
from tidegate.core.emission import Emission, Moment
from tidegate.core.lateness import Lateness
from tidegate.core.windows.fixed import FixedWindow
from tidegate.core.windows.plan import Aggregates, WindowPlan
from tidegate.core.windows.session import SessionWindow
from tidegate.pipeline import BoundWindow, DataType, Window, bind
from tidegate.pipeline.binding import BoundAggregation

WindowOperator: TypeAlias = SessionWindow | FixedWindow

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
        return pl.Decimal(datatype.precision, datatype.scale)
    if datatype.element is not None:
        return pl.List(polars_type(datatype.element))
    return _PLAIN_TYPES[datatype.name]


def compile_window(window: Window, columns: Mapping[str, str | DataType]) -> WindowOperator:
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
        aggregates=Aggregates(
            {each.aggregation.output_name: _aggregate(each) for each in bound.aggregations}
        ),
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


def _aggregate(bound: BoundAggregation) -> Aggregate:
    spec, column = bound.aggregation, bound.aggregation.input_column
    if column is None or bound.input_type is None:
        return Count()
    if spec.kind == "count_col":
        return Count(column)
    dtype, result = polars_type(bound.input_type), polars_type(bound.result_type)
    if spec.kind in ("min", "max"):
        return Extreme(column, dtype, greatest=spec.kind == "max")
    if spec.kind in ("first", "last"):
        return Edge(column, dtype, latest=spec.kind == "last")
    if spec.kind == "collect":
        return Collect(column, dtype, spec.max_values or 0)
    if spec.kind == "count_distinct":
        exact = spec.mode == "exact"
        return ExactDistinct(column, dtype, spec.max_distinct or 0) if exact else ApproximateDistinct(column)
    if spec.kind == "avg":
        return Average(column, _sum(column, bound.input_type, for_mean=True), result)
    return _sum(column, bound.input_type, for_mean=False)


def _sum(column: str, datatype: DataType, *, for_mean: bool) -> Sum:
    """The running total: decimals in full width; a mean of integers adds doubles, as Spark does."""
    if datatype.decimal:
        digits = min(38, (datatype.precision or 0) + 10)
        return Sum(column, pl.Decimal(38, datatype.scale or 0), digits)
    if datatype.integral and not for_mean:
        return Sum(column, pl.Int64())
    return Sum(column, pl.Float64())
