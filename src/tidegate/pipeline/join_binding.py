"""A join meets the columns of its two inputs: names become columns, columns have types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.aggregate_lookup import aggregate_result
from tidegate.pipeline.binding import (
    BoundAggregation,
    Columns,
    bound_aggregation,
    column_type,
    known_type,
)
from tidegate.pipeline.datatypes import LONG, STRING, TIMESTAMP, DataType
from tidegate.pipeline.expressions import columns as columns_of
from tidegate.pipeline.fieldtypes import FrozenMapping
from tidegate.pipeline.functions import BOOLEAN
from tidegate.pipeline.join import Join, Side
from tidegate.pipeline.join_rules import JOIN_COLUMNS, SESSION_COLUMNS, parsed_condition
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.paths import located
from tidegate.pipeline.typed_expressions import Scope, Typed, check
from tidegate.pipeline.window import Aggregation
from tidegate.pipeline.window_rules import ORIGINAL_EVENT_TS
from tidegate.pipeline.wording import did_you_mean

SIDES: Final[tuple[Side, Side]] = ("left", "right")
_SESSION_TYPES: Final = {"left_session_id": LONG, "right_session_id": LONG}


@dataclass(frozen=True, slots=True)
class BoundJoin:
    """A join with the types of everything it reads and writes."""

    join: Join
    keys: Mapping[str, DataType]
    values: tuple[Mapping[str, DataType], Mapping[str, DataType]]
    """The columns of each side that are no keys; reassigned rows bring their own time along.
    Where results are sessions, those that are aggregated."""
    aggregations: tuple[tuple[BoundAggregation, ...], tuple[BoundAggregation, ...]] = ((), ())

    def types_read(self, side: int) -> Mapping[str, DataType]:
        """The columns of a side."""
        own = {
            name: kind for name, kind in self.values[side].items() if name in self._of_input(side)
        }
        return {**self.keys, **own}

    def _of_input(self, side: int) -> set[str]:
        reassigns = self.join.late_data_of(SIDES[side]) == "reassign"
        return set(self.values[side]) - ({ORIGINAL_EVENT_TS} if reassigns else set())

    @property
    def output_schema(self) -> Mapping[str, DataType]:
        """The columns of a result row, in order."""
        schema: dict[str, DataType] = dict(self.keys)
        if self.join.output == "sessions":
            schema |= {name: _SESSION_TYPES.get(name, TIMESTAMP) for name in SESSION_COLUMNS[:-2]}
            schema |= {
                each.aggregation.output_name: each.result_type
                for own in self.aggregations
                for each in own
            }
            return schema | {"match_ts": TIMESTAMP, "pair_id": STRING}
        for name, kind in self.shown_values():
            schema[name] = kind
        if self.join.type in ("semi", "anti"):
            return schema | {"left_event_ts": TIMESTAMP, "match_ts": TIMESTAMP, "pair_id": STRING}
        schema |= {"left_event_ts": TIMESTAMP, "right_event_ts": TIMESTAMP}
        return schema | {"match_ts": TIMESTAMP, "pair_id": STRING}

    @property
    def handed_on(self) -> Mapping[str, DataType]:
        """The columns that operators see which read it."""
        return {name: kind for name, kind in self.output_schema.items() if name != "pair_id"}

    def shown_values(self) -> Iterator[tuple[str, DataType]]:
        """The columns that are no keys, as results call them."""
        left, right = self.values
        if self.join.type in ("semi", "anti"):
            yield from left.items()
            return
        both = {name.casefold() for name in left} & {name.casefold() for name in right}
        prefixes = (self.join.left_prefix, self.join.right_prefix)
        for prefix, values in zip(prefixes, self.values, strict=True):
            for name, kind in values.items():
                yield (prefix if name.casefold() in both else "") + name, kind


def bind_join(join: Join, left: Columns, right: Columns) -> BoundJoin:
    """Give `join` the types of its inputs; raises `ConfigError` with all that do not fit."""
    if problems := check_join_columns(join, left, right):
        raise ConfigError(problems)
    return _bound(join, left, right)


def check_join_columns(
    join: Join, left: Columns, right: Columns, of: Sequence[str] = ("the left", "the right")
) -> list[Problem]:
    """Find every column that the join reads and its inputs do not offer."""
    inputs = (left, right)
    problems = [*_key_problems(join, inputs, of), *_condition_problems(join, inputs, of)]
    problems += [*_aggregation_problems(join, inputs, of)]
    if not problems:
        problems += [*_value_problems(join, inputs, of)]
    return problems or [*_name_problems(_bound(join, left, right))]


def _bound(join: Join, left: Columns, right: Columns) -> BoundJoin:
    keys = FrozenMapping({name: column_type(left[name]) for name in join.on})
    values = []
    for side, columns in zip(SIDES, (left, right), strict=True):
        own = {name: column_type(columns[name]) for name in _carried(join, side, columns)}
        if join.late_data_of(side) == "reassign":
            own[ORIGINAL_EVENT_TS] = TIMESTAMP
        values.append(FrozenMapping(own))
    aggregations = [
        tuple(
            bound_aggregation(each, _with_original_time(join, side, columns))
            for each in _aggregations(join, side)
        )
        for side, columns in zip(SIDES, (left, right), strict=True)
    ]
    return BoundJoin(join, keys, (values[0], values[1]), (aggregations[0], aggregations[1]))


def _carried(join: Join, side: Side, columns: Columns) -> list[str]:
    """The columns of an input that are no keys and may be needed later on."""
    names = [name for name in columns if name not in join.on]
    if join.output != "sessions":
        return names
    read = {each.input_column for each in _aggregations(join, side)}
    return [name for name in names if name in read]


def _aggregations(join: Join, side: Side) -> Sequence[Aggregation]:
    return join.left_aggregations if side == "left" else join.right_aggregations


def _with_original_time(join: Join, side: Side, columns: Columns) -> Columns:
    if join.late_data_of(side) != "reassign":
        return columns
    return {**columns, ORIGINAL_EVENT_TS: TIMESTAMP}


def _aggregation_problems(
    join: Join, inputs: tuple[Columns, Columns], of: Sequence[str]
) -> Iterator[Problem]:
    """Each aggregate can take what it reads."""
    for side, columns, whose in zip(SIDES, inputs, of, strict=True):
        offered = _with_original_time(join, side, columns)
        for place, each in enumerate(_aggregations(join, side)):
            at, name = f"{side}_aggregations[{place}].input_column", each.input_column
            if name is not None and name not in offered:
                hint = did_you_mean(name, offered, f"columns are {', '.join(offered)}")
                yield Problem(at, shown(name), f"a column of {whose}", hint)
            elif name is not None:
                yield from _input_problems(at, each, offered[name])


def _input_problems(at: str, each: Aggregation, kind: str | DataType) -> Iterator[Problem]:
    try:
        aggregate_result(each.kind, column_type(kind))
    except ConfigError as error:
        for problem in error.problems:
            found = f"{shown(each.input_column)} of type {problem.found}"
            yield replace(problem, at=at, found=found)


def _key_problems(
    join: Join, inputs: tuple[Columns, Columns], of: Sequence[str]
) -> Iterator[Problem]:
    """Keys are there on both sides, of one type that can be compared."""
    for place, name in enumerate(join.on):
        at, types = f"on[{place}]", []
        for columns, whose in zip(inputs, of, strict=True):
            if name not in columns:
                hint = did_you_mean(name, columns, f"columns are {', '.join(columns)}")
                yield Problem(at, shown(name), f"a column of {whose}", hint)
            else:
                types.append(known_type(columns[name]))
        if len(types) < len(inputs):
            continue
        if types[0] != types[1]:
            found = f"{shown(name)}: {types[0]} on the left, {types[1]} on the right"
            hint = "cast it in the transform of one of the sources"
            yield Problem(at, found, "one type on both sides", hint)
        elif types[0] is None or not types[0].groupable:
            expected = "a type with exact equality: not float, double or array"
            hint = "cast it to decimal, long or string in the transforms of both sources"
            yield Problem(at, f"{shown(name)} of type {types[0]}", expected, hint)


def _condition_problems(
    join: Join, inputs: tuple[Columns, Columns], of: Sequence[str]
) -> Iterator[Problem]:
    if join.condition is None:
        return
    read = columns_of(parsed_condition(join.condition))
    missing = False
    for side, name in dict.fromkeys((each.qualifier, each.name) for each in read):
        columns, whose = inputs[_place(side)], of[_place(side)]
        if name not in columns:
            missing = True
            hint = did_you_mean(name, columns, f"columns are {', '.join(columns)}")
            yield Problem("condition", f"{side}.{name}", f"a column of {whose}", hint)
    if not missing:
        yield from _type_problems(join.condition, inputs)


def _place(side: str) -> int:
    return 0 if side == "left" else 1


def _type_problems(text: str, inputs: tuple[Columns, Columns]) -> Iterator[Problem]:
    """What cannot be compared or computed, unless types are unknown, which is said elsewhere."""
    scope: dict[str, dict[str, DataType]] = {}
    for side, columns in zip(SIDES, inputs, strict=True):
        types = {name: known_type(kind) for name, kind in columns.items()}
        scope[side] = {name: kind for name, kind in types.items() if kind is not None}
    if all(each.name in scope[each.qualifier] for each in columns_of(parsed_condition(text))):
        try:
            typed_condition(text, scope)
        except ConfigError as error:
            yield from error.problems


def typed_condition(text: str, scope: Scope) -> Typed:
    """The condition with its types, over columns `left.x` and `right.y`."""
    try:
        return check(parsed_condition(text), scope, text=text, wanted=BOOLEAN)
    except ConfigError as error:
        raise ConfigError([*located(error.problems, "condition")]) from None


def _value_problems(
    join: Join, inputs: tuple[Columns, Columns], of: Sequence[str]
) -> Iterator[Problem]:
    """Every column of an input is carried along, so each needs a type that is known."""
    for side, columns, whose in zip(SIDES, inputs, of, strict=True):
        for name in _carried(join, side, columns):
            kind = columns[name]
            if known_type(kind) is None:
                found = f"{shown(name)} of {whose}, of type {kind}"
                hint = "leave it out, or take it apart, in the transform of the source"
                yield Problem(side, found, "columns of types that can be kept", hint)


def _name_problems(bound: BoundJoin) -> Iterator[Problem]:
    """Every column of a result has a name of its own."""
    if bound.join.output == "sessions":
        return
    taken = {name.casefold() for name in (*bound.keys, *JOIN_COLUMNS)}
    for name, _ in bound.shown_values():
        if name.casefold() in taken:
            expected = f"a name that no other column of the result has: {listed(sorted(taken))}"
            hint = "rename the column in the transform of its source, or change the prefixes"
            yield Problem("left_prefix", f"a column {shown(name)}", expected, hint)
        taken.add(name.casefold())
