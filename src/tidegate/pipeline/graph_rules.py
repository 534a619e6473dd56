"""What has to hold of a pipeline as a graph: what operators read, and where their results go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidegate.errors import Problem
from tidegate.pipeline.aggregates import AGGREGATES
from tidegate.pipeline.binding import columns_used
from tidegate.pipeline.edges import edge_problems, name_problems
from tidegate.pipeline.formats import PLACES
from tidegate.pipeline.graph import (
    columns_of,
    cycles_in,
    event_time_of,
    inputs_of,
    sinks_of,
    sinks_without_target,
    targets_of,
    times_of,
)
from tidegate.pipeline.masking import listed, masked, shown
from tidegate.pipeline.operators import find_kind, kind_of
from tidegate.pipeline.output_watermark import why_unreadable
from tidegate.pipeline.paths import located
from tidegate.pipeline.validation import readable
from tidegate.pipeline.window import Window
from tidegate.pipeline.wording import did_you_mean, whereabouts

if TYPE_CHECKING:
    from tidegate.pipeline.pipeline import Pipeline
    from tidegate.pipeline.target import Target

Problems = Iterator[Problem]

_SEND_ONCE: Final = "emit='on_watermark' without late_data='reopen'"
_SHARED: Final = "console"
"""The format that many may write to at once."""
_PLACES: Final = sorted((PLACES - {"key"}) | {"name", "bootstrap_servers"})


def inputs_are_known(pipeline: Pipeline) -> Problems:
    """Operators read sources and operators of this pipeline."""
    names = [source.name for source in pipeline.sources]
    names += [operator.id for operator in pipeline.operators]
    for place, operator in readable(pipeline.operators, "inputs"):
        for at, name in kind_of(operator).named_inputs(operator, f"operators[{place}]"):
            if name not in names:
                hint = did_you_mean(name, names, f"there are {listed(names, 'and')}")
                yield Problem(
                    at, shown(name), "the name of a source or the id of an operator", hint
                )


def nothing_reads_itself(pipeline: Pipeline) -> Problems:
    """Rows flow one way."""
    places = {operator.id: place for place, operator in readable(pipeline.operators, "id")}
    sources = {source.name for _, source in readable(pipeline.sources, "name")}
    for way in cycles_in(inputs_of(pipeline)):
        if sources & {*way}:
            continue  # an operator that is called like a source, which is said elsewhere
        first = min(way, key=lambda name: places[name])
        turned = way[way.index(first) :] + way[: way.index(first)]
        at = _input_path(pipeline, places[first], turned[-1])
        found = f"{' -> '.join([*turned, first])}, a circle"
        hint = f"let {first!r} or another of them read something else"
        yield Problem(at, found, "operators whose rows do not come back to them", hint)


def every_source_is_read(pipeline: Pipeline) -> Problems:
    """No source is configured for nothing."""
    inputs = inputs_of(pipeline)
    if not inputs or any(operator.id not in inputs for operator in pipeline.operators):
        return
    read = {name for names in inputs.values() for name in names}
    for place, source in readable(pipeline.sources, "name"):
        if source.name not in read:
            found = f"{shown(source.name)}, which no operator reads"
            hint = "add it to the inputs of an operator, or remove it"
            yield Problem(f"sources[{place}].name", found, "a source that is read", hint)


def inputs_can_be_read(pipeline: Pipeline) -> Problems:
    """What an operator may still send has a bound, or its readers would wait for ever."""
    for place, operator, producer in _edges_between_operators(pipeline):
        if why := why_unreadable(producer):
            at = _input_path(pipeline, place, producer.id)
            found = f"{shown(producer.id)}, which {why}"
            hint = f"let {operator.id!r} read what {producer.id!r} reads, or bound {producer.id!r}"
            yield Problem(at, found, "an operator whose results come within a bound", hint)


def one_input_is_read_specially(pipeline: Pipeline) -> Problems:
    """`where`, `select` and `event_time` are about one input."""
    inputs = inputs_of(pipeline)
    for place, operator in readable(pipeline.operators, "id"):
        kind, names = find_kind(operator), inputs.get(operator.id, ())
        if kind is None or len(names) < 2:
            continue
        for key in kind.reading(operator).given():
            found = f"{key} with the inputs {listed(map(repr, names), 'and')}"
            hint = "say it in the transforms of the sources, or name one input"
            yield Problem(f"operators[{place}].{key}", found, "a single input", hint)


def event_times_are_there(pipeline: Pipeline) -> Problems:
    """A reader names a time column that its producer has a watermark for."""
    for place, operator, names in _readers(pipeline):
        named = kind_of(operator).reading(operator).event_time
        times = times_of(pipeline, names[0])
        if named is not None and times and named not in times:
            whose = f"{listed(map(repr, times))}, by which {names[0]!r} can be read"
            hint = did_you_mean(named, times, f"event_time={next(iter(times))!r} is the default")
            yield Problem(f"operators[{place}].event_time", shown(named), whose, hint)
        column = event_time_of(pipeline, operator, names[0])
        reading = kind_of(operator).reading(operator)
        yield from located(name_problems(reading, column), f"operators[{place}]")


def corrections_can_be_taken_back(pipeline: Pipeline) -> Problems:
    """Behind an operator that corrects itself, everything can take rows back."""
    reversible = [each.name for each in AGGREGATES.values() if each.reversible]
    for place, operator, producer in _edges_between_operators(pipeline):
        if not kind_of(producer).corrects_itself(producer):
            continue
        sender, aggregates = shown(producer.id), listed(reversible)
        for path, what in kind_of(operator).not_reversible(operator):
            if path:
                at, expected = f"operators[{place}].{path}", aggregates
                found = f"{shown(what)}, which cannot take rows back, behind {sender}"
                hint = f"{sender} corrects what it sent: use {_SEND_ONCE} there, or {aggregates}"
            else:
                at = _input_path(pipeline, place, producer.id)
                found = f"{sender}, which corrects what it sent, as the input of {what}"
                expected = "an operator that sends each result once"
                hint = (
                    f"use {_SEND_ONCE} in {sender}; what corrects itself can be read by a "
                    f"tumbling or hopping window of {aggregates}"
                )
            yield Problem(at, found, expected, hint)


def columns_fit(pipeline: Pipeline) -> Problems:
    """Where the columns of inputs are known, operators read what is there."""
    flow, inputs = columns_of(pipeline), inputs_of(pipeline)
    for place, operator in readable(pipeline.operators, "id", "inputs"):
        kind, names = find_kind(operator), inputs.get(operator.id, ())
        if kind is None:
            continue
        at, reading = f"operators[{place}]", kind.reading(operator)
        if operator.id in flow.seen:
            yield from located(kind.column_problems(operator, flow.seen[operator.id]), at)
        elif all(name in flow.handed_on for name in names):
            for name in names:
                found = edge_problems(reading, flow.handed_on[name], f"{name!r}")
                yield from located(found, at)
        elif reading.select is not None and len(names) == 1:
            kept = [*reading.select, event_time_of(pipeline, operator, names[0])]
            yield from located(_not_kept(operator, kept, names[0]), at)


def _not_kept(operator: Any, kept: list[str], producer: str) -> Problems:
    """Names that `select` lets go, where nothing more is known of the columns."""
    for at, name in columns_used(operator) if isinstance(operator, Window) else ():
        if name not in kept:
            hint = did_you_mean(name, kept, f"columns are {', '.join(kept)}")
            yield Problem(at, shown(name), f"a column of {producer!r} that select keeps", hint)


# --- targets ------------------------------------------------------------------------------------


def results_have_a_target(pipeline: Pipeline) -> Problems:
    """Results go somewhere: to the target of their operator, or to the pipeline's."""
    shared = _shared_target(pipeline)
    known = [*readable([pipeline], "sources", "operators")]
    without, sinks = (sinks_without_target(pipeline), sinks_of(pipeline)) if known else ([], [])
    if shared is None and without == sinks and len(sinks) <= 1:
        yield Problem("target", "nothing", "a Target", "where the results go")
        return
    places = {operator.id: place for place, operator in readable(pipeline.operators, "id")}
    for sink in without if shared is None else without[:-1]:
        at = f"operators[{places[sink]}].target"
        found = f"nothing, and no operator reads {shown(sink)}: its rows go nowhere"
        hint = f"give it a target, such as format='postgres', options={{'table': {sink!r}}}"
        yield Problem(at, found, "a target, or an operator that reads it", hint)


