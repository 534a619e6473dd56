"""The table of aggregates: what a user may write, one row each. `core/aggregates` computes them.

AGGREGATES (here)  ->  aggregate_lookup (also those of packages)  ->  rules, binding, explain
                   ->  core/aggregates/table.py: the class that computes each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tidegate.pipeline.datatypes import DOUBLE, LONG, MAX_PRECISION, DataType

BuiltIn = Literal[
    "count",
    "count_col",
    "count_distinct",
    "sum",
    "avg",
    "min",
    "max",
    "first",
    "last",
    "collect",
]
"""The keys of `AGGREGATES`, for editors that complete Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A key of an aggregation that only some kinds have."""

    name: str
    default: Any
    instead: str
    """What to do about it where another kind has it, as in "use kind='collect'"."""
    only_with: tuple[str, Any] | None = None
    """Another option and the value that it must have."""
    bound: bool = True
    """Whether it limits how many values a window holds, and so is no part of the result."""

    def applies(self, value_of: Callable[[str], Any]) -> bool:
        """Whether an aggregation with these other options has it."""
        return self.only_with is None or value_of(self.only_with[0]) == self.only_with[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateSpec:
    """An aggregate as users write it: its name, what it reads, what it gives.

    A package registers one under the entry point group `tidegate.aggregates`, by its name.
    """

    name: str
    help: str
    """What the result is, for the reference."""
    takes: str | None
    """What it reads, as the end of "expected ..."; None if it counts rows."""
    result: Callable[[DataType], DataType | None]
    """The type of the result by that of the column; None if it cannot take the column."""
    options: tuple[Option, ...] = ()
    """The keys of an aggregation that it has beside `kind`, `input_column` and `output_name`."""
    keeps_positions: bool = False
    """Whether the result depends on the order of rows, so that state keeps their positions."""
    reversible: bool = False
    """Whether a row that it has counted can be taken back."""
    bytes_held: Callable[[int], int] = lambda _: 8
    """The state of a window, roughly, by the bytes of a value of the column."""
    grows_bytes: int = 0
    """How many bytes come on top as a window takes rows, if no option limits them."""
    version: str = ""
    """Only of packages: another one makes a pipeline with the aggregate another pipeline."""
    make: Callable[[Any], Any] | None = None
    """Only of packages: the `Aggregate` that computes a `Call`."""

    def active(self, value_of: Callable[[str], Any]) -> Iterator[Option]:
        """The options that an aggregation of this kind has, by the values of the others."""
        return (option for option in self.options if option.applies(value_of))


NUMBERS: Final = "a column of numbers"
SINGLE_VALUES: Final = "a column of single values"
_PLACE_BYTES: Final = 24
"""Event time and position."""
_SKETCH_BYTES: Final = 16_384


def _summed(column: DataType) -> DataType | None:
    if column.decimal:
        return _widened(column, digits=10, behind_point=0)
    return LONG if column.integral else DOUBLE if column.fractional else None


def _averaged(column: DataType) -> DataType | None:
    if column.decimal:
        return _widened(column, digits=4, behind_point=4)
    return DOUBLE if column.numeric else None


def _widened(decimal: DataType, *, digits: int, behind_point: int) -> DataType:
    precision = min(MAX_PRECISION, (decimal.precision or 0) + digits)
    return DataType("decimal", precision, min(MAX_PRECISION, (decimal.scale or 0) + behind_point))


def _picked(column: DataType) -> DataType | None:
    return column if column.scalar else None


_SPECS: Final = (
    AggregateSpec(
        name="count",
        help="a long: the rows",
        takes=None,
        result=lambda _: LONG,
        reversible=True,
    ),
    AggregateSpec(
        name="count_col",
        help="a long: the rows in which the column is not NULL",
        takes="a column",
        result=lambda _: LONG,
        reversible=True,
    ),
    AggregateSpec(
        name="count_distinct",
        help="a long; `approx` is exact for few values, then within 2 %",
        takes=SINGLE_VALUES,
        result=lambda column: LONG if column.scalar else None,
        options=(
            Option(
                name="mode",
                default="approx",
                instead="use kind='count_distinct'",
                bound=False,
            ),
            Option(
                name="max_distinct",
                default=100_000,
                instead="count exactly with kind='count_distinct', mode='exact'",
                only_with=("mode", "exact"),
            ),
        ),
        grows_bytes=_SKETCH_BYTES,
    ),
    AggregateSpec(
        name="sum",
        help="a long of whole numbers, which stops the pipeline rather than overflow; "
        "of a decimal with ten more digits; of others a double",
        takes=NUMBERS,
        result=_summed,
        reversible=True,
        bytes_held=lambda _: 16,
    ),
    AggregateSpec(
        name="avg",
        help="a double; of a decimal with four more digits",
        takes=NUMBERS,
        result=_averaged,
        reversible=True,
        bytes_held=lambda _: 16,
    ),
    AggregateSpec(
        name="min",
        help="the type of the column",
        takes=SINGLE_VALUES,
        result=_picked,
        bytes_held=lambda value: value,
    ),
    AggregateSpec(
        name="max",
        help="the type of the column; NaN is greater than every number",
        takes=SINGLE_VALUES,
        result=_picked,
        bytes_held=lambda value: value,
    ),
    AggregateSpec(
        name="first",
        help="the first value by event time, ties by position",
        takes=SINGLE_VALUES,
        result=_picked,
        keeps_positions=True,
        bytes_held=lambda value: value + _PLACE_BYTES,
    ),
    AggregateSpec(
        name="last",
        help="the last value by event time, ties by position",
        takes=SINGLE_VALUES,
        result=_picked,
        keeps_positions=True,
        bytes_held=lambda value: value + _PLACE_BYTES,
    ),
    AggregateSpec(
        name="collect",
        help="the values as a list, in the order of their event times",
        takes=SINGLE_VALUES,
        result=lambda column: DataType("array", element=column) if column.scalar else None,
        options=(Option(name="max_values", default=10_000, instead="use kind='collect'"),),
        keeps_positions=True,
    ),
)

AGGREGATES: Final[Mapping[str, AggregateSpec]] = {each.name: each for each in _SPECS}
"""By name, in the order in which documents and messages list them."""

OPTIONS: Final[Mapping[str, Option]] = {
    option.name: option for each in _SPECS for option in each.options
}
"""By name, as the first kind that has it."""
