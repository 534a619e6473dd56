"""A pipeline as a graph: who reads from whom, and which columns flow along.

Operators name what they read. Where one names nothing, the first reads all sources and
any other the operator listed before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.pipeline.binding import Columns
from tidegate.pipeline.operators import Bound, find_kind
from tidegate.pipeline.source import declared_columns
from tidegate.pipeline.validation import readable

if TYPE_CHECKING:
    from tidegate.pipeline.pipeline import Pipeline


def inputs_of(pipeline: Pipeline) -> Mapping[str, tuple[str, ...]]:
    """For each operator the names of the sources and operators it reads."""
    resolved: dict[str, tuple[str, ...]] = {}
    before = tuple(source.name for _, source in readable(pipeline.sources, "name"))
    next_place = 0
    for place, operator in readable(pipeline.operators, "id", "inputs"):
        follows = place == next_place  # else the one before it is a draft without a name
        if operator.inputs or follows:
            resolved.setdefault(operator.id, tuple(operator.inputs or before))
        before, next_place = (operator.id,), place + 1
    return resolved


def sinks_of(pipeline: Pipeline) -> Sequence[str]:
    """List the operators that no other operator reads: their results go to the target."""
    inputs = inputs_of(pipeline)
    read = {name for names in inputs.values() for name in names}
    return [operator for operator in inputs if operator not in read]


def in_order(inputs: Mapping[str, tuple[str, ...]]) -> Sequence[str]:
    """List the operators so that each comes after those it reads; those in a cycle are left out."""
    done: list[str] = []
    waiting = dict(inputs)
    while ready := [
        operator for operator, names in waiting.items() if not waiting.keys() & set(names)
    ]:
        done += ready
        waiting = {name: names for name, names in waiting.items() if name not in ready}
    return done


def columns_of(
    pipeline: Pipeline, found: Mapping[str, Columns] | None = None
) -> dict[str, Columns]:
    """Collect the columns of each source and operator, where they are known.

    `found` has those of sources as they turned out to be; without it only declared ones
    are known, and those not behind a transform.
    """
    known: dict[str, Columns] = dict(found or {})
    fields = ("name", "format", "columns", "transform", "options")
    for _, source in readable(pipeline.sources, *fields):
        declared = declared_columns(source)
        if declared is not None:
            known.setdefault(source.name, declared)
    for operator, bound in _bound(pipeline, known).items():
        known[operator] = bound.output_schema
    return known


def bound_operators(
    pipeline: Pipeline, found: Mapping[str, Columns] | None = None
) -> Mapping[str, Bound]:
    """Bind each operator whose input columns are known; `found` as in `columns_of`."""
    return _bound(pipeline, columns_of(pipeline, found))


def _bound(pipeline: Pipeline, known: Mapping[str, Columns]) -> Mapping[str, Bound]:
    columns, bound = dict(known), dict[str, Bound]()
    inputs = inputs_of(pipeline)
    operators = {each.id: each for _, each in readable(pipeline.operators, "id")}
    for name in in_order(inputs):
        found = {each: columns[each] for each in inputs[name] if each in columns}
        made = _bound_one(operators[name], found) if len(found) == len(inputs[name]) else None
        if made is not None:
            bound[name] = made
            columns[name] = made.output_schema
    return bound


def _bound_one(operator: Any, inputs: Mapping[str, Columns]) -> Bound | None:
    """The operator with its types, if its inputs fit and nothing else is wrong with it."""
    kind = find_kind(operator)
    if kind is None or not inputs or [*kind.column_problems(operator, inputs)]:
        return None
    return kind.bind(operator, inputs)