def targets_are_said_once(pipeline: Pipeline) -> Problems:
    """The pipeline's target is that of an operator, which has no other."""
    sinks, shared = sinks_of(pipeline), _shared_target(pipeline)
    if shared is None or not sinks or sinks_without_target(pipeline):
        return
    last = targets_of(pipeline)[sinks[-1]]
    if last != shared:
        found = f"{_where(shared)}, while every operator has its own"
        hint = f"remove it: {sinks[-1]!r} writes to {_where(last)}"
        yield Problem("target", found, "no target, or an operator without one", hint)


def places_differ(pipeline: Pipeline) -> Problems:
    """Each place is written by one operator: two would overwrite each other's rows."""
    first: dict[object, str] = {}
    places = {operator.id: place for place, operator in readable(pipeline.operators, "id")}
    without = sinks_without_target(pipeline)
    for name, target in targets_of(pipeline).items():
        if target.format == _SHARED:
            continue
        key = _place(target)
        if key in first:
            at = "target" if name in without else f"operators[{places[name]}].target"
            found = f"{_where(target)}, which {shown(first[key])} writes to"
            hint = "give each operator a table, folder or topic of its own"
            yield Problem(at, found, "a place that no other operator writes to", hint)
        first.setdefault(key, name)


def _shared_target(pipeline: Pipeline) -> Target | None:
    """The pipeline's own target; None where it has none, and none follows from its operators."""
    return pipeline.target


