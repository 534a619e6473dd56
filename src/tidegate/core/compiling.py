"""From a window as the user wrote it to the operator that runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tidegate.core.aggregates.protocol import Call
from tidegate.core.aggregates.table import aggregate_of
from tidegate.core.emission import Emission
from tidegate.core.lateness import Lateness
from tidegate.core.step import Operator
from tidegate.core.windows.fixed import FixedWindow
from tidegate.core.windows.plan import Aggregates, WindowPlan
from tidegate.core.windows.session import SessionWindow
from tidegate.pipeline import BoundAggregation, BoundWindow, DataType, Window, bind, sending_of

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
    sending, unbounded = sending_of(window), window.allowed_lateness_ms == "unbounded"
    return WindowPlan(
        keys={name: polars_type(datatype) for name, datatype in bound.keys.items()},
        aggregates=aggregates_of(bound.aggregations),
        lateness=Lateness(
            allowed_us=None if unbounded else window.allowed_lateness_us,
            reassign_within_us=window.max_lateness_us,
        ),
        emission=Emission(
            moment=sending.moment,
            changelog=sending.as_changes,
            every_us=window.every_us or 0,
        ),
    )


def aggregates_of(bound: Sequence[BoundAggregation]) -> Aggregates:
    """What computes the aggregations."""
    return Aggregates({each.aggregation.output_name: aggregate_of(_call(each)) for each in bound})


def _call(bound: BoundAggregation) -> Call:
    given = bound.input_type
    return Call(
        column=bound.aggregation.input_column or "",
        dtype=pl.Null() if given is None else polars_type(given),
        result_dtype=polars_type(bound.result_type),
        input_type=given,
        result_type=bound.result_type,
        aggregation=bound.aggregation,
    )
