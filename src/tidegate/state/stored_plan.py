"""The operator that state was written by, made of the plan that the store keeps beside it.

    plan (fingerprint fields) -> [stored_operator] -> an operator that can read its segments

The plan says everything that an operator reads of its state: columns, their types, aggregates.
What it leaves out (bounds, where rows go) changes nothing about what is held, so neither the
pipeline's file nor its sources are needed, nor Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tidegate.core.compiling import compile_window, polars_type
from tidegate.core.joins.compiling import compile_join
from tidegate.core.joins.plan import NAMES, JoinPlan
from tidegate.core.joins.reach import SIDES
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack, Tables
from tidegate.core.step import Operator
from tidegate.errors import ConfigError, StateFormatError
from tidegate.pipeline import DataType, Join, Window, bind, bind_join
from tidegate.pipeline.aggregate_lookup import packages_missing
from tidegate.pipeline.fingerprint import PACKAGES, VERSION


@dataclass(frozen=True, kw_only=True)
class StoredOperator:
    """An operator, ready to read what it has written."""

    id: str
    config: Window | Join
    keys: Mapping[str, DataType]
    operator: Operator[Any, Any]
    values: pl.Schema
    """The columns of what it holds that are no keys, as `StateView.readable` gives them, but for
    what is known of sending."""

    @property
    def what(self) -> str:
        """What is held of a key."""
        return "rows" if isinstance(self.config, Join) else "windows"


def stored_operator(plan: Mapping[str, Any] | None) -> StoredOperator:
    """The only operator of a stored plan; `StateFormatError` where it cannot be made."""
    version = (plan or {}).get("version")
    if plan is None or version != VERSION:
        found = "no plan is stored" if plan is None else f"the stored plan has version {version}"
        raise StateFormatError(f"{found}, this version of Tidegate reads version {VERSION}")
    try:
        ((name, fields),) = plan["operators"].items()
        _check_packages(fields.get(PACKAGES, {}))
        return _join(name, fields) if "on" in fields else _window(name, fields)
    except (ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateFormatError(f"the stored plan is not readable: {error}") from error


def _check_packages(packages: Mapping[str, Mapping[str, str]]) -> None:
    """State can be read only by the aggregates that wrote it."""
    if missing := packages_missing(packages):
        raise StateFormatError(
            f"the state was written with other aggregates: {'; '.join(missing)}\n"
            "  hint: install the package in that version to look into the state"
        )


def _window(name: str, fields: Mapping[str, Any]) -> StoredOperator:
    given = {key: value for key, value in fields.items() if key not in _OF_PLANS}
    order = fields["output_order"]
    given["aggregations"] = [
        {**fields["aggregations"][each], "output_name": each} for each in order
    ]
    window = Window.from_dict({**given, "id": name})
    columns = dict(fields["types"])
    if window.gap_column is not None:
        columns.setdefault(window.gap_column, "long")  # read of rows only, not of state
    bound = bind(window, columns)
    output = {column: polars_type(kind) for column, kind in bound.output_schema.items()}
    return StoredOperator(
        id=name,
        config=window,
        keys=bound.keys,
        operator=compile_window(window, columns),
        values=pl.Schema({k: v for k, v in output.items() if k not in (*bound.keys, "op")}),
    )


_OF_PLANS = ("types", "aggregations", "output_order", "inputs", PACKAGES)
"""What a plan says of a window in other words than a user does."""


def _join(name: str, fields: Mapping[str, Any]) -> StoredOperator:
    join = Join.from_dict(
        {"id": name, **{k: v for k, v in fields.items() if k not in ("types", PACKAGES)}}
    )
    left, right = fields["types"]["left"], fields["types"]["right"]
    operator: Any = compile_join(join, left, right)
    return StoredOperator(
        id=name,
        config=join,
        keys=bind_join(join, left, right).keys,
        operator=operator,
        values=_values_of_join(operator),
    )


def _values_of_join(operator: Any) -> pl.Schema:
    """The columns of waiting rows, seen from a row of nothing on each side."""
    plan: JoinPlan = operator.plan
    tables: dict[str, Segment] = {}
    for side in SIDES:
        schema = {**plan.schema(side), "forget_us": pl.Int64()}
        nothing = {name: [0 if name in _NUMBERS else None] for name in schema}
        tables[NAMES[side]] = Segment(pl.DataFrame(nothing, schema=schema), None, appends=True)
    shown = operator.state.readable(
        Stack((Tables(tables),)), lambda segment: segment.forget_us == 0
    )
    return shown.values.schema  # type: ignore[no-any-return]  # of a frame


_NUMBERS = ("key_hash", "event_us", "forget_us", "lane", "offset")