def _place(target: Target) -> object:
    options = {name.lower(): value for name, value in target.options.items()}
    return (target.format, *(str(options.get(name, "")) for name in _PLACES))


def _where(target: Target) -> str:
    return whereabouts(target.format, masked("", target.options))


# --- edges --------------------------------------------------------------------------------------


def _readers(pipeline: Pipeline) -> Iterator[tuple[int, Any, tuple[str, ...]]]:
    """The operators with a single input, their places and inputs, without drafts."""
    inputs = inputs_of(pipeline)
    for place, operator in readable(pipeline.operators, "id"):
        names = inputs.get(operator.id, ())
        if find_kind(operator) is not None and len(names) == 1:
            yield place, operator, names


def _edges_between_operators(pipeline: Pipeline) -> Iterator[tuple[int, Any, Any]]:
    """The operators that read operators, with their places, and what they read, no drafts."""
    inputs = inputs_of(pipeline)
    operators = [
        (place, each)
        for place, each in readable(pipeline.operators, "id")
        if find_kind(each) is not None
    ]
    by_id = {each.id: each for _, each in operators}
    for place, operator in operators:
        for name in inputs.get(operator.id, ()):
            if name in by_id:
                yield place, operator, by_id[name]


def _input_path(pipeline: Pipeline, place: int, name: str) -> str:
    """Where an operator says that it reads the producer of this name."""
    operator = pipeline.operators[place]
    paths = {
        name: at for at, name in kind_of(operator).named_inputs(operator, f"operators[{place}]")
    }
    return paths.get(name, f"operators[{place}].inputs")


GRAPH: Final = (
    inputs_are_known,
    nothing_reads_itself,
    every_source_is_read,
    inputs_can_be_read,
    one_input_is_read_specially,
    event_times_are_there,
    corrections_can_be_taken_back,
    results_have_a_target,
    targets_are_said_once,
    places_differ,
)
"""The rules of a pipeline that come before those of columns."""
