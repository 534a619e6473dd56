"""A window meets the columns of its input: names become columns, columns have types.

Only the columns that the window reads matter; others may be of any type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.datatypes import LONG, STRING, TIMESTAMP, DataType, aggregate_result
from tidegate.pipeline.masking import shown
from tidegate.pipeline.validation import located, readable
from tidegate.pipeline.window import Aggregation, Window
from tidegate.pipeline.window_rules import ORIGINAL_EVENT_TS
from tidegate.pipeline.wording import did_you_mean

Columns = Mapping[str, str | DataType]
"""Types of columns by name, as values or as Spark SQL text."""


@dataclass(frozen=True, slots=True)
class BoundAggregation:
    """An aggregation with the type it reads (None for `count`) and the type it gives."""

    aggregation: Aggregation
    input_type: DataType | None
    result_type: DataType


@dataclass(frozen=True, slots=True)
class BoundWindow:
    """A window with the types of everything it reads and writes."""

    window: Window
    keys: Mapping[str, DataType]
    aggregations: tuple[BoundAggregation, ...]

    @property
    def output_schema(self) -> Mapping[str, DataType]:
        """The columns of a result row, in order."""
        schema = {**self.keys, "window_start": TIMESTAMP, "window_end": TIMESTAMP}
        if self.window.kind == "session":
            schema["session_id"] = LONG
        schema |= {each.aggregation.output_name: each.result_type for each in self.aggregations}
        schema["revision"] = LONG
        if self.window.emit == "changelog":
            schema["op"] = STRING
        return schema


def bind(window: Window, columns: Columns) -> BoundWindow:
    """Give `window` the types of `columns`; raises `ConfigError` with all that do not fit."""
    if problems := check_columns(window, columns):
        raise ConfigError(problems)
    columns = _with_original_time(window, columns)
    keys = {name: _type(columns[name]) for name in window.group_by}
    return BoundWindow(window, keys, tuple(_bound(each, columns) for each in window.aggregations))


def check_columns(window: Window, columns: Columns) -> list[Problem]:
    """Find every column that `window` names and `columns` does not have, or has of a wrong type."""
    columns = _with_original_time(window, columns)
    problems = [*_key_problems(window, columns), *_gap_problems(window, columns)]
    for place, each in readable(window.aggregations, "kind", "input_column"):
        problems += located(_input_problems(each, columns), f"aggregations[{place}].input_column")
    return problems


def _with_original_time(window: Window, columns: Columns) -> Columns:
    return {**columns, ORIGINAL_EVENT_TS: TIMESTAMP} if window.late_data == "reassign" else columns


def _type(written: str | DataType) -> DataType:
    return DataType.parse(written) if isinstance(written, str) else written


def _bound(aggregation: Aggregation, columns: Columns) -> BoundAggregation:
    column = aggregation.input_column
    input_type = None if column is None else _type(columns[column])
    return BoundAggregation(aggregation, input_type, aggregate_result(aggregation.kind, input_type))


def _key_problems(window: Window, columns: Columns) -> Iterator[Problem]:
    for place, name in enumerate(window.group_by):
        at = f"group_by[{place}]"
        found, problems = _found(name, columns)
        yield from located(problems, at)
        if found and not found.groupable:
            hint = "round or cast it in the source's transform, to decimal, long or string"
            expected = "a column whose equal values are the same value, not float, double or array"
            yield Problem(at, f"{shown(name)} of type {found}", expected, hint)


def _gap_problems(window: Window, columns: Columns) -> Iterator[Problem]:
    if window.gap_column is None:
        return
    found, problems = _found(window.gap_column, columns)
    yield from located(problems, "gap_column")
    if found and not found.integral:
        expected = "a column of whole milliseconds: byte, short, int or long"
        hint = "cast it in the source's transform"
        yield Problem("gap_column", f"{shown(window.gap_column)} of type {found}", expected, hint)


def _input_problems(aggregation: Aggregation, columns: Columns) -> Iterator[Problem]:
    if aggregation.input_column is None or aggregation.kind == "count":
        return
    found, problems = _found(aggregation.input_column, columns)
    yield from problems
    try:
        if found:
            aggregate_result(aggregation.kind, found)
    except ConfigError as error:
        name = shown(aggregation.input_column)
        for problem in error.problems:
            yield replace(problem, found=f"{name} of type {problem.found}")


def _found(name: str, columns: Columns) -> tuple[DataType | None, list[Problem]]:
    if name not in columns:
        hint = did_you_mean(name, columns, f"the columns are {', '.join(columns) or 'none'}")
        return None, [Problem("", shown(name), "a column of the input", hint)]
    try:
        return _type(columns[name]), []
    except ConfigError as error:
        return None, [
            replace(problem, found=f"{shown(name)} of type {columns[name]}")
            for problem in error.problems
        ]
