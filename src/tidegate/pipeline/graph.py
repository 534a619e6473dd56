"""A pipeline as a graph: who reads from whom, and which columns flow along.

    sources, operators -> inputs_of -> in_order -> columns of each edge -> Bound, one each

Operators name what they read. Where one names nothing, the first reads all sources and
any other the operator listed before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.pipeline.binding import Columns
from tidegate.pipeline.edges import Reading, columns_seen, edge_problems
from tidegate.pipeline.join import Join
from tidegate.pipeline.join_rules import JOIN_COLUMNS
from tidegate.pipeline.operators import Bound, Operator, find_kind
from tidegate.pipeline.output_watermark import HoldBack, TimeColumns, time_columns
from tidegate.pipeline.source import ARRIVAL, declared_columns
from tidegate.pipeline.validation import readable

if TYPE_CHECKING:
    from tidegate.pipeline.pipeline import Pipeline
    from tidegate.pipeline.target import Target


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
    """List the operators that no other operator reads: their results go to a target."""
    inputs = inputs_of(pipeline)
    read = {name for names in inputs.values() for name in names}
    return [operator for operator in inputs if operator not in read]


def sinks_without_target(pipeline: Pipeline) -> Sequence[str]:
    """List the sinks that have no target of their own; the pipeline's is for the last of them."""
    own = {each.id for _, each in readable(pipeline.operators, "id", "target") if each.target}
    return [sink for sink in sinks_of(pipeline) if sink not in own]


def targets_of(pipeline: Pipeline) -> Mapping[str, Target]:
    """The target of each operator that has one, in the order in which they are listed."""
    without = sinks_without_target(pipeline)[-1:]
    targets = {
        operator.id: pipeline.target if operator.id in without else operator.target
        for _, operator in readable(pipeline.operators, "id", "target")
    }
    return {name: target for name, target in targets.items() if target is not None}


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


def cycles_in(inputs: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Circles that rows flow in, each once: (a, b) where b reads a and a reads b."""
    fine, seen = {*in_order(inputs)}, set[str]()
    for start in (each for each in inputs if each not in fine):
        way = [start]
        while way[-1] not in seen:
            seen.add(way[-1])
            way.append(next(each for each in inputs[way[-1]] if each in {*inputs} - fine))
        if way[-1] in way[:-1]:
            yield tuple(reversed(way[way.index(way[-1]) + 1 :]))


# --- edges --------------------------------------------------------------------------------------


def times_of(pipeline: Pipeline, producer: str) -> TimeColumns:
    """The columns that a reader of a source or operator may take for event time, the default first.

    A source says itself which one that is.
    """
    for _, source in readable(pipeline.sources, "name", "event_time"):
        if source.name == producer:
            return {source.event_time: HoldBack(wait_us=0)}
    operator = _operators(pipeline).get(producer)
    return {} if operator is None else time_columns(operator)


def event_time_of(pipeline: Pipeline, operator: Operator, producer: str) -> str:
    """The column of a producer that an operator reads as event time; "" where there is none."""
    kind = find_kind(operator)
    named = (kind.reading(operator) if kind else Reading()).event_time
    column = named or next(iter(times_of(pipeline, producer)), "")
    return "" if column == ARRIVAL else column


@dataclass(frozen=True, slots=True)
class Flow:
    """The columns of a graph, where they are known."""

    handed_on: dict[str, Columns] = field(default_factory=dict)
    """Of each source and operator: the columns that an operator may read there."""
    seen: dict[str, dict[str, Columns]] = field(default_factory=dict)
    """Of each operator: the columns of each input, after `where` and `select`."""
    bound: dict[str, Bound] = field(default_factory=dict)


def columns_of(pipeline: Pipeline, found: Mapping[str, Columns] | None = None) -> Flow:
    """Follow the columns from sources through the operators, as far as they are known.

    `found` has those of sources as they turned out to be; without it only declared ones
    are known, and those not behind a transform.
    """
    flow = Flow(handed_on=dict(found or {}))
    fields = ("name", "format", "columns", "transform", "options")
    for _, source in readable(pipeline.sources, *fields):
        declared = declared_columns(source)
        if declared is not None:
            flow.handed_on.setdefault(source.name, declared)
    inputs, operators = inputs_of(pipeline), _operators(pipeline)
    for name in in_order(inputs):
        operator = operators.get(name)
        if operator is None or any(each not in flow.handed_on for each in inputs[name]):
            continue
        seen = [(each, _seen(pipeline, operator, each, flow)) for each in inputs[name]]
        known = {each: columns for each, columns in seen if columns is not None}
        if len(known) == len(inputs[name]):
            flow.seen[name] = known
            _bind(operator, flow)
    return flow


def bound_operators(
    pipeline: Pipeline, found: Mapping[str, Columns] | None = None
) -> Mapping[str, Bound]:
    """Bind each operator whose input columns are known; `found` as in `columns_of`."""
    return columns_of(pipeline, found).bound


def _seen(pipeline: Pipeline, operator: Operator, producer: str, flow: Flow) -> Columns | None:
    """The columns of one input of an operator; None where its SQL does not fit them."""
    kind, handed_on = find_kind(operator), flow.handed_on[producer]
    assert kind is not None
    if isinstance(operator, Join) and producer in flow.bound:  # pairs have times of their own
        return {name: kind for name, kind in handed_on.items() if name not in JOIN_COLUMNS}
    reading = kind.reading(operator)
    if [*edge_problems(reading, handed_on, producer)]:
        return None
    return columns_seen(reading, handed_on, event_time_of(pipeline, operator, producer))


def _bind(operator: Operator, flow: Flow) -> None:
    kind, seen = find_kind(operator), flow.seen[operator.id]
    if kind is None or not seen or [*kind.column_problems(operator, seen)]:
        return
    flow.bound[operator.id] = kind.bind(operator, seen)
    flow.handed_on[operator.id] = flow.bound[operator.id].handed_on


def _operators(pipeline: Pipeline) -> dict[str, Any]:
    """The operators by id, without drafts."""
    named = readable(pipeline.operators, "id")
    return {each.id: each for _, each in named if find_kind(each) is not None}
