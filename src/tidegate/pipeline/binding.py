"""A window meets the columns of its input: names become columns, columns have types.

Only the columns that the window reads matter; others may be of any type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.aggregate_lookup import aggregate_result, spec_of
from tidegate.pipeline.datatypes import LONG, STRING, TIMESTAMP, DataType
from tidegate.pipeline.emit_strategies import sending_of
from tidegate.pipeline.fieldtypes import FrozenMapping
from tidegate.pipeline.masking import shown
from tidegate.pipeline.paths import located
from tidegate.pipeline.validation import broken_rules, readable
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
    gap_type: DataType | None = None
    """Of the column that holds the gap of each row."""

    @property
    def types_read(self) -> Mapping[str, DataType]:
        """The columns that keys and aggregates are made of."""
        read = {each.aggregation.input_column: each.input_type for each in self.aggregations}
        inputs = {name: kind for name, kind in read.items() if name and kind}
        return {**self.keys, **inputs}

    @property
    def output_schema(self) -> Mapping[str, DataType]:
        """The columns of a result row, in order."""
        schema = {**self._of_window("window_start", "window_end"), "revision": LONG}
        if sending_of(self.window).as_changes:
            schema["op"] = STRING
        return schema

    @property
    def handed_on(self) -> Mapping[str, DataType]:
        """The columns that operators see which read it; `window_time` is there for them alone."""
        return self._of_window("window_start", "window_end", "window_time")

    def _of_window(self, *bounds: str) -> dict[str, DataType]:
        schema = {**self.keys, **dict.fromkeys(bounds, TIMESTAMP)}
        if self.window.kind == "session":
            schema["session_id"] = LONG
        return schema | {
            each.aggregation.output_name: each.result_type for each in self.aggregations
        }


def bind(window: Window, columns: Columns) -> BoundWindow:
    """Give `window` the types of `columns`; raises `ConfigError` with all that do not fit."""
    if problems := check_columns(window, columns):
        raise ConfigError(problems)
    columns = _with_original_time(window, columns)
    keys = FrozenMapping({name: column_type(columns[name]) for name in window.group_by})
    aggregations = tuple(bound_aggregation(each, columns) for each in window.aggregations)
    gap = window.gap_column
    return BoundWindow(
        window, keys, aggregations, None if gap is None else column_type(columns[gap])
    )


def check_columns(window: Window, columns: Columns, of: str = "the input") -> list[Problem]:
    """Find every column that `window` reads and `columns`, those `of` somebody, do not offer."""
    reader = _Reader(_with_original_time(window, columns), of)
    return [*broken_rules((reader.keys, reader.gap, reader.inputs), window)]


def columns_used(window: Window) -> Iterator[tuple[str, str]]:
    """Pair the paths at which `window` names a column with the name."""
    yield from ((f"group_by[{place}]", name) for place, name in enumerate(window.group_by))
    if window.gap_column is not None:
        yield "gap_column", window.gap_column
    for place, each in readable(window.aggregations, "input_column"):
        if each.input_column is not None:
            yield f"aggregations[{place}].input_column", each.input_column


def _with_original_time(window: Window, columns: Columns) -> Columns:
    knows_policy = [*readable([window], "late_data")]
    if knows_policy and window.late_data != "reassign":
        return columns
    return {**columns, ORIGINAL_EVENT_TS: TIMESTAMP}


def column_type(written: str | DataType) -> DataType:
    """The type of a column, however it was given."""
    return DataType.parse(written) if isinstance(written, str) else written


def known_type(written: str | DataType) -> DataType | None:
    """The type of a column; None for one whose values cannot be kept or computed with."""
    try:
        return column_type(written)
    except ConfigError:
        return None


def bound_aggregation(aggregation: Aggregation, columns: Columns) -> BoundAggregation:
    """An aggregation with its types."""
    column = aggregation.input_column
    input_type = None if column is None else column_type(columns[column])
    return BoundAggregation(aggregation, input_type, aggregate_result(aggregation.kind, input_type))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Looks for the columns of a window among `columns`."""

    columns: Columns
    of: str

    def keys(self, window: Window) -> Iterator[Problem]:
        """Keys can be compared."""
        for place, name in enumerate(window.group_by):
            found, problems = self._find(name)
            if found and not found.groupable:
                expected = "a type with exact equality: not float, double or array"
                hint = "cast it to decimal, long or string in the source's transform"
                problems = [Problem("", f"{shown(name)} of type {found}", expected, hint)]
            yield from located(problems, f"group_by[{place}]")

    def gap(self, window: Window) -> Iterator[Problem]:
        """Gaps are whole milliseconds."""
        if window.gap_column is None:
            return
        found, problems = self._find(window.gap_column)
        if found and not found.integral:
            expected = "whole milliseconds: byte, short, int or long"
            hint = "cast it in the source's transform"
            shown_gap = f"{shown(window.gap_column)} of type {found}"
            problems = [Problem("", shown_gap, expected, hint)]
        yield from located(problems, "gap_column")

    def inputs(self, window: Window) -> Iterator[Problem]:
        """Each aggregate can take what it reads."""
        for place, each in readable(window.aggregations, "kind", "input_column"):
            if spec_of(each.kind).takes is not None and each.input_column is not None:
                problems = self._taken(each.kind, each.input_column)
                yield from located(problems, f"aggregations[{place}].input_column")

    def _taken(self, kind: str, name: str) -> list[Problem]:
        found, problems = self._find(name)
        if found is None:
            return problems
        try:
            aggregate_result(kind, found)
        except ConfigError as error:
            return _of_column(name, error)
        return []

    def _find(self, name: str) -> tuple[DataType | None, list[Problem]]:
        if name not in self.columns:
            hint = did_you_mean(name, self.columns, f"columns are {', '.join(self.columns)}")
            return None, [Problem("", shown(name), f"a column of {self.of}", hint)]
        try:
            return column_type(self.columns[name]), []
        except ConfigError as error:
            return None, _of_column(name, error)


def _of_column(name: str, error: ConfigError) -> list[Problem]:
    return [
        replace(problem, found=f"{shown(name)} of type {problem.found}")
        for problem in error.problems
    ]
