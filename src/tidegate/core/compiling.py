"""From a window as the user wrote it to the operator that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import BoundAggregation, BoundWindow, DataType, Window, bind, sending_of
from tidegate.pipeline.aggregate_lookup import spec_of
from tidegate.pipeline.aggregates import AGGREGATES

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


def compile_window(
    window: Window,
    columns: Mapping[str, str | DataType],
    *,
    hands_on: bool = False,
    takes_back: bool = False,
) -> Operator[Any, Any]:
    """The operator of a window over rows with these columns; `ConfigError` if they do not fit.

    `hands_on`: other operators read it. `takes_back`: it reads one that corrects itself, whose rows
    may be taken back, which is for fixed windows and a few aggregates.
    """
    bound = bind(window, columns)
    problems = [*(_unreadable(window) if hands_on else ())]
    problems += _irreversible(window) if takes_back else ()
    if problems:
        raise ConfigError(problems)
    plan = _plan(bound, hands_on=hands_on, takes_back=takes_back)
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


def _unreadable(window: Window) -> Iterator[Problem]:
    """What readers cannot tell from the columns that they get of every window."""
    names = [*window.group_by, *(each.output_name for each in window.aggregations)]
    if taken := [name for name in names if name.casefold() == "window_time"]:
        yield Problem("", f"the column {taken[0]!r}", "another name: readers get one called that")


def _irreversible(window: Window) -> Iterator[Problem]:
    """What cannot be behind an operator that corrects itself."""
    because = "since what it reads corrects itself"
    if window.kind == "session":
        yield Problem("kind", "session", f"a fixed window, {because}")
    if window.late_data == "reassign":
        yield Problem("late_data", "reassign", f"another policy, {because}")
    for place, each in enumerate(window.aggregations):
        if not spec_of(each.kind).reversible:
            known = " | ".join(spec.name for spec in AGGREGATES.values() if spec.reversible)
            yield Problem(f"aggregations[{place}].kind", each.kind, f"{known}, {because}")


def _plan(bound: BoundWindow, *, hands_on: bool, takes_back: bool) -> WindowPlan:
    window = bound.window
    sending, unbounded = sending_of(window), window.allowed_lateness_ms == "unbounded"
    return WindowPlan(
        keys={name: polars_type(datatype) for name, datatype in bound.keys.items()},
        aggregates=aggregates_of(bound.aggregations, takes_back=takes_back),
        lateness=Lateness(
            allowed_us=None if unbounded else window.allowed_lateness_us,
            reassign_within_us=window.max_lateness_us,
        ),
        emission=Emission(
            moment=sending.moment,
            changelog=sending.as_changes,
            every_us=window.every_us or 0,
        ),
        hands_on=hands_on,
        takes_back=takes_back,
    )


def aggregates_of(bound: Sequence[BoundAggregation], *, takes_back: bool = False) -> Aggregates:
    """What computes the aggregations."""
    calls = {each.aggregation.output_name: _call(each, takes_back=takes_back) for each in bound}
    return Aggregates({name: aggregate_of(call) for name, call in calls.items()})


def _call(bound: BoundAggregation, *, takes_back: bool) -> Call:
    given = bound.input_type
    return Call(
        column=bound.aggregation.input_column or "",
        dtype=pl.Null() if given is None else polars_type(given),
        result_dtype=polars_type(bound.result_type),
        input_type=given,
        result_type=bound.result_type,
        aggregation=bound.aggregation,
        takes_back=takes_back,
    )
