"""What has to hold between the parts of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tidegate.errors import Problem
from tidegate.pipeline.binding import check_columns
from tidegate.pipeline.datatypes import DataType
from tidegate.pipeline.graph import columns_of, in_order, inputs_of, sinks_of
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.validation import located, readable
from tidegate.pipeline.wording import did_you_mean

if TYPE_CHECKING:
    from tidegate.pipeline.pipeline import Pipeline
    from tidegate.pipeline.window import Window

REJECTED: Final = "rejected"
"""The channel for rows that were not admitted."""

Problems = Iterator[Problem]


def something_is_read(pipeline: Pipeline) -> Problems:
    """At least one source."""
    if not pipeline.sources:
        hint = "Source(name='clicks', format='files', event_time='ts', options={'path': ...})"
        yield Problem("sources", "nothing", "at least one source", hint)


def something_is_computed(pipeline: Pipeline) -> Problems:
    """At least one operator."""
    if not pipeline.operators:
        yield Problem("window", "nothing", "a window", "window=Window(kind='session', ...)")


def names_differ(pipeline: Pipeline) -> Problems:
    """Sources and operators share one space of names: inputs refer to both."""
    named = [(f"sources[{n}].name", s.name) for n, s in readable(pipeline.sources, "name")]
    named += [(f"operators[{n}].id", o.id) for n, o in readable(pipeline.operators, "id")]
    first: dict[str, str] = {}
    for at, name in named:
        if name in first:
            hint = "give it another name"
            yield Problem(at, shown(name), f"a name not used before, as at {first[name]}", hint)
        first.setdefault(name, at)


def inputs_are_known(pipeline: Pipeline) -> Problems:
    """Operators read sources and operators of this pipeline."""
    names = [source.name for source in pipeline.sources]
    names += [operator.id for operator in pipeline.operators]
    for place, operator in readable(pipeline.operators, "inputs"):
        for nth, name in enumerate(operator.inputs):
            if name not in names:
                hint = did_you_mean(name, names, f"there are {listed(names, 'and')}")
                at = f"operators[{place}].inputs[{nth}]"
                yield Problem(at, shown(name), "the name of a source or the id of an operator", hint)


def nothing_reads_itself(pipeline: Pipeline) -> Problems:
    """Rows flow one way."""
    inputs = inputs_of(pipeline)
    ordered = in_order(inputs)
    for place, operator in readable(pipeline.operators, "id"):
        if operator.id not in ordered:
            found = f"{shown(operator.id)}, whose rows come back to it or to what it reads"
            hint = "take one of the operators of the circle out of the inputs of another"
            yield Problem(f"operators[{place}].inputs", found, "inputs without a circle", hint)


def every_source_is_read(pipeline: Pipeline) -> Problems:
    """Nobody configures a source for nothing."""
    inputs = [[*operator.inputs] for operator in pipeline.operators]
    read = {name for names in (*inputs, *inputs_of(pipeline).values()) for name in names}
    for place, source in readable(pipeline.sources, "name"):
        if pipeline.operators and source.name not in read:
            found = f"{shown(source.name)}, which no operator reads"
            hint = "add it to the inputs of an operator, or remove it"
            yield Problem(f"sources[{place}].name", found, "a source that is read", hint)


def sessions_have_a_store(pipeline: Pipeline) -> Problems:
    """Sessions live for long: where they do is a decision."""
    if pipeline.state_store is None:
        hint = "state_store=StateStore() keeps state in ./.tidegate; in production kind='postgres'"
        yield Problem("state_store", "nothing", "a state store for session windows", hint)


def target_takes_emit(pipeline: Pipeline) -> Problems:
    """What was appended stays: such a target takes what is sent once, and changelogs."""
    if pipeline.target.mode != "append":
        return
    sinks = sinks_of(pipeline)
    for place, operator in readable(pipeline.operators, "id", "emit", "late_data"):
        if operator.id in sinks and not _sends_once(operator) and operator.emit != "changelog":
            yield _refused_emit(f"operators[{place}].emit", operator, pipeline.target.format)


def late_rows_have_a_channel(pipeline: Pipeline) -> Problems:
    """Rows that are kept need a place."""
    for place, operator in readable(pipeline.operators, "late_data", "late_channel"):
        channel = operator.late_channel
        if operator.late_data in ("side_output", "dlq") and channel not in pipeline.channels:
            expected = f"a channel with a target for late_data={operator.late_data!r}"
            target = "Target(format='parquet', options={'path': ...})"
            new = f"late={target}" if channel == "late" else f"channels={{{channel!r}: {target}}}"
            at = f"operators[{place}].late_channel"
            yield Problem(at, f"{shown(channel)} without a target", expected, f"add {new}")


def channels_are_used(pipeline: Pipeline) -> Problems:
    """Nobody configures a channel that nothing can ever reach."""
    used = {REJECTED, *(operator.late_channel for operator in pipeline.operators)}
    for name in pipeline.channels:
        if name not in used:
            hint = did_you_mean(name, sorted(used), "remove it")
            yield Problem(f"channels.{name}", shown(name), listed(sorted(used)), hint)


def columns_fit(pipeline: Pipeline) -> Problems:
    """Where sources declare their columns, operators read what is there."""
    columns, inputs = columns_of(pipeline), inputs_of(pipeline)
    for place, operator in readable(pipeline.operators, "id", "inputs"):
        names = inputs[operator.id]
        known = [name for name in names if name in columns]
        if len(known) < len(names):
            continue
        problems = [p for name in known for p in check_columns(operator, columns[name], of=name)]
        problems += _disagreements(operator, {name: columns[name] for name in known})
        yield from located(dict.fromkeys(problems), f"operators[{place}]")


PIPELINE: Final = (
    something_is_read,
    something_is_computed,
    names_differ,
    inputs_are_known,
    nothing_reads_itself,
    every_source_is_read,
    sessions_have_a_store,
    target_takes_emit,
    late_rows_have_a_channel,
    channels_are_used,
    columns_fit,
)
