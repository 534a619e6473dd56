"""Aggregates of other packages: what they give is looked at before it becomes state.

Only whole columns are looked at: their names, types and lengths. That the values are right is for
the tests of the package, see `tidegate.testing.AggregateContract`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import polars as pl

from tidegate.core.aggregates.protocol import Aggregate, Call, Part
from tidegate.core.grouping import Grouped, NameKey
from tidegate.errors import ConfigError, Problem, TidegateError
from tidegate.pipeline.aggregate_lookup import registered

T = TypeVar("T")


def registered_aggregate(call: Call) -> Aggregate:
    """The aggregate that a package makes of a call; `ConfigError` names the package if it fails."""
    found = registered(call.aggregation.kind)
    what = f"aggregate {found.value.name!r} of package {found.package}"
    try:
        aggregate: Any = found.value.make(call) if found.value.make else None
        parts = dict(aggregate.parts)
        if not parts:
            raise ValueError("no parts")
    except Exception as error:
        problem = Problem("", f"{error!r} from {what}", "an Aggregate", f"over {call.input_type}")
        raise ConfigError([problem]) from error
    return CheckedAggregate(what, aggregate, parts, call.result_dtype)


@dataclass(frozen=True, slots=True)
class CheckedAggregate:
    """An aggregate whose package is named where it fails, or gives anything but what it states."""

    what: str
    aggregate: Aggregate
    parts: dict[str, pl.DataType]
    result: pl.DataType

    def lift(self, rows: Grouped) -> Part:
        """As the aggregate does."""
        return self._checked(self._asked("lift", self.aggregate.lift, rows), len(rows), "lift")

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """As the aggregate does."""
        part = self._asked("combine", self.aggregate.combine, left, right, name_key)
        return self._checked(part, _length(left), "combine")

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """As the aggregate does."""
        values = self._asked("lower", self.aggregate.lower, part, name_key)
        self._check({"value": values}, {"value": self.result}, _length(part), "lower")
        return values

    def _asked(self, verb: str, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return function(*arguments)
        except TidegateError:
            raise
        except Exception as error:
            raise TidegateError(f"{self.what} failed in {verb}: {error!r}") from error

    def _checked(self, part: Part, length: int, verb: str) -> Part:
        self._check(part, self.parts, length, verb)
        return {name: part[name] for name in self.parts}

    def _check(self, found: Any, expected: dict[str, pl.DataType], length: int, verb: str) -> None:
        """Compare columns with what they should be."""
        given = {
            name: (each.dtype, len(each)) if isinstance(each, pl.Series) else type(each).__name__
            for name, each in (found.items() if isinstance(found, dict) else ())
        }
        wanted = {name: (dtype, length) for name, dtype in expected.items()}
        if given != wanted:
            raise TidegateError(
                f"{self.what} gave in {verb}: {given or type(found).__name__}, expected {wanted}"
            )


def _length(part: Part) -> int:
    return len(next(iter(part.values())))
