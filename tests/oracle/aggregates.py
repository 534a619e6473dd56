"""Aggregates (R10), each computed from all rows of a window, anew every time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import localcontext
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One output column: `kind` of the values in `input_column` (`count` needs none)."""

    kind: str
    input_column: str | None
    output_name: str


def aggregate(aggregates: Sequence[Aggregate], rows: Sequence[Row]) -> Row:
    """Return every output over `rows`, taken by event time, ties by position (R10)."""
    ordered = sorted(rows, key=lambda row: (row["event_us"], row["lane"], row["offset"]))
    return {each.output_name: _one(each, ordered) for each in aggregates}


def _one(each: Aggregate, ordered: Sequence[Row]) -> Any:
    """R10: NULL inputs are skipped; nothing left gives NULL, or 0 for counts, or an empty list."""
    if each.kind == "count":
        return len(ordered)
    assert each.input_column is not None, f"{each.kind} needs an input column"
    values = [row[each.input_column] for row in ordered if row[each.input_column] is not None]
    if each.kind in _OF_ANY_NUMBER:
        return _OF_ANY_NUMBER[each.kind](values)
    return _OF_AT_LEAST_ONE[each.kind](values) if values else None


def _sum(values: list[Any]) -> Any:
    with localcontext(prec=100):  # decimal(38, s) values add up exactly
        return sum(values[1:], start=values[0])


def _average(values: list[Any]) -> Any:
    """A float; of Decimals an unrounded Decimal, since only the plan knows the scale."""
    with localcontext(prec=100):
        return _sum(values) / len(values)


def _not_a_number(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _rank(value: Any) -> tuple[bool, Any]:
    """R10: NaN is greater than every number."""
    return (True, 0) if _not_a_number(value) else (False, value)


def _count_distinct(values: list[Any]) -> int:
    return len({_rank(value) for value in values})  # all NaN are one value


_OF_ANY_NUMBER: dict[str, Callable[[list[Any]], Any]] = {
    "count_col": len,
    "count_distinct": _count_distinct,
    "collect": list,
}
_OF_AT_LEAST_ONE: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _sum,
    "avg": _average,
    "min": lambda values: min(values, key=_rank),
    "max": lambda values: max(values, key=_rank),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}
