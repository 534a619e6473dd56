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

from tidegate.core.compiling import polars_type
from tidegate.core.joins.plan import NAMES, JoinPlan
from tidegate.core.joins.reach import SIDES
from tidegate.core.operators.spec import Bound, Config, operator_spec
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack, Tables
from tidegate.core.step import Operator
from tidegate.errors import ConfigError, StateFormatError
from tidegate.pipeline import DataType
from tidegate.pipeline.aggregate_lookup import packages_missing
from tidegate.pipeline.fingerprint import PACKAGES, VERSION
from tidegate.pipeline.operators import KINDS, kind_of


@dataclass(frozen=True, kw_only=True)
class StoredOperator:
    """An operator, ready to read what it has written."""

    id: str
    config: Config
    keys: Mapping[str, DataType]
    operator: Operator[Any, Any]
    values: pl.Schema
    """The columns of what it holds that are no keys, as `StateView.readable` gives them, but for
    what is known of sending."""

    @property
    def what(self) -> str:
        """What is held of a key."""
        return kind_of(self.config).holds


def stored_operator(plan: Mapping[str, Any] | None) -> StoredOperator:
    """The only operator of a stored plan; `StateFormatError` where it cannot be made."""
    version = (plan or {}).get("version")
    if plan is None or version != VERSION:
        found = "no plan is stored" if plan is None else f"the stored plan has version {version}"
        raise StateFormatError(f"{found}, this version of Tidegate reads version {VERSION}")
    try:
        ((name, fields),) = plan["operators"].items()
        _check_packages(fields.get(PACKAGES, {}))
        return _restored(name, {k: v for k, v in fields.items() if k != PACKAGES})
    except (ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateFormatError(f"the stored plan is not readable: {error}") from error


def _check_packages(packages: Mapping[str, Mapping[str, str]]) -> None:
    """State can be read only by the aggregates that wrote it."""
    if missing := packages_missing(packages):
        raise StateFormatError(
            f"the state was written with other aggregates: {'; '.join(missing)}\n"
            "  hint: install the package in that version to look into the state"
        )


def _restored(name: str, fields: Mapping[str, Any]) -> StoredOperator:
    kind = _KINDS[fields.get("kind", "interval")]  # the default is not stored
    config, inputs = kind.restored(name, fields)
    bound = kind.bind(config, inputs)
    operator = operator_spec(bound, [*inputs]).operator
    return StoredOperator(
        id=name,
        config=config,
        keys=bound.keys,
        operator=operator,
        values=_VALUES[kind.holds](bound, operator),
    )


_KINDS = {name: kind for kind in KINDS for name in kind.names}


def _values_of_windows(bound: Bound, _: Operator[Any, Any]) -> pl.Schema:
    output = {column: polars_type(kind) for column, kind in bound.output_schema.items()}
    return pl.Schema({k: v for k, v in output.items() if k not in (*bound.keys, "op")})


def _values_of_rows(_: Bound, operator: Any) -> pl.Schema:
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

_VALUES = {"windows": _values_of_windows, "rows": _values_of_rows}
